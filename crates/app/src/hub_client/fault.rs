//! The classes of what can go wrong between here and a hub, each with its words and next step.

use std::error::Error as StdError;
use std::io;

use everdict_contracts::ErrorBody;
use reqwest::{StatusCode, Url};
use rustls::CertificateError;

use super::resolve::NameFault;
use crate::hub_url;
use crate::problem::{Problem, ProblemClass};

/// Why the hub gave no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HubFault {
    /// The host name has no address.
    #[error("can't reach {hub}: name not found")]
    NameNotFound {
        /// Host and port.
        hub: String,
    },
    /// Nobody listens there.
    #[error("can't reach {hub}: refused")]
    ConnectionRefused {
        /// Host and port.
        hub: String,
    },
    /// No answer in time.
    #[error("can't reach {hub}: timed out")]
    TimedOut {
        /// Host and port.
        hub: String,
    },
    /// No way there, or cut on the way.
    #[error("can't reach {hub}: {cause}")]
    Network {
        /// Host and port.
        hub: String,
        /// The system's words.
        cause: String,
    },
    /// The secure connection failed.
    #[error("can't reach {hub}: {tls}")]
    Tls {
        /// Host and port.
        hub: String,
        /// What failed.
        tls: TlsFault,
    },
    /// Something else answered: a sign-in page or a redirect.
    #[error("can't reach {hub}: sign-in page{}", target_text(.target))]
    SignInPage {
        /// Host and port.
        hub: String,
        /// Where it wants to go.
        target: Option<String>,
    },
    /// A web server answered that is no hub.
    #[error("{hub} answered, but not as a hub ({status})")]
    NotAHub {
        /// Host and port.
        hub: String,
        /// The HTTP status.
        status: u16,
    },
    /// The credential is missing, wrong or revoked (401).
    #[error("{hub} doesn't accept this credential")]
    Unauthenticated {
        /// Host and port.
        hub: String,
        /// The hub's words.
        message: String,
    },
    /// The credential may not do this (403).
    #[error("{hub} refused: {message}")]
    Forbidden {
        /// Host and port.
        hub: String,
        /// The hub's words.
        message: String,
    },
    /// There is no such thing at the hub (404).
    #[error("{hub} knows no such thing: {message}")]
    NotFound {
        /// Host and port.
        hub: String,
        /// The hub's words.
        message: String,
    },
    /// It clashes with what the hub holds (409).
    #[error("{hub} refused: {message}")]
    Conflict {
        /// Host and port.
        hub: String,
        /// The hub's words.
        message: String,
    },
    /// The request was wrong (other 4xx).
    #[error("{hub} refused the request: {message}")]
    BadRequest {
        /// Host and port.
        hub: String,
        /// The hub's words.
        message: String,
    },
    /// Too many requests (429).
    #[error("{hub} is busy: {message}")]
    Busy {
        /// Host and port.
        hub: String,
        /// The hub's words.
        message: String,
    },
    /// The hub itself failed (5xx).
    #[error("{hub} failed ({status}): {message}")]
    HubError {
        /// Host and port.
        hub: String,
        /// The HTTP status.
        status: u16,
        /// The hub's words.
        message: String,
    },
    /// The answer isn't what the protocol says.
    #[error("{hub} gave an answer that can't be read")]
    BadAnswer {
        /// Host and port.
        hub: String,
        /// Where and why.
        cause: String,
    },
}

/// What failed in the secure connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    /// Nobody trusted has signed the certificate.
    #[error("certificate not trusted")]
    UnknownIssuer,
    /// The certificate has run out.
    #[error("certificate has expired")]
    Expired,
    /// The certificate begins in the future: most often this machine's clock is wrong.
    #[error("certificate is not valid yet")]
    NotYetValid,
    /// The certificate is for another name.
    #[error("certificate is for another name")]
    WrongName,
    /// Anything else, in the library's words.
    #[error("secure connection failed ({0})")]
    Other(String),
}

pub(super) struct Answer<'a> {
    pub(super) status: StatusCode,
    pub(super) html: bool,
    pub(super) redirected: Option<String>,
    pub(super) body: &'a [u8],
}

impl HubFault {
    /// Classifies a failed exchange.
    pub(crate) fn from_transport(base: &Url, error: &reqwest::Error) -> Self {
        let hub = hub_url::host(base);
        let mut next: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(cause) = next {
            if cause.downcast_ref::<NameFault>().is_some() {
                return Self::NameNotFound { hub };
            }
            if let Some(tls) = tls_fault(cause) {
                return Self::Tls { hub, tls };
            }
            if let Some(system) = cause.downcast_ref::<io::Error>() {
                match system.kind() {
                    io::ErrorKind::ConnectionRefused => return Self::ConnectionRefused { hub },
                    io::ErrorKind::TimedOut => return Self::TimedOut { hub },
                    _ => {}
                }
            }
            next = cause.source();
        }
        if error.is_timeout() {
            return Self::TimedOut { hub };
        }
        Self::Network {
            hub,
            cause: innermost(error),
        }
    }

