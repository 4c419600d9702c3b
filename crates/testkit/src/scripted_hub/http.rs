//! The HTTP and JSON-RPC skin: bearer, sessions, event streams, faults.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use serde_json::{Value, json};

use super::state::{Call, State};
use super::{Fault, ScriptedHub};

const SESSION: &str = "mcp-session-id";

pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/mcp", post(message).delete(end_session))
        .with_state(state)
}

fn error(status: u16, code: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (
        status,
        axum::Json(json!({"code": code, "message": format!("scripted {code}")})),
    )
        .into_response()
}

fn authorised(state: &State, headers: &HeaderMap) -> bool {
    let expected = format!("Bearer {}", ScriptedHub::TOKEN);
    !state.read(|inner| inner.revoked)
        && headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            == Some(expected.as_str())
}

fn session_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(SESSION)?.to_str().ok()?.to_owned())
}

async fn end_session(extract::State(state): extract::State<Arc<State>>, headers: HeaderMap) -> Response {
    let known = session_of(&headers).is_some_and(|id| {
        state.edit(|inner| {
            let known = inner.sessions.remove(&id);
            inner.deleted += usize::from(known);
            known
        })
    });
    if known {
        StatusCode::OK.into_response()
    } else {
        error(404, "NOT_FOUND")
    }
}

async fn message(
    extract::State(state): extract::State<Arc<State>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(status) = state.read(|inner| inner.outage) {
        state.edit(|inner| inner.missed += 1);
        return error(status, "UPSTREAM_ERROR");
    }
    if !authorised(&state, &headers) {
        state.edit(|inner| inner.rejected += 1);
        return error(401, "UNAUTHENTICATED");
    }
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return error(400, "BAD_REQUEST");
    };
    let method = body["method"].as_str().unwrap_or_default();
    let id = body["id"].clone();
    if method == "initialize" {
        return initialize(&state, &body["params"], &id).await;
    }
    let Some(session) = session_of(&headers) else {
        return error(400, "BAD_REQUEST");
    };
    if !state.read(|inner| inner.sessions.contains(&session)) {
        return error(404, "NOT_FOUND");
    }
    if id.is_null() {
        if method == "notifications/cancelled" {
            state.call_off(&session, &body["params"]["requestId"]);
        }
        return StatusCode::ACCEPTED.into_response();
    }
    if method == "tools/call" {
        return call(&state, &session, &body["params"], &id).await;
    }
    reply(
        &state,
        &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
    )
}

async fn initialize(state: &Arc<State>, params: &Value, id: &Value) -> Response {
    record(state, "initialize", params, params, "");
    if let Some(fault) = state.strike("initialize")
        && let Some(response) = misbehave(state, fault, id).await
    {
        return response;
    }
    let session = uuid::Uuid::new_v4().to_string();
    state.edit(|inner| {
        inner.sessions.insert(session.clone());
        inner.opened += 1;
    });
    let mut response = reply(
        state,
        &json!({"jsonrpc": "2.0", "id": id, "result": {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "everdict", "version": "0.1.0"},
        }}),
    );
    if let Ok(value) = HeaderValue::from_str(&session) {
        response.headers_mut().insert(SESSION, value);
    }
    response
}

async fn call(state: &Arc<State>, session: &str, params: &Value, id: &Value) -> Response {
    let name = params["name"].as_str().unwrap_or_default();
    let args = &params["arguments"];
    record(state, name, args, params, session);
    let fault = state.strike(name);
    let drop_reply = matches!(fault, Some(Fault::DropReply));
    if let Some(fault) = fault
        && let Some(response) = misbehave(state, fault, id).await
    {
        return response;
    }
    let result = tokio::select! {
        biased;
        result = state.tool(name, args) => result,
        // As a healthy hub does it: the stream ends without an answer.
        () = state.called_off(session, id) => return broken(),
    };
    let result = match result {
        Ok(value) => {
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            json!({"content": [{"type": "text", "text": text}]})
        }
        Err(text) => json!({"content": [{"type": "text", "text": text}], "isError": true}),
    };
    if drop_reply {
        return broken();
    }
    reply(state, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn record(state: &State, tool: &str, args: &Value, params: &Value, session: &str) {
    state.edit(|inner| {
        inner.calls.push(Call {
            tool: tool.to_owned(),
            args: args.clone(),
            params: params.clone(),
            session: session.to_owned(),
            at: Instant::now(),
        });
    });
}

/// Carries out a fault. `None` means that the call goes on.
async fn misbehave(state: &State, fault: Fault, id: &Value) -> Option<Response> {
    match fault {
        Fault::Status(status) => Some(error(status, "SCRIPTED")),
        Fault::Html => Some(
            (
                [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
                "<html><body>Sign in to the hotel network</body></html>",
            )
                .into_response(),
        ),
        Fault::Refuse(text) => {
            let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
            Some(reply(
                state,
                &json!({"jsonrpc": "2.0", "id": id, "result": result}),
            ))
        }
        Fault::LoseSessions => {
            state.edit(|inner| inner.sessions.clear());
            Some(error(404, "NOT_FOUND"))
        }
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            None
        }
        Fault::DropReply => None,
    }
}

fn reply(state: &State, message: &Value) -> Response {
    if state.read(|inner| inner.json_replies) {
        return axum::Json(message).into_response();
    }
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        format!("event: message\ndata: {message}\n\n"),
    )
        .into_response()
}

/// A 200 whose body breaks off: the client sees a reset connection.
fn broken() -> Response {
    let body =
        stream::once(async { Err::<Bytes, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset)) });
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(body),
    )
        .into_response()
}
