//! The MCP endpoint: Streamable HTTP as the protocol's clients use it.
//!
//! Written for this hub rather than taken from a library because a lease must notice that its client is
//! gone, and because replies have to keep the shapes that existing runners were built against.

mod evidence;
mod lease;
mod schema;
mod session;
mod tools;
mod wire;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use everdict_contracts::{ErrorCode, Fault, REASON_REMOVED};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use self::lease::LeaseCall;
pub(crate) use self::session::Sessions;
use self::tools::{Called, Caller};
use self::wire::{Incoming, Message, error_frame, result_frame, tool_frame, transport_error};
use crate::api::{self, Refused};
use crate::auth::Principal;
use crate::peers::News;
use crate::shared::Hubbed;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Protocol versions that are answered in kind, the latest first; it is also the answer to any other.
const VERSIONS: [&str; 5] = [
    "2025-11-25",
    "2025-06-18",
    "2025-03-26",
    "2024-11-05",
    "2024-10-07",
];

/// How often a silent stream says that it is alive: below the minute after which proxies cut one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Frame = Result<Bytes, Infallible>;

/// Answers `POST /mcp`.
pub(crate) async fn post(State(shared): State<Hubbed>, request: Request) -> Result<Response, Refused> {
    let (parts, body) = request.into_parts();
    let principal = authenticate(&shared, &parts.headers).await?;
    let accept = accepts(&parts.headers);
    if !(accept.contains("application/json") && accept.contains("text/event-stream")) {
        let text = "Not Acceptable: Client must accept both application/json and text/event-stream";
        return Ok(transport(StatusCode::NOT_ACCEPTABLE, -32_000, text));
    }
    if !api::is_json(&parts.headers) {
        let text = "Unsupported Media Type: Content-Type must be application/json";
        return Ok(transport(StatusCode::UNSUPPORTED_MEDIA_TYPE, -32_000, text));
    }
    let body = api::read_body(body).await?;
    let incoming = match Incoming::parse(&body) {
        Ok(incoming) => incoming,
        Err(error) => {
            return Err(Fault::bad_request(format!("the body is not a JSON-RPC message: {error}")).into());
        }
    };
    if let Incoming::Single(message) = &incoming
        && message.method.as_deref() == Some("initialize")
    {
        return initialize(&shared, &principal, &parts.headers, message);
    }
    let session = session(&shared, &principal, &parts.headers)?;
    if let Some(refused) = unsupported_version(&parts.headers) {
        return Ok(refused);
    }
    let caller = Caller { principal, session };
    Ok(match incoming {
        Incoming::Single(message) => single(&shared, &caller, message).await,
        Incoming::Batch(messages) => batch(&shared, &caller, messages),
    })
}

/// Answers `GET /mcp`: a stream that stays open. This server has nothing to say on it, but clients of
/// the protocol expect it to be there.
pub(crate) async fn get(State(shared): State<Hubbed>, headers: HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(&shared, &headers).await?;
    if !accepts(&headers).contains("text/event-stream") {
        let text = "Not Acceptable: Client must accept text/event-stream";
        return Ok(transport(StatusCode::NOT_ACCEPTABLE, -32_000, text));
    }
    let session = session(&shared, &principal, &headers)?;
    if let Some(refused) = unsupported_version(&headers) {
        return Ok(refused);
    }
    let Some(open) = shared.sessions.stream(&session) else {
        let text = "Conflict: Only one SSE stream is allowed per session";
        return Ok(transport(StatusCode::CONFLICT, -32_000, text));
    };
    let closing = shared.closing.clone();
    let frames = stream::unfold(open, move |open| {
        let closing = closing.clone();
        async move {
            let alive = quiet(&closing, &open.stop).await;
            alive.then(|| (Frame::Ok(Bytes::from_static(b": keep-alive\n\n")), open))
        }
    });
    Ok(event_stream(&session, Body::from_stream(frames)))
}

/// Answers `DELETE /mcp`: ends the session and whatever waits in it.
pub(crate) async fn delete(State(shared): State<Hubbed>, headers: HeaderMap) -> Result<Response, Refused> {
    let principal = authenticate(&shared, &headers).await?;
    let session = session(&shared, &principal, &headers)?;
    shared.sessions.end(&session);
    shared.tell(&News::SessionEnded(session));
    Ok(Response::new(Body::empty()))
}

