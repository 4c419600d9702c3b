//! A trace backend whose answers are scripted, on loopback.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use everdict_contracts::{TraceBackend, TraceEventKind};
use everdict_traces::{TraceConfig, TraceLimits, TracePull, TraceSource, source_for};
use serde_json::Value;
use tokio::task::JoinSet;

/// What the backend was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    /// Path and query, as sent.
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// What it answers.
pub enum Reply {
    Json(Value),
    Status(u16, &'static str),
    Bytes(&'static str, Vec<u8>),
    Redirect(String),
    /// Accepts and says nothing.
    Never,
}

type Script = dyn Fn(usize, &Asked) -> Reply + Send + Sync;

pub struct Backend {
    pub base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Backend {
    pub async fn start(script: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static) -> Self {
        let script: Arc<Script> = Arc::new(script);
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = Arc::clone(&asked);
        let app = Router::new()
            .fallback(move |request: Request| answer(request, Arc::clone(&script), Arc::clone(&log)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            base,
            asked,
            _tasks: tasks,
        }
    }

    /// One that always gives the same answer.
    pub async fn json(body: Value) -> Self {
        Self::start(move |_, _| Reply::Json(body.clone())).await
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn config(&self, kind: TraceBackend) -> TraceConfig {
        // The slash at the end is one that people write.
        TraceConfig::new(kind, format!("{}/", self.base))
    }

    pub fn source(&self, kind: TraceBackend) -> Box<dyn TraceSource> {
        source(&self.config(kind))
    }
}

async fn answer(request: Request, script: Arc<Script>, log: Arc<Mutex<Vec<Asked>>>) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_else(|_| Bytes::new());
    let asked = Asked {
        method: parts.method.to_string(),
        uri: parts.uri.to_string(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let number = {
        let mut log = log.lock().unwrap();
        log.push(asked.clone());
        log.len() - 1
    };
    match script(number, &asked) {
        Reply::Json(body) => axum::Json(body).into_response(),
        Reply::Status(status, words) => (StatusCode::from_u16(status).unwrap(), words).into_response(),
        Reply::Bytes(kind, bytes) => ([("content-type", kind)], bytes).into_response(),
        Reply::Redirect(to) => (StatusCode::FOUND, [("location", to)]).into_response(),
        Reply::Never => std::future::pending().await,
    }
}

/// Bounds that a test can reach.
pub fn tight() -> TraceLimits {
    TraceLimits {
        request: Duration::from_millis(300),
        bytes: 64 * 1024,
        pages: 5,
        ..TraceLimits::default()
    }
}

pub fn source(config: &TraceConfig) -> Box<dyn TraceSource> {
    source_for(config, TraceLimits::default()).unwrap()
}

pub fn kinds(pull: &TracePull) -> Vec<&TraceEventKind> {
    pull.events.iter().map(|event| &event.kind).collect()
}
