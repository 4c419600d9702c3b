//! A front door of the test: answers by a closure, remembers what came.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// One request.
#[derive(Debug, Clone)]
pub struct Hit {
    /// `METHOD /path?query`.
    pub call: String,
    pub headers: HeaderMap,
    pub body: String,
    /// How many requests of this call came before.
    pub before: usize,
}

impl Hit {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Answer = Arc<dyn Fn(Hit) -> BoxFuture<'static, Response> + Send + Sync>;

pub type Hits = Arc<Mutex<Vec<Hit>>>;

pub struct Door {
    pub url: String,
    hits: Hits,
    _server: JoinSet<()>,
}

#[derive(Clone)]
struct Shared {
    answer: Answer,
    hits: Hits,
}

impl Door {
    /// A front door that answers at once.
    pub async fn answering(answer: impl Fn(&Hit) -> Response + Send + Sync + 'static) -> Self {
        Self::with(move |hit| {
            let response = answer(&hit);
            Box::pin(async move { response })
        })
        .await
    }

    pub async fn with(answer: impl Fn(Hit) -> BoxFuture<'static, Response> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let hits = Arc::default();
        let shared = Shared {
            answer: Arc::new(answer),
            hits: Arc::clone(&hits),
        };
        let app = Router::new().fallback(serve).with_state(shared);
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            hits,
            _server: server,
        }
    }

    /// What came to the call so far.
    pub fn hits(&self, call: &str) -> Vec<Hit> {
        let hits = self.hits.lock().unwrap();
        hits.iter().filter(|hit| hit.call == call).cloned().collect()
    }

    pub fn all_hits(&self) -> Hits {
        Arc::clone(&self.hits)
    }

    pub fn calls(&self) -> Vec<String> {
        self.hits
            .lock()
            .unwrap()
            .iter()
            .map(|hit| hit.call.clone())
            .collect()
    }
}

async fn serve(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call = format!("{method} {uri}");
    let hit = {
        let mut hits = shared.hits.lock().unwrap();
        let before = hits.iter().filter(|hit| hit.call == call).count();
        let body = String::from_utf8_lossy(&body).into_owned();
        hits.push(Hit {
            call,
            headers,
            body,
            before,
        });
        hits.last().unwrap().clone()
    };
    (shared.answer)(hit).await
}

pub fn answer(status: u16, body: impl Into<Body>) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .body(body.into())
        .unwrap()
}

pub fn ok(body: Value) -> Response {
    answer(200, body.to_string())
}

/// Never answers.
pub async fn never() -> Response {
    std::future::pending().await
}

/// A body that comes in pieces, and then hangs or ends.
pub fn pieces(pieces: &[&'static str], then_hang: bool) -> Response {
    let pieces: Vec<_> = pieces
        .iter()
        .map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes())))
        .collect();
    let hang = stream::once(async move {
        if then_hang {
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        Ok(Bytes::new())
    });
    let body = futures_util::StreamExt::chain(stream::iter(pieces), hang);
    answer(200, Body::from_stream(body))
}
