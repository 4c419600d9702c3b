//! The window's pages and calls over HTTP on loopback, for browsers: machines without a desktop, and tests.
//!
//! It lets in who holds the link that [`Panel::link`] gives: its ticket works once and becomes a cookie that no script
//! can read and no other site can send. It refuses what doesn't name this address (`Host`, against DNS rebinding),
//! what another page sends (`Origin`), and every body without a bound. It decides nothing: each call is one of
//! [`CALLS`](crate::control::calls::CALLS).

mod guard;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::control::Control;
use crate::control::Failure;
use crate::control::calls::Call;
use crate::problem::{Problem, Result};
use guard::{Gate, refused};

/// A file of cases, which a window may submit, in JSON: the limit of [`Control::submit_file`] with room for escapes.
const BODY_LIMIT: usize = 40 * 1024 * 1024;

/// Nobody types a call by hand, and a file comes over loopback.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A person has a few tabs with a few streams each; more is a loop somewhere.
const MAX_STREAMS: usize = 64;

/// How long answers may take to finish once the panel ends.
const DRAIN: Duration = Duration::from_secs(3);

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Its path, beginning with a slash.
    pub path: &'static str,
    /// Its media type.
    pub mime: &'static str,
    /// What it holds.
    pub body: &'static [u8],
}

/// What serves a control to browsers. Dropping it cuts them off.
pub struct Panel {
    address: SocketAddr,
    gate: Arc<Gate>,
    stop: CancellationToken,
    tasks: TaskTracker,
    serving: JoinSet<std::io::Result<()>>,
}

struct Shared {
    control: Arc<Control>,
    pages: Vec<Page>,
    gate: Arc<Gate>,
    streams: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Panel {
    /// Takes the port and serves.
    ///
    /// # Errors
    /// Input when the address isn't of this machine alone, or when there is no `/index.html` among the pages; a problem
    /// about this machine when the port can't be taken.
    pub async fn start(control: Arc<Control>, listen: SocketAddr, pages: Vec<Page>) -> Result<Self> {
        if !listen.ip().is_loopback() {
            return Err(
                Problem::input(format!("{} can be reached from other machines", listen.ip()))
                    .fix("use 127.0.0.1, and reach it from elsewhere through `ssh -L`"),
            );
        }
        if !pages.iter().any(|page| page.path == "/index.html") {
            return Err(Problem::machine("this program was built without the pages")
                .fix("run `make ui`, then build it again"));
        }
        let unbindable = |error| {
            Problem::machine(format!("can't listen on {listen}"))
                .fix("choose another port with --listen (port 0 takes a free one)")
                .because(error)
        };
        let listener = TcpListener::bind(listen).await.map_err(unbindable)?;
        let address = listener.local_addr().map_err(unbindable)?;
        let (gate, stop) = (Arc::new(Gate::new(address)), CancellationToken::new());
        let tasks = TaskTracker::new();
        let shared = Arc::new(Shared {
            control,
            pages,
            gate: Arc::clone(&gate),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            tasks: tasks.clone(),
            stop: stop.clone(),
        });
        let mut serving = JoinSet::new();
        let ended = stop.clone();
        serving.spawn(async move {
            axum::serve(listener, router(shared))
                .with_graceful_shutdown(async move { ended.cancelled().await })
                .await
        });
        Ok(Self {
            address,
            gate,
            stop,
            tasks,
            serving,
        })
    }

    /// Makes a link that lets one browser in, once. An earlier link that nobody used works no more.
    #[must_use]
    pub fn link(&self) -> String {
        format!("http://{}/#ticket={}", self.address, self.gate.ticket())
    }

    /// Answers what is open and ends.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.tasks.close();
        let ended = async {
            self.serving.join_next().await;
            self.tasks.wait().await;
        };
        let _ = tokio::time::timeout(DRAIN, ended).await;
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/api/session", post(session))
        .route("/api/watch", get(streams::watch))
        .route("/api/watch_log", get(streams::watch_log))
        .route("/api/watch_frames", get(streams::watch_frames))
        .route("/api/{name}", post(call))
        .fallback(page)
        .layer(from_fn_with_state(Arc::clone(&shared.gate), guard::check))
        .with_state(shared)
}

/// Turns the ticket of a link into a session.
async fn session(State(shared): State<Arc<Shared>>, body: Body) -> Response {
    let ticket = match json_body(body).await {
        Ok(body) => body.get("ticket").and_then(Value::as_str).map(str::to_owned),
        Err(refusal) => return *refusal,
    };
    match ticket.and_then(|ticket| shared.gate.redeem(&ticket)) {
        Some(cookie) => {
            let mut answer = json(StatusCode::OK, &Value::Null);
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
            answer
        }
        None => refused(
            StatusCode::UNAUTHORIZED,
            "ticket_used",
            "this link was used already, or is not of this run",
            "run `everdict-runner ui` again for a new one",
        ),
    }
}

async fn call(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if let Err(refusal) = shared.gate.admit(&headers) {
        return *refusal;
    }
    let Some(call) = Call::find(&name) else {
        return nothing();
    };
    let args = match json_body(body).await {
        Ok(args) => args,
        Err(refusal) => return *refusal,
    };
    // On a task of its own: a pairing must not stop half-way when the page goes.
    let control = Arc::clone(&shared.control);
    let running = shared.tasks.spawn(async move { call.run(&control, args).await });
    match running.await {
        Ok(Ok(answer)) => json(StatusCode::OK, &answer),
        Ok(Err(failure)) => json(StatusCode::UNPROCESSABLE_ENTITY, &failure),
        Err(_panicked) => {
            let problem = Problem::machine("the call failed inside").fix("copy the report in Diagnostics");
            json(StatusCode::INTERNAL_SERVER_ERROR, &Failure::from(problem))
        }
    }
}

async fn page(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let path = match uri.path() {
        "/" => "/index.html",
        path => path,
    };
    match shared.pages.iter().find(|page| page.path == path) {
        Some(page) => (
            [(header::CONTENT_TYPE, HeaderValue::from_static(page.mime))],
            page.body,
        )
            .into_response(),
        None => nothing(),
    }
}

fn nothing() -> Response {
    refused(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is nothing at this address",
        "open the link that `everdict-runner ui` prints",
    )
}

async fn json_body(body: Body) -> Result<Value, Box<Response>> {
    let too_large =
        |code, message| Box::new(refused(code, "bad_body", message, "send less, or send it faster"));
    let bytes = match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, BODY_LIMIT)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            let message = "the request is too large or broke off";
            return Err(too_large(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_elapsed) => {
            let message = "the request did not arrive in time";
            return Err(too_large(StatusCode::REQUEST_TIMEOUT, message));
        }
    };
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    serde_json::from_slice(&bytes).map_err(|_| {
        Box::new(refused(
            StatusCode::BAD_REQUEST,
            "bad_body",
            "the request is not JSON",
            "send a JSON object",
        ))
    })
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, kind, text).into_response()
}