/// Waits one keep-alive interval. Returns false when the stream has to end.
async fn quiet(closing: &CancellationToken, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = closing.cancelled() => false,
        () = stop.cancelled() => false,
        () = tokio::time::sleep(KEEP_ALIVE) => true,
    }
}

async fn authenticate(shared: &Hubbed, headers: &HeaderMap) -> Result<Arc<Principal>, Refused> {
    let credential = api::bearer(headers);
    let principal = match credential {
        Some(credential) => shared
            .principal(credential)
            .await
            .map_err(crate::dispatch::storage)?,
        None => None,
    };
    principal.ok_or_else(|| {
        let text = "MCP requires OAuth authentication (see resource_metadata).";
        let fault = if credential.is_some_and(|credential| shared.was_removed(credential)) {
            Fault::new(
                ErrorCode::Unauthenticated,
                "This runner was removed; pair the machine again.",
            )
            .with_data("reason", REASON_REMOVED)
        } else {
            Fault::new(ErrorCode::Unauthenticated, text)
        };
        let mut refused = Refused::from(fault);
        let base = api::base_url(headers);
        let value = format!("Bearer resource_metadata=\"{base}/.well-known/oauth-protected-resource\"");
        refused.challenge = HeaderValue::from_str(&value).ok();
        refused
    })
}

fn session(shared: &Hubbed, principal: &Principal, headers: &HeaderMap) -> Result<String, Refused> {
    let Some(id) = headers.get(SESSION) else {
        let text = "initialize request or a valid mcp-session-id is required.";
        return Err(Fault::bad_request(text).into());
    };
    match id.to_str() {
        Ok(id) if shared.sessions.knows(id, principal) => Ok(id.to_owned()),
        _ => Err(Fault::not_found("unknown mcp-session-id — start a new session (initialize).").into()),
    }
}

fn unsupported_version(headers: &HeaderMap) -> Option<Response> {
    let asked = headers.get(VERSION)?;
    if VERSIONS.iter().any(|known| asked == known) {
        return None;
    }
    let text = format!(
        "Bad Request: Unsupported protocol version: {} (supported versions: {})",
        asked.to_str().unwrap_or_default(),
        VERSIONS.join(", ")
    );
    Some(transport(StatusCode::BAD_REQUEST, -32_000, &text))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Initialize {
    protocol_version: String,
}

fn initialize(
    shared: &Hubbed,
    principal: &Principal,
    headers: &HeaderMap,
    message: &Message,
) -> Result<Response, Refused> {
    let Some(id) = &message.id else {
        return Err(Fault::bad_request("initialize needs an id").into());
    };
    if headers.contains_key(SESSION) {
        session(shared, principal, headers)?;
        let text = "Invalid Request: Server already initialized";
        return Ok(transport(StatusCode::BAD_REQUEST, -32_600, text));
    }
    let asked: Initialize = params(message).unwrap_or_default();
    let version = VERSIONS.iter().find(|known| **known == asked.protocol_version);
    let result = serde_json::json!({
        "protocolVersion": version.unwrap_or(&VERSIONS[0]),
        "capabilities": { "tools": { "listChanged": false } },
        "serverInfo": { "name": "everdict", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Everdict hub: lease jobs and report on them, or manage your runners.",
    });
    let frame = result_frame(id.get(), &result.to_string());
    Ok(event_stream(&shared.sessions.start(principal), Body::from(frame)))
}

fn params<T: for<'de> Deserialize<'de>>(message: &Message) -> Option<T> {
    serde_json::from_str(message.params.as_ref()?.get()).ok()
}

/// How one message goes on.
enum Next {
    Nothing,
    Frame(Bytes),
    Lease(String, Box<LeaseCall>),
}

async fn single(shared: &Hubbed, caller: &Caller, message: Message) -> Response {
    match handle(shared, caller, message).await {
        Next::Nothing => status(StatusCode::ACCEPTED),
        Next::Frame(frame) => event_stream(&caller.session, Body::from(frame)),
        // A job that is there already goes out together with the headers.
        Next::Lease(id, call) if !call.waits() => {
            let ready = call.answer(&id).await;
            event_stream(&caller.session, outbox(FuturesUnordered::new(), ready))
        }
        Next::Lease(id, call) => {
            let waiting: Waiting = FuturesUnordered::new();
            waiting.push(Box::pin(lease_answer(id, call)));
            event_stream(&caller.session, outbox(waiting, None))
        }
    }
}

fn batch(shared: &Hubbed, caller: &Caller, messages: Vec<Message>) -> Response {
    let answered = messages
        .iter()
        .any(|message| message.id.is_some() && message.method.is_some());
    let waiting: Waiting = FuturesUnordered::new();
    for message in messages {
        let (shared, caller) = (shared.clone(), caller.clone());
        waiting.push(Box::pin(async move {
            match handle(&shared, &caller, message).await {
                Next::Nothing => None,
                Next::Frame(frame) => Some(Answered::Frame(frame)),
                Next::Lease(id, call) => lease_answer(id, call).await,
            }
        }));
    }
    if answered {
        event_stream(&caller.session, outbox(waiting, None))
    } else {
        let drain = waiting.for_each(|_| async {});
        shared.tasks.spawn(drain);
        status(StatusCode::ACCEPTED)
    }
}

/// An answer on its way to the client.
#[expect(
    clippy::large_enum_variant,
    reason = "one per call in flight; a box each would cost more than it saves"
)]
enum Answered {
    Frame(Bytes),
    Lease(Bytes, LeaseCall),
}

