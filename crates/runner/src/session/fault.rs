//! Why a call to the hub failed, in the classes the loop acts on.

use std::error::Error as StdError;
use std::fmt;

use everdict_contracts::REASON_REMOVED;

/// A call that did not end in a reply of the expected shape.
///
/// The loop and the UI act on the variant, never on the text.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// A fresh `initialize` was answered with 401: the token is unknown or was revoked.
    #[error("the hub refused the token: {reason}")]
    Unauthorized {
        /// What the hub said, already clipped.
        reason: String,
        /// The hub says that it removed this runner, which no trying again changes.
        removed: bool,
    },
    /// No usable answer arrived.
    #[error("no answer from the hub ({cause}): {detail}")]
    Unreachable {
        /// The class of the failure.
        cause: UnreachableCause,
        /// One line for a person.
        detail: String,
    },
    /// Something answered that does not speak MCP: a sign-in page, a proxy, another web site.
    #[error("the answer is not from a hub: {detail}")]
    NotAHub {
        /// Content type or redirect target, and the first words of the body.
        detail: String,
    },
    /// The hub understood the call and refused it (`isError`, or a JSON-RPC error).
    #[error("the hub refused the call: {text}")]
    Refused {
        /// The text of the refusal.
        text: String,
    },
    /// The reply arrived and does not have the shape of the protocol.
    #[error("the hub's reply could not be read: {detail}")]
    Malformed {
        /// Where the reply leaves the protocol.
        detail: String,
    },
    /// The poll was called off here, and brought nothing.
    #[error("the poll was called off")]
    CalledOff,
}

impl CallError {
    /// Whether the session may be at fault, so that a new one is worth one try.
    pub(super) fn may_be_the_session(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotAHub { .. } | Self::Malformed { .. } => true,
            Self::Unauthorized { .. } | Self::Refused { .. } | Self::CalledOff => false,
        }
    }

    /// Whether the refusal is the hub's schema speaking, so that another shape may be accepted.
    #[must_use]
    pub fn is_schema_refusal(&self) -> bool {
        matches!(self, Self::Refused { text } if text.contains("-32602"))
    }
}

/// The classes of "no answer" that have different next steps for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnreachableCause {
    /// Nothing listens at the address.
    Refused,
    /// The host name does not resolve.
    Dns,
    /// The TLS handshake failed: unknown issuer, wrong name, expired.
    Tls,
    /// No answer within the call's time.
    Timeout,
    /// The connection broke during the call.
    Reset,
    /// The hub, or a proxy before it, answered with this HTTP status.
    Http(u16),
    /// None of the above.
    Other,
}

impl fmt::Display for UnreachableCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("connection refused"),
            Self::Dns => f.write_str("name not found"),
            Self::Tls => f.write_str("TLS"),
            Self::Timeout => f.write_str("timed out"),
            Self::Reset => f.write_str("connection lost"),
            Self::Http(status) => write!(f, "HTTP {status}"),
            Self::Other => f.write_str("network"),
        }
    }
}

/// What the HTTP hop saw, before the session gives it a meaning.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum HttpFault {
    #[error("HTTP {status}: {detail}")]
    Status {
        status: u16,
        detail: String,
        /// What the hub gives as the machine-readable reason.
        reason: Option<String>,
    },
    #[error("{detail}")]
    NotMcp { detail: String },
    #[error("{cause}: {detail}")]
    Transport { cause: UnreachableCause, detail: String },
    #[error("{detail}")]
    Malformed { detail: String },
    #[error("the poll was called off")]
    CalledOff,
}

impl HttpFault {
    /// The meaning of the fault on a call within a session. A 401 here may still be a lost session.
    pub(super) fn in_session(self) -> CallError {
        match self {
            Self::Status { status, detail, .. } => CallError::Unreachable {
                cause: UnreachableCause::Http(status),
                detail,
            },
            Self::NotMcp { detail } => CallError::NotAHub { detail },
            Self::Transport { cause, detail } => CallError::Unreachable { cause, detail },
            Self::Malformed { detail } => CallError::Malformed { detail },
            Self::CalledOff => CallError::CalledOff,
        }
    }

    /// The meaning of the fault on a fresh `initialize`, where a 401 can only be the token.
    pub(super) fn at_initialize(self) -> CallError {
        match self {
            Self::Status {
                status: 401,
                detail,
                reason,
            } => CallError::Unauthorized {
                reason: detail,
                removed: reason.as_deref() == Some(REASON_REMOVED),
            },
            other => other.in_session(),
        }
    }
}

impl From<reqwest::Error> for HttpFault {
    fn from(error: reqwest::Error) -> Self {
        // The URL is ours and may carry a user's credentials; the detail must not repeat it.
        let error = error.without_url();
        let detail = innermost(&error);
        Self::Transport {
            cause: classify(&error, &detail),
            detail,
        }
    }
}

fn classify(error: &reqwest::Error, detail: &str) -> UnreachableCause {
    if error.is_timeout() {
        return UnreachableCause::Timeout;
    }
    let mut text = detail.to_ascii_lowercase();
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            match io.kind() {
                std::io::ErrorKind::ConnectionRefused => return UnreachableCause::Refused,
                std::io::ErrorKind::TimedOut => return UnreachableCause::Timeout,
                std::io::ErrorKind::ConnectionReset
                | std::io::ErrorKind::ConnectionAborted
                | std::io::ErrorKind::BrokenPipe
                | std::io::ErrorKind::UnexpectedEof => return UnreachableCause::Reset,
                _ => {}
            }
        }
        text.push(' ');
        text.push_str(&current.to_string().to_ascii_lowercase());
        source = current.source();
    }
    // The resolver's and rustls' errors are not public types here; their words are stable enough for a hint.
    if text.contains("dns") || text.contains("lookup address") {
        UnreachableCause::Dns
    } else if text.contains("certificate") || text.contains("tls") || text.contains("handshake") {
        UnreachableCause::Tls
    } else if text.contains("connection closed") || text.contains("incomplete message") {
        UnreachableCause::Reset
    } else {
        UnreachableCause::Other
    }
}

fn innermost(error: &dyn StdError) -> String {
    let mut deepest = error.to_string();
    let mut source = error.source();
    while let Some(current) = source {
        deepest = current.to_string();
        source = current.source();
    }
    clip_line(&deepest)
}

/// One line of at most [`DETAIL_CHARS`] characters, control characters replaced.
pub(super) fn clip_line(text: &str) -> String {
    /// Long enough for a sentence and a code, short enough for a tray tooltip and a status field.
    const DETAIL_CHARS: usize = 160;
    let mut line: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(DETAIL_CHARS)
        .collect();
    if text.trim().chars().count() > DETAIL_CHARS {
        line.push('…');
    }
    line
}
