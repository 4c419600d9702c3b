//! The HTTP API.

mod auth;
mod batches;
mod harnesses;
mod logs;
mod runners;
mod runs;
mod view;
mod watch;

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use everdict_contracts::{ErrorCode, Fault, decode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::Principal;
use crate::mcp;
use crate::shared::Hubbed;

/// Largest request body. Results carry traces and diffs; clients of the protocol count on this size.
const BODY_LIMIT: usize = 16 << 20;

/// How long a body may take to arrive: the largest one at 1 MB/s, with slack, and no more, so that a
/// stalled client does not hold memory.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds the routes.
pub(crate) fn router(shared: Hubbed) -> Router {
    Router::new()
        .route("/healthz", get(watch::healthz))
        .route("/readyz", get(watch::readyz))
        .route("/metrics", get(watch::metrics))
        .route("/mcp", post(mcp::post).get(mcp::get).delete(mcp::delete))
        .route("/.well-known/oauth-protected-resource", get(discovery))
        .route("/.well-known/oauth-protected-resource/mcp", get(discovery))
        .route("/auth/methods", get(auth::methods))
        .route("/auth/oidc", post(auth::sign_in).delete(auth::sign_out))
        .route("/me", get(runners::me))
        .route("/runners", get(runners::list).post(runners::pair))
        .route("/runners/{id}", axum::routing::delete(runners::revoke))
        .route("/runners/{id}/pause", post(runners::pause))
        .route("/runners/{id}/resume", post(runners::resume))
        .route("/harnesses", get(harnesses::list).post(harnesses::register))
        .route("/harnesses/{id}/{version}", get(harnesses::show))
        .route("/runs", get(runs::list).post(runs::submit))
        .route("/batches", get(batches::list))
        .route("/batches/{id}", get(batches::show))
        .route("/batches/{id}/cancel", post(batches::cancel))
        .route("/runs/{id}", get(runs::show))
        .route("/runs/{id}/cancel", post(runs::cancel))
        .route("/runs/{id}/logs", get(logs::logs))
        .route("/runs/{id}/events", get(view::events))
        .route("/runs/{id}/screen", get(view::screen))
        .route("/runs/{id}/fs", get(view::tree))
        .route("/runs/{id}/fs/file", get(view::file))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(shared)
}

async fn discovery(headers: HeaderMap) -> Response {
    let base = base_url(&headers);
    let document = serde_json::json!({
        "resource": format!("{base}/mcp"),
        "authorization_servers": [],
        "bearer_methods_supported": ["header"],
        "scopes_supported": [],
        "resource_name": "Everdict MCP",
    });
    json_response(StatusCode::OK, document.to_string())
}

async fn no_route(method: Method, uri: Uri) -> Refused {
    Fault::not_found(format!("no such route: {method} {}", uri.path())).into()
}

async fn no_method(method: Method, uri: Uri) -> Refused {
    let fault = Fault::bad_request(format!("{} does not take {method}", uri.path()));
    Refused {
        status: Some(StatusCode::METHOD_NOT_ALLOWED),
        ..Refused::from(fault)
    }
}

/// A refusal on its way out, in the error envelope.
#[derive(Debug)]
pub(crate) struct Refused {
    fault: Fault,
    /// Overrides the status that follows from the code.
    status: Option<StatusCode>,
    /// Goes into `WWW-Authenticate`.
    pub(crate) challenge: Option<HeaderValue>,
    /// Seconds, for `Retry-After`.
    retry_after: Option<u32>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            status: None,
            challenge: None,
            retry_after: None,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.fault.code.http_status());
        let status = self
            .status
            .unwrap_or(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
        // The causes of an internal failure are for the log, not for whoever asks.
        let body = everdict_contracts::ErrorBody {
            code: self.fault.code.to_string(),
            message: self.fault.message,
            data: self.fault.extra.data,
        };
        let mut response = json_response(status, serde_json::to_string(&body).unwrap_or_default());
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(retry_after) = self.retry_after {
            let seconds = HeaderValue::from(retry_after);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

pub(crate) type Answer = Result<Response, Refused>;

/// Makes a JSON response of text that is JSON already.
pub(crate) fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn answer<T: Serialize>(status: StatusCode, value: &T) -> Answer {
    match serde_json::to_string(value) {
        Ok(text) => Ok(json_response(status, text)),
        Err(error) => Err(unprintable(error)),
    }
}

fn unprintable(error: serde_json::Error) -> Refused {
    Fault::internal("the answer has no JSON form")
        .caused_by(error)
        .into()
}

/// Finds the caller, or says what a credential looks like.
async fn caller(shared: &Hubbed, headers: &HeaderMap) -> Result<std::sync::Arc<Principal>, Refused> {
    let Some(credential) = bearer(headers) else {
        let text = "Authorization: Bearer <api key or runner token> is required.";
        return Err(Fault::new(ErrorCode::Unauthenticated, text).into());
    };
    let found = shared
        .principal(credential)
        .await
        .map_err(crate::dispatch::storage)?;
    found.ok_or_else(|| Fault::new(ErrorCode::Unauthenticated, "Invalid credentials.").into())
}

/// Reads the bearer credential.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credential) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(credential.trim())
}

/// The hub's address as the caller wrote it.
pub(crate) fn base_url(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        _ => "http",
    };
    format!("{scheme}://{}", text("host").unwrap_or("localhost"))
}

/// Says whether the body claims to be JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let essence = value.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    })
}

/// Reads a body within the limits of size and time.
pub(crate) async fn read_body(body: Body) -> Result<Bytes, Refused> {
    match tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, BODY_LIMIT)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            // The connection may have broken instead, but then nobody reads this.
            let text = format!(
                "the request body is larger than {} MiB or broke off",
                BODY_LIMIT >> 20
            );
            Err(Refused {
                status: Some(StatusCode::PAYLOAD_TOO_LARGE),
                ..Refused::from(Fault::bad_request(text).caused_by(error))
            })
        }
        Err(_) => {
            let text = format!(
                "the request body did not arrive within {} s",
                BODY_TIMEOUT.as_secs()
            );
            Err(Refused {
                status: Some(StatusCode::REQUEST_TIMEOUT),
                ..Refused::from(Fault::bad_request(text))
            })
        }
    }
}

/// Reads and decodes a JSON body; a fault names its place.
async fn json_body<T: DeserializeOwned>(body: Body) -> Result<T, Refused> {
    let bytes = read_body(body).await?;
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    decode(text).map_err(|error| Fault::from(error).into())
}

/// Query parameters whose faults are told in the error envelope.
pub(crate) struct Params<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(fault) => Err(Fault::bad_request(fault.body_text()).into()),
        }
    }
}

/// Path segments whose faults are told in the error envelope.
pub(crate) struct Segments<T>(T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(segments)) => Ok(Self(segments)),
            Err(fault) => Err(Fault::bad_request(fault.body_text()).into()),
        }
    }
}

/// Runs work that must not stop half-way when the caller hangs up.
async fn finish<T: Send + 'static>(
    shared: &Hubbed,
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Refused> {
    match shared.tasks.spawn(work).await {
        Ok(outcome) => outcome.map_err(Refused::from),
        Err(error) => Err(Fault::internal("the hub failed while it answered")
            .caused_by(error)
            .into()),
    }
}