type Waiting = FuturesUnordered<BoxFuture<'static, Option<Answered>>>;

async fn lease_answer(id: String, call: Box<LeaseCall>) -> Option<Answered> {
    let (frame, call) = call.answer(&id).await?;
    Some(Answered::Lease(frame, call))
}

struct Outbox {
    waiting: Waiting,
    ready: Option<(Bytes, LeaseCall)>,
    sent: Option<LeaseCall>,
}

/// Streams answers as they come. A leased job stays with its call until the connection has taken the
/// frame: it is asked for more only after that, and when it breaks first, this stream is dropped and the
/// call gives the job back.
fn outbox(waiting: Waiting, ready: Option<(Bytes, LeaseCall)>) -> Body {
    let start = Outbox {
        waiting,
        ready,
        sent: None,
    };
    Body::from_stream(stream::unfold(start, |mut outbox| async move {
        if outbox.sent.is_some() {
            // Lets the connection write the frame out, and notice a client that hung up.
            tokio::task::yield_now().await;
        }
        if let Some(call) = outbox.sent.take() {
            call.delivered();
        }
        if let Some((frame, call)) = outbox.ready.take() {
            outbox.sent = Some(call);
            return Some((Frame::Ok(frame), outbox));
        }
        loop {
            match outbox.waiting.next().await? {
                None => {}
                Some(Answered::Frame(frame)) => return Some((Frame::Ok(frame), outbox)),
                Some(Answered::Lease(frame, call)) => {
                    outbox.sent = Some(call);
                    return Some((Frame::Ok(frame), outbox));
                }
            }
        }
    }))
}

#[derive(Debug, Deserialize)]
struct CallParams {
    name: String,
    arguments: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams {
    request_id: Box<RawValue>,
}

async fn handle(shared: &Hubbed, caller: &Caller, message: Message) -> Next {
    let Some(method) = &message.method else {
        return Next::Nothing;
    };
    let Some(id) = &message.id else {
        if method == "notifications/cancelled"
            && let Some(CancelParams { request_id }) = params(&message)
        {
            let (session, request) = (&caller.session, request_id.get());
            if !shared.sessions.cancel(session, request) {
                shared.tell(&News::CalledOff(session.clone(), request.to_owned()));
            }
        }
        return Next::Nothing;
    };
    let id = id.get();
    match method.as_str() {
        "ping" => Next::Frame(result_frame(id, "{}")),
        "tools/list" => Next::Frame(result_frame(id, &schema::tools(&caller.principal).to_string())),
        "tools/call" => {
            let Some(CallParams { name, arguments }) = params(&message) else {
                return Next::Frame(error_frame(
                    id,
                    -32_602,
                    "Invalid params: a tool call needs a name",
                ));
            };
            match tools::call(shared, caller, id, &name, arguments.as_deref()).await {
                Called::Done(reply) => Next::Frame(tool_frame(id, &reply)),
                Called::Lease(call) => Next::Lease(id.to_owned(), call),
            }
        }
        _ => Next::Frame(error_frame(id, -32_601, "Method not found")),
    }
}

fn accepts(headers: &HeaderMap) -> String {
    let values = headers.get_all(header::ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .collect::<Vec<_>>()
        .join(",")
}

fn event_stream(session: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(session) = HeaderValue::from_str(session) {
        headers.insert(SESSION, session);
    }
    response
}

fn transport(status: StatusCode, code: i32, message: &str) -> Response {
    api::json_response(status, transport_error(code, message))
}

fn status(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