    /// Classifies an answer that isn't a success.
    pub(super) fn from_answer(base: &Url, answer: &Answer<'_>) -> Self {
        let hub = hub_url::host(base);
        let status = answer.status;
        if status.is_redirection() || answer.html && status.is_success() {
            let target = answer.redirected.clone();
            return Self::SignInPage { hub, target };
        }
        let Ok(body) = serde_json::from_slice::<ErrorBody>(answer.body) else {
            return match status {
                StatusCode::UNAUTHORIZED => Self::Unauthenticated {
                    hub,
                    message: String::new(),
                },
                // A proxy in front answers for a hub that is down.
                _ if status.is_server_error() => Self::HubError {
                    hub,
                    status: status.as_u16(),
                    message: "no reason given".to_owned(),
                },
                _ => Self::NotAHub {
                    hub,
                    status: status.as_u16(),
                },
            };
        };
        let message = body.message;
        match status {
            StatusCode::UNAUTHORIZED => Self::Unauthenticated { hub, message },
            StatusCode::FORBIDDEN => Self::Forbidden { hub, message },
            StatusCode::NOT_FOUND => Self::NotFound { hub, message },
            StatusCode::CONFLICT => Self::Conflict { hub, message },
            StatusCode::TOO_MANY_REQUESTS => Self::Busy { hub, message },
            _ if status.is_client_error() => Self::BadRequest { hub, message },
            _ => Self::HubError {
                hub,
                status: status.as_u16(),
                message,
            },
        }
    }

    /// Tells whether trying again later may help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.class() == ProblemClass::HubUnreachable || matches!(self, Self::Busy { .. })
    }

    /// Returns the class a program decides by.
    #[must_use]
    pub fn class(&self) -> ProblemClass {
        match self {
            Self::NameNotFound { .. }
            | Self::ConnectionRefused { .. }
            | Self::TimedOut { .. }
            | Self::Network { .. }
            | Self::Tls { .. }
            | Self::SignInPage { .. }
            | Self::NotAHub { .. }
            | Self::HubError { .. }
            | Self::BadAnswer { .. } => ProblemClass::HubUnreachable,
            Self::Unauthenticated { .. } | Self::Forbidden { .. } => ProblemClass::Refused,
            Self::BadRequest { .. } | Self::NotFound { .. } => ProblemClass::Input,
            Self::Conflict { .. } | Self::Busy { .. } => ProblemClass::General,
        }
    }

    fn next_step(&self) -> String {
        match self {
            Self::NameNotFound { .. } => "check the spelling of the address and the network",
            Self::ConnectionRefused { .. } => {
                "check the port and that the hub is running (`everdict-runner hub` starts one here)"
            }
            Self::TimedOut { .. } | Self::Network { .. } => {
                "check the network, VPN and proxy (HTTPS_PROXY, NO_PROXY)"
            }
            Self::Tls { tls, .. } => tls.next_step(),
            Self::SignInPage { .. } => {
                "sign in to the network in a browser, then try again; or correct the address"
            }
            Self::NotAHub { .. } => "check the address: it must be the hub's own, without a page path",
            Self::Unauthenticated { .. } => {
                "it may have been revoked: make a new key or pair again (everdict-runner pair)"
            }
            Self::Forbidden { .. } => "use a key whose role allows it",
            Self::NotFound { .. } => "check the id; `everdict-runner runs` lists the runs",
            Self::Conflict { .. } => "look at what is there; a changed harness needs a new version",
            Self::BadRequest { .. } => "correct what the message names",
            Self::Busy { .. } => "wait a moment and try again",
            Self::HubError { .. } => "try again later; the hub's own log has the cause",
            Self::BadAnswer { .. } => "check that hub and runner versions fit together",
        }
        .to_owned()
    }
}

impl TlsFault {
    fn next_step(&self) -> &'static str {
        match self {
            Self::UnknownIssuer => "add the signing certificate to the system's trusted ones if you trust it",
            Self::NotYetValid => "check this machine's clock (`everdict-runner doctor` compares it)",
            Self::Expired => "check this machine's clock; if it is right, the hub needs a new certificate",
            Self::WrongName => "use the name the certificate was made for",
            Self::Other(_) => "check for a proxy that opens secure connections, and the hub's TLS set-up",
        }
    }
}

impl From<HubFault> for Problem {
    fn from(fault: HubFault) -> Self {
        let problem = Problem::new(fault.class(), fault.to_string()).fix(fault.next_step());
        match fault {
            HubFault::Unauthenticated { message, .. } if !message.is_empty() => problem.because(message),
            HubFault::BadAnswer { cause, .. } => problem.because(cause),
            _ => problem,
        }
    }
}

fn target_text(target: &Option<String>) -> String {
    target
        .as_ref()
        .map(|host| format!(" (leads to {host})"))
        .unwrap_or_default()
}

fn tls_fault(cause: &(dyn StdError + 'static)) -> Option<TlsFault> {
    let error = rustls_error(cause)?;
    Some(match error {
        rustls::Error::InvalidCertificate(reason) => match reason {
            CertificateError::UnknownIssuer => TlsFault::UnknownIssuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFault::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsFault::NotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFault::WrongName
            }
            other => TlsFault::Other(other.to_string()),
        },
        other => TlsFault::Other(other.to_string()),
    })
}

/// An `io::Error` names what it wraps by `get_ref`, not by `source`, and TLS errors come wrapped twice.
fn rustls_error<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    cause.downcast_ref::<rustls::Error>().or_else(|| {
        let wrapped = cause.downcast_ref::<io::Error>()?.get_ref()?;
        rustls_error(wrapped)
    })
}

fn innermost(error: &reqwest::Error) -> String {
    let mut last: &(dyn StdError + 'static) = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
