//! A way to the hub that loses replies and sends requests twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::ToolResult;

/// One request in so many is struck, by a scattered choice: a regular one could fall on the same step of every retry.
const ONE_IN: usize = 4;

/// Knuth's multiplier: neighbours land far apart, and a run can be repeated.
const SCATTER: usize = 2_654_435_761;

/// Headers that matter to the protocol; the rest belongs to one connection.
const REQUEST_HEADERS: [&str; 5] = [
    "authorization",
    "accept",
    "content-type",
    "mcp-session-id",
    "mcp-protocol-version",
];
const REPLY_HEADERS: [&str; 3] = ["content-type", "mcp-session-id", "www-authenticate"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Manners {
    Well = 0,
    /// The hub acts, and nobody hears of it.
    LoseReplies = 1,
    /// The hub gets the same request again, and the second reply counts.
    SendTwice = 2,
}

#[derive(Clone)]
pub(super) struct Proxy {
    port: u16,
    manners: Arc<AtomicU8>,
}

struct Link {
    hub: String,
    http: reqwest::Client,
    manners: Arc<AtomicU8>,
    requests: AtomicUsize,
}

struct Request {
    method: reqwest::Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Proxy {
    pub(super) async fn start(hub_port: u16) -> ToolResult<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let manners = Arc::new(AtomicU8::new(Manners::Well as u8));
        let link = Arc::new(Link {
            hub: format!("http://127.0.0.1:{hub_port}"),
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(90))
                .build()?,
            manners: Arc::clone(&manners),
            requests: AtomicUsize::new(0),
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let link = Arc::clone(&link);
                tokio::spawn(async move { link.serve(stream).await });
            }
        });
        Ok(Self { port, manners })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn behave(&self, manners: Manners) {
        self.manners.store(manners as u8, Ordering::Relaxed);
    }
}

impl Link {
    /// One request a connection: simple, and every reply ends with its connection.
    async fn serve(&self, mut stream: TcpStream) {
        let Some(request) = read(&mut stream).await else {
            return;
        };
        let manners = self.manners.load(Ordering::Relaxed);
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let strikes = (number.wrapping_mul(SCATTER) >> 16).is_multiple_of(ONE_IN);
        if strikes && manners == Manners::SendTwice as u8 {
            let _ = self.forward(&request).await;
        }
        let reply = {
            let mut byte = [0; 1];
            tokio::select! {
                reply = self.forward(&request) => reply,
                // Whoever asked has gone: so does what waits at the hub.
                _ = stream.read(&mut byte) => return,
            }
        };
        if strikes && manners == Manners::LoseReplies as u8 {
            return;
        }
        if let Some(reply) = reply {
            let _ = stream.write_all(&reply).await;
            let _ = stream.shutdown().await;
        }
    }

    async fn forward(&self, request: &Request) -> Option<Vec<u8>> {
        let mut call = self
            .http
            .request(request.method.clone(), format!("{}{}", self.hub, request.path))
            .body(request.body.clone());
        for (name, value) in &request.headers {
            call = call.header(name, value);
        }
        let reply = call.send().await.ok()?;
        let mut head = format!("HTTP/1.1 {}\r\nconnection: close\r\n", reply.status().as_u16());
        for name in REPLY_HEADERS {
            if let Some(value) = reply.headers().get(name).and_then(|value| value.to_str().ok()) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        let body = reply.bytes().await.ok()?;
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut whole = head.into_bytes();
        whole.extend_from_slice(&body);
        Some(whole)
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let mut first = lines.next()?.split(' ');
    let method = first.next()?.parse().ok()?;
    let path = first.next()?.to_owned();
    let all: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = all.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let headers = all
        .into_iter()
        .filter(|(name, _)| REQUEST_HEADERS.contains(&name.as_str()))
        .collect();
    Some(Request {
        method,
        path,
        headers,
        body,
    })
}
