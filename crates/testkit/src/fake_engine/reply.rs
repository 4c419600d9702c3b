//! Requests and answers in the daemon's manner.

use std::collections::HashMap;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::Stream;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use serde_json::{Value, json};

pub(super) type Reply = Response<Body>;

/// A request, taken apart.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    /// Without the version.
    pub(super) path: Vec<String>,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) upgrade: Option<OnUpgrade>,
}

impl Ask {
    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(
            self.query.get(name).map(String::as_str),
            Some("1" | "true" | "True")
        )
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn json(&self) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|error| Refusal::new(400, error.to_string()))
    }

    /// The values of one filter, which comes as a list or as a map to `true`.
    pub(super) fn filter(&self, name: &str) -> Vec<String> {
        let filters: Value = serde_json::from_str(self.text("filters")).unwrap_or_default();
        match &filters[name] {
            Value::Array(values) => values
                .iter()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect(),
            Value::Object(values) => values.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }
}

/// Tells whether labels have all that is asked for, as `key` or `key=value`.
pub(super) fn labels_match(wanted: &[String], labels: &std::collections::BTreeMap<String, String>) -> bool {
    wanted.iter().all(|wanted| match wanted.split_once('=') {
        Some((key, value)) => labels.get(key).is_some_and(|have| have == value),
        None => labels.contains_key(wanted),
    })
}

/// An answer that says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(super) fn reply(&self) -> Reply {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        json_as(status, &json!({"message": self.message}))
    }
}

pub(super) fn json_as(status: StatusCode, value: &Value) -> Reply {
    with_type(status, "application/json", Body::from(value.to_string()))
}

pub(super) fn ok(value: &Value) -> Reply {
    json_as(StatusCode::OK, value)
}

pub(super) fn created(value: &Value) -> Reply {
    json_as(StatusCode::CREATED, value)
}

pub(super) fn nothing(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}

pub(super) fn with_type(status: StatusCode, kind: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    reply
}

/// An answer that comes piece by piece.
pub(super) fn streamed(
    kind: &'static str,
    pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> Reply {
    with_type(StatusCode::OK, kind, Body::from_stream(pieces))
}

/// One line of a JSON stream.
pub(super) fn line(value: &Value) -> Bytes {
    Bytes::from(format!("{value}\r\n"))
}

/// One frame of a log or of a command's output.
pub(super) fn frame(stderr: bool, bytes: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(bytes.len() + 8);
    frame.put_slice(&[1 + u8::from(stderr), 0, 0, 0]);
    frame.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    frame.put_slice(bytes);
    frame.freeze()
}
