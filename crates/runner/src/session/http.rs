//! The HTTP hop beneath rmcp.
//!
//! rmcp's stock reqwest adapter turns most statuses into prose. Here each answer keeps its status and
//! content type, because the loop decides by them. Three more differences: a reply is read to its end in
//! the POST itself, so that dropping a call closes its connection and the hub sees the long poll leave; no
//! `GET` stream is opened, since the protocol pushes nothing to a runner; the bearer is a default header
//! marked sensitive, so that rmcp never holds it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetExtensions, RequestMetaObject, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use secrecy::{ExposeSecret, SecretString};
use sse_stream::{Sse, SseStream};

use super::fault::{HttpFault, clip_line};
use super::recall::{Notice, Recall, poll_id};

/// A SYN that is not answered within this is a dead network; a handshake over a slow link takes about two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A socket left half-open by sleep or a changed network is found after the idle time and three unanswered probes:
/// 30 s, well within the lease's 120 s. The kernel's own defaults take two hours.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;
/// Below the 72 s after which the known control plane closes an idle connection, so we never race its close.
const POOL_IDLE: Duration = Duration::from_secs(60);
/// A leased job with inline files is the largest reply; the hub takes bodies of 12 to 16 MiB.
const MAX_REPLY_BYTES: usize = 32 * 1024 * 1024;
/// How long to wait for the end of an event stream after its reply, so that the connection can be reused.
const DRAIN: Duration = Duration::from_millis(20);
/// Enough of an error page to recognise it.
const PREVIEW_BYTES: usize = 4096;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Builds the one HTTP client of a session. It carries the bearer as a sensitive default header.
///
/// # Errors
/// A token with characters that can't stand in a header, or TLS that can't be set up.
pub(super) fn build_client(token: &SecretString, url: &reqwest::Url) -> Result<reqwest::Client, HttpFault> {
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).map_err(|_| {
        HttpFault::Malformed {
            detail: "the token has characters that can't stand in a header".to_owned(),
        }
    })?;
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, bearer);
    let loopback = is_loopback(url);
    let plain_loopback = loopback && url.scheme() == "http";
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(KEEPALIVE_IDLE)
        .tcp_keepalive_interval(KEEPALIVE_INTERVAL)
        .tcp_keepalive_retries(KEEPALIVE_PROBES)
        .tcp_nodelay(true)
        .pool_idle_timeout(POOL_IDLE)
        // A redirect would carry the session id, and a POST turned GET would lose the message.
        .redirect(reqwest::redirect::Policy::none());
    if plain_loopback {
        // No TLS can happen here (no proxy, no redirects), so the OS trust store is neither needed nor read: it
        // would cost a hub on the same machine its start-up time, and fail where there is no store.
        builder = builder.no_proxy().tls_certs_only(std::iter::empty());
    } else if loopback {
        builder = builder.no_proxy();
    }
    builder.build().map_err(HttpFault::from)
}

