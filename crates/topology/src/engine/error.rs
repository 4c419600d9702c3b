use std::fmt;
use std::time::Duration;

use bollard::errors::Error;
use everdict_contracts::{ErrorCode, Fault};

/// What went wrong, as far as a caller can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineErrorKind {
    /// The container, network or volume isn't there.
    NotFound,
    /// The image isn't on this machine.
    NoSuchImage,
    /// A container of that name exists.
    NameTaken,
    /// The object is in a state that forbids the call, such as exec in a stopped container.
    Conflict,
    /// The host port is in use.
    PortTaken,
    /// The daemon has no address range left for another network.
    AddressPoolExhausted,
    /// The asked-for address range is in use.
    AddressesTaken,
    /// Several networks have that name.
    Ambiguous,
    /// Containers are still attached to the network.
    InUse,
    /// The daemon's disk is full.
    DiskFull,
    /// The image's command can't be executed.
    BadCommand,
    /// An image can't be pulled.
    PullFailed,
    /// Nothing answers at the daemon's address, or the connection broke.
    Unreachable,
    /// The daemon didn't answer in time.
    TimedOut,
    /// Anything else.
    Other,
}

/// A call to the daemon that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub struct EngineError {
    /// What to make of it.
    pub kind: EngineErrorKind,
    /// The HTTP status, when the daemon answered.
    pub status: Option<u16>,
    /// What was tried, such as `create a network`.
    pub operation: &'static str,
    /// The daemon's own words.
    pub text: String,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.text)?;
        if let Some(hint) = self.kind.hint() {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl EngineErrorKind {
    fn hint(self) -> Option<&'static str> {
        match self {
            Self::DiskFull => {
                Some("the docker daemon's disk is full: free space, for instance with `docker system prune`")
            }
            Self::AddressPoolExhausted => Some("remove networks that nobody needs: `docker network prune`"),
            Self::Unreachable => Some("is docker running, and may this user talk to it?"),
            _ => None,
        }
    }
}

impl EngineError {
    /// Makes an error of a caller's own finding.
    pub(crate) fn new(kind: EngineErrorKind, operation: &'static str, text: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            operation,
            text: text.into(),
        }
    }

    pub(crate) fn timed_out(operation: &'static str, limit: Duration) -> Self {
        let text = format!("the docker daemon didn't answer within {} s", limit.as_secs());
        Self::new(EngineErrorKind::TimedOut, operation, text)
    }

    pub(crate) fn from_bollard(operation: &'static str, error: Error) -> Self {
        match error {
            Error::DockerResponseServerError { status_code, message } => Self {
                kind: classify(status_code, &message),
                status: Some(status_code),
                operation,
                text: message,
            },
            Error::DockerStreamError { error } => {
                let kind = if disk_full(&error) {
                    EngineErrorKind::DiskFull
                } else {
                    EngineErrorKind::Other
                };
                Self::new(kind, operation, error)
            }
            Error::RequestTimeoutError => Self::new(EngineErrorKind::TimedOut, operation, error.to_string()),
            Error::IOError { .. }
            | Error::HyperResponseError { .. }
            | Error::HyperLegacyError { .. }
            | Error::SocketNotFoundError(_)
            | Error::UnsupportedURISchemeError { .. } => {
                Self::new(EngineErrorKind::Unreachable, operation, chain(&error))
            }
            other => Self::new(EngineErrorKind::Other, operation, chain(&other)),
        }
    }

    /// Tells whether the object is simply not there.
    pub fn is_not_found(&self) -> bool {
        self.kind == EngineErrorKind::NotFound
    }

    /// Tells whether it is the daemon that isn't there: what it would have said is nobody's to guess.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self.kind,
            EngineErrorKind::Unreachable | EngineErrorKind::TimedOut
        )
    }

    /// Turns the error into the failure of a case: the machine's, but for an image that can't run.
    pub fn into_fault(self) -> Fault {
        let code = match self.kind {
            EngineErrorKind::NoSuchImage | EngineErrorKind::BadCommand => ErrorCode::BadRequest,
            _ => ErrorCode::DriverProvisionFailed,
        };
        Fault::new(code, self.to_string())
    }
}

/// The message of an error with those of its causes: the client hides `connection refused` behind its own words.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    text
}

fn disk_full(text: &str) -> bool {
    text.to_ascii_lowercase().contains("no space left on device")
}

/// Reads status and text together: 404 also stands for an exhausted address pool, 500 for a port in use.
fn classify(status: u16, message: &str) -> EngineErrorKind {
    let text = message.to_ascii_lowercase();
    let says = |part: &str| text.contains(part);
    if disk_full(&text) {
        return EngineErrorKind::DiskFull;
    }
    if says("non-overlapping ipv4 address pool")
        || says("all predefined address pools have been fully subnetted")
    {
        return EngineErrorKind::AddressPoolExhausted;
    }
    if says("pool overlaps with other one on this address space") {
        return EngineErrorKind::AddressesTaken;
    }
    if says("port is already allocated") || says("address already in use") {
        return EngineErrorKind::PortTaken;
    }
    if says("is ambiguous") {
        return EngineErrorKind::Ambiguous;
    }
    if says("oci runtime create failed")
        || says("failed to create shim task")
        || says("failed to create task")
    {
        return EngineErrorKind::BadCommand;
    }
    match status {
        404 if says("no such image") => EngineErrorKind::NoSuchImage,
        404 => EngineErrorKind::NotFound,
        409 if says("is already in use by container") || says("already exists") => EngineErrorKind::NameTaken,
        409 => EngineErrorKind::Conflict,
        403 if says("has active endpoints") => EngineErrorKind::InUse,
        _ => EngineErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::{EngineErrorKind as Kind, classify};

    #[test]
    fn the_daemons_words_decide_where_the_status_misleads() {
        let cases = [
            (404, "No such image: nosuch:1", Kind::NoSuchImage),
            (404, "No such container: gone", Kind::NotFound),
            (
                404,
                "could not find an available, non-overlapping IPv4 address pool among the defaults",
                Kind::AddressPoolExhausted,
            ),
            (
                400,
                "all predefined address pools have been fully subnetted",
                Kind::AddressPoolExhausted,
            ),
            (
                403,
                "Pool overlaps with other one on this address space",
                Kind::AddressesTaken,
            ),
            (
                403,
                "error while removing network: network n id 1 has active endpoints",
                Kind::InUse,
            ),
            (
                409,
                "Conflict. The container name \"/a\" is already in use by container \"b\".",
                Kind::NameTaken,
            ),
            (409, "Container a is not running", Kind::Conflict),
            (
                400,
                "network a is ambiguous (2 matches found on name)",
                Kind::Ambiguous,
            ),
            (
                500,
                "Bind for 127.0.0.1:80 failed: port is already allocated",
                Kind::PortTaken,
            ),
            (
                500,
                "listen tcp4 127.0.0.1:80: bind: address already in use",
                Kind::PortTaken,
            ),
            (
                400,
                "failed to create shim task: OCI runtime create failed: exec: \"/no\"",
                Kind::BadCommand,
            ),
            (500, "write /x/link: no space left on device", Kind::DiskFull),
            (500, "something new", Kind::Other),
        ];
        for (status, text, kind) in cases {
            assert_eq!(classify(status, text), kind, "{status} {text}");
        }
    }
}
