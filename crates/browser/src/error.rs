//! What can go wrong between here and a browser.

use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};
use tokio_tungstenite::tungstenite;

/// A call to a browser that didn't work.
#[derive(Debug, thiserror::Error)]
pub enum CdpError {
    /// The address can't be that of a browser.
    #[error("`{base}` is not the address of a browser: {why}")]
    BadBase {
        /// The address as it was given.
        base: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing listens, or the network is in the way.
    #[error("the browser at {address} can't be reached")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// No answer in time; the browser may still be working on it.
    #[error("the browser didn't answer `{what}` within {} ms", limit.as_millis())]
    TimedOut {
        /// The method or path.
        what: String,
        /// How long it was given.
        limit: Duration,
    },
    /// The HTTP side said no.
    #[error("the browser answered `{what}` with {status}: {body}")]
    Status {
        /// The path.
        what: String,
        /// The HTTP status.
        status: u16,
        /// The start of the answer.
        body: String,
    },
    /// The protocol side said no.
    #[error("the browser refused `{method}`: {message}")]
    Refused {
        /// The method.
        method: String,
        /// The browser's words.
        message: String,
    },
    /// The answer is not what the protocol promises.
    #[error("the browser's answer to `{what}` isn't understood: {why}")]
    Garbled {
        /// The method or path.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The answer is larger than anything useful.
    #[error("the browser's answer to `{what}` is larger than {limit} bytes")]
    TooLarge {
        /// The path.
        what: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection broke.
    #[error("the connection to the browser broke")]
    Broken(#[source] Box<tungstenite::Error>),
    /// The browser hung up: the page or the browser is gone.
    #[error("the browser closed the connection")]
    Closed,
    /// No page answers.
    #[error("no page of the browser answers")]
    NoPage,
}

impl From<tungstenite::Error> for CdpError {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => Self::Closed,
            other => Self::Broken(Box::new(other)),
        }
    }
}

impl From<CdpError> for Fault {
    fn from(error: CdpError) -> Self {
        let code = match error {
            CdpError::BadBase { .. } => ErrorCode::BadRequest,
            _ => ErrorCode::UpstreamError,
        };
        Self::new(code, "the browser failed").caused_by(error)
    }
}