fn is_loopback(url: &reqwest::Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// rmcp's HTTP backend for one session.
#[derive(Clone)]
pub(super) struct HubHttp {
    client: reqwest::Client,
    /// The last fault, because a failed `initialize` reaches the caller of rmcp only as text.
    last_fault: Arc<Mutex<Option<HttpFault>>>,
    recall: Recall,
}

impl HubHttp {
    pub(super) fn new(client: reqwest::Client, recall: Recall) -> Self {
        Self {
            client,
            last_fault: Arc::default(),
            recall,
        }
    }

    /// Takes the fault of the hop that failed last.
    pub(super) fn take_fault(&self) -> Option<HttpFault> {
        self.last_fault.lock().ok()?.take()
    }

    async fn post(
        &self,
        uri: &str,
        message: ClientJsonRpcMessage,
        session_id: Option<&str>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpFault> {
        if let Some(id) = session_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(SESSION_ID, id);
        }
        match poll_id(&message) {
            None => self.exchange(uri, message, &headers).await,
            Some(id) => {
                let exchange = self.exchange(uri, message, &headers);
                let notice = Notice {
                    client: &self.client,
                    uri,
                    headers: &headers,
                    id,
                };
                self.recall.heed(exchange, notice).await
            }
        }
    }

    async fn exchange(
        &self,
        uri: &str,
        mut message: ClientJsonRpcMessage,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpFault> {
        strip_progress_token(&mut message);
        let mut request = self.client.post(uri).header(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = request.json(&message).send().await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return Err(refused(response).await);
        }
        let session = response
            .headers()
            .get(SESSION_ID)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let kind = media_type(response.headers());
        let awaits_reply = matches!(message, ClientJsonRpcMessage::Request(_));
        let reply = match kind.as_str() {
            _ if !awaits_reply && kind != "text/html" => {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            JSON => read_json(response).await?,
            EVENT_STREAM => read_event(response).await?,
            _ => {
                return Err(HttpFault::NotMcp {
                    detail: format!("content type {kind:?}, {}", preview(response).await),
                });
            }
        };
        Ok(StreamableHttpPostResponse::Json(reply, session))
    }
}

impl StreamableHttpClient for HubHttp {
    type Error = HttpFault;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<HttpFault>> {
        self.post(&uri, message, session_id.as_deref(), custom_headers)
            .await
            .map_err(|fault| {
                if let Ok(mut last) = self.last_fault.lock() {
                    *last = Some(fault.clone());
                }
                StreamableHttpError::Client(fault)
            })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<HttpFault>> {
        let mut request = self.client.delete(uri.as_ref());
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        // Best effort: a session that is gone already, or a hub that is, needs no clean-up from us.
        let _ = request.header(SESSION_ID, session_id.as_ref()).send().await;
        Ok(())
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<HttpFault>> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

/// rmcp asks for progress on every call; a runner never reads it, and the recorded traffic has none.
fn strip_progress_token(message: &mut ClientJsonRpcMessage) {
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::CallToolRequest(_))
    {
        let _ = request.request.extensions_mut().remove::<RequestMetaObject>();
    }
}

fn media_type(headers: &HeaderMap) -> String {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|value| value.trim().to_ascii_lowercase())
        .unwrap_or_default()
}

async fn read_json(response: reqwest::Response) -> Result<ServerJsonRpcMessage, HttpFault> {
    let body = read_bounded(response).await?;
    parse_reply(&body)
}

async fn read_bounded(mut response: reqwest::Response) -> Result<Vec<u8>, HttpFault> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_REPLY_BYTES {
            return Err(HttpFault::Malformed {
                detail: format!("the reply is larger than {MAX_REPLY_BYTES} bytes"),
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads an event stream up to its JSON-RPC reply. A stream that ends without one is a lost reply.
async fn read_event(response: reqwest::Response) -> Result<ServerJsonRpcMessage, HttpFault> {
    let mut seen = 0_usize;
    let mut lost = None;
    let bytes = response.bytes_stream().map(|chunk| {
        let chunk = chunk.map_err(|error| std::io::Error::other(HttpFault::from(error)))?;
        seen += chunk.len();
        if seen > MAX_REPLY_BYTES {
            return Err(std::io::Error::other("the reply is too large"));
        }
        Ok(chunk)
    });
    let mut events = std::pin::pin!(SseStream::from_bytes_stream(bytes));
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                lost = Some(clip_line(&error.to_string()));
                break;
            }
        };
        let Some(data) = event.data.filter(|data| !data.trim().is_empty()) else {
            continue;
        };
        let message = parse_reply(data.as_bytes())?;
        if matches!(
            message,
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)
        ) {
            let _ = tokio::time::timeout(DRAIN, async { while events.next().await.is_some() {} }).await;
            return Ok(message);
        }
    }
    Err(HttpFault::Transport {
        cause: super::UnreachableCause::Reset,
        detail: lost.unwrap_or_else(|| "the stream ended before the reply".to_owned()),
    })
}

fn parse_reply(body: &[u8]) -> Result<ServerJsonRpcMessage, HttpFault> {
    serde_json::from_slice(body).map_err(|error| HttpFault::Malformed {
        detail: format!(
            "not a JSON-RPC message ({error}): {}",
            clip_line(&String::from_utf8_lossy(&body[..body.len().min(PREVIEW_BYTES)]))
        ),
    })
}

/// Gives a non-success answer its class: a redirect or an HTML page is not a hub, the rest keeps its status.
async fn refused(response: reqwest::Response) -> HttpFault {
    let status = response.status();
    if status.is_redirection() {
        let target = response
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok())
            .map_or_else(|| "nowhere".to_owned(), clip_line);
        return HttpFault::NotMcp {
            detail: format!("HTTP {status} redirects to {target}"),
        };
    }
    let html = media_type(response.headers()) == "text/html";
    let (body, reason) = told(response).await;
    // 5xx pages of a proxy before the hub are HTML too, and mean "the hub is down".
    if html && status.is_client_error() {
        return HttpFault::NotMcp {
            detail: format!("HTTP {status}, {body}"),
        };
    }
    HttpFault::Status {
        status: status.as_u16(),
        detail: body,
        reason,
    }
}

async fn preview(response: reqwest::Response) -> String {
    told(response).await.0
}

/// The first words of an answer, and the machine-readable reason where there is one.
async fn told(mut response: reqwest::Response) -> (String, Option<String>) {
    let mut body = Vec::new();
    while body.len() < PREVIEW_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    body.truncate(PREVIEW_BYTES);
    let text = String::from_utf8_lossy(&body).into_owned();
    // The hub's errors are `{code, message, data}`; the sentence is what a person wants to read.
    let value = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
    let part = |path: &str| value.pointer(path)?.as_str().map(str::to_owned);
    let words = match part("/message") {
        Some(message) => clip_line(&message),
        None if text.trim().is_empty() => "empty body".to_owned(),
        None => clip_line(&text),
    };
    (words, part("/data/reason"))
}
