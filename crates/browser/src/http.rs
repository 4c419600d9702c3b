//! The HTTP side of a browser: one request, one connection, one deadline.
//!
//! Written out because Chromium answers `500` to a `Host` header that is a name other than `localhost`, and keeps the
//! connection open whatever the client asks: the header is always `localhost`, the end is found by `Content-Length`.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::CdpError;
use crate::text::clip;

/// Chromium's own heads are below 1 KiB.
const MAX_HEAD: usize = 16 * 1024;

/// A listing holds the full URL of each tab, `data:` URLs included; beyond this it is no use to anybody.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// Characters of a refusal that are worth repeating.
const MAX_REFUSAL: usize = 200;

/// Host and port of the far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Opens a connection. Cancel safe.
pub(crate) async fn connect(address: &Address) -> Result<TcpStream, CdpError> {
    let unreachable = |source| CdpError::Unreachable {
        address: address.to_string(),
        source,
    };
    let stream = TcpStream::connect((address.host.as_str(), address.port))
        .await
        .map_err(unreachable)?;
    // Small messages both ways: without this each waits for the acknowledgement of the one before.
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

/// Sends one request and returns the body of a `2xx` answer. Cancel safe; a cancelled request may have had its effect.
///
/// # Errors
/// Unreachable, silent beyond the deadline, any other status, or a body beyond [`MAX_BODY`].
pub(crate) async fn request(
    address: &Address,
    verb: &str,
    path: &str,
    limit: Duration,
) -> Result<Vec<u8>, CdpError> {
    let what = clip(path, MAX_REFUSAL);
    tokio::time::timeout(limit, exchange(address, verb, path, &what))
        .await
        .map_err(|_| CdpError::TimedOut {
            what: what.clone(),
            limit,
        })?
}

async fn exchange(address: &Address, verb: &str, path: &str, what: &str) -> Result<Vec<u8>, CdpError> {
    let mut stream = connect(address).await?;
    let lost = |source| CdpError::Unreachable {
        address: address.to_string(),
        source,
    };
    let head = format!("{verb} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.map_err(lost)?;
    let (head, mut body) = read_head(&mut stream, what).await.map_err(|error| match error {
        HeadError::Io(source) => lost(source),
        HeadError::Cdp(error) => error,
    })?;
    let length = head.length.unwrap_or(MAX_BODY + 1);
    while body.len() < length {
        if body.len() > MAX_BODY || head.length.is_some_and(|length| length > MAX_BODY) {
            return Err(CdpError::TooLarge {
                what: what.to_owned(),
                limit: MAX_BODY,
            });
        }
        let read = stream.read_buf(&mut body).await.map_err(lost)?;
        if read == 0 {
            if head.length.is_some() {
                return Err(lost(io::ErrorKind::UnexpectedEof.into()));
            }
            break;
        }
    }
    body.truncate(length);
    if !(200..300).contains(&head.status) {
        let body = clip(String::from_utf8_lossy(&body).trim(), MAX_REFUSAL);
        return Err(CdpError::Status {
            what: what.to_owned(),
            status: head.status,
            body,
        });
    }
    Ok(body)
}

struct Head {
    status: u16,
    length: Option<usize>,
}

enum HeadError {
    Io(io::Error),
    Cdp(CdpError),
}

/// Reads up to the empty line; returns what came after it too.
async fn read_head(stream: &mut TcpStream, what: &str) -> Result<(Head, Vec<u8>), HeadError> {
    let garbled = |why: &str| {
        HeadError::Cdp(CdpError::Garbled {
            what: what.to_owned(),
            why: why.to_owned(),
        })
    };
    let mut bytes = Vec::with_capacity(4096);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > MAX_HEAD {
            return Err(garbled("its head doesn't end"));
        }
        if stream.read_buf(&mut bytes).await.map_err(HeadError::Io)? == 0 {
            return Err(HeadError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
    };
    let body = bytes.split_off(end + 4);
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let status = lines
        .next()
        .filter(|line| line.starts_with("HTTP/1."))
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| garbled("it isn't HTTP"))?;
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok());
    Ok((Head { status, length }, body))
}

/// Percent-encodes a URL to stand behind a `?`.
pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .fold(String::with_capacity(text.len()), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
            out
        })
}
