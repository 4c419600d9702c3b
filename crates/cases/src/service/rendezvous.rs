//! Listens for a topology that tells by itself when it is done.
//!
//! The address holds a token that nobody can guess, and is good for one run. Calls are bounded in size and number.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use everdict_contracts::{ErrorCode, Fault};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::port::CallbackHost;

/// A call tells a status, at most with a snapshot: the protocol's limit for one.
const MAX_CALL_BYTES: usize = 12 * 1024 * 1024;

/// Calls that wait to be looked at. One that finds no room is told to come again.
const MAX_WAITING: usize = 16;

/// A listener for one run. Dropping it closes the address.
pub(crate) struct Rendezvous {
    url: String,
    port: u16,
    calls: mpsc::Receiver<Value>,
    _server: JoinSet<()>,
}

impl Rendezvous {
    /// Starts to listen.
    ///
    /// # Errors
    /// `DRIVER_PROVISION_FAILED` when the address can't be listened on.
    pub(crate) async fn listen(host: &CallbackHost) -> Result<Self, Fault> {
        let failed = |error| {
            let text = format!("can't listen for the topology's call on {}", host.bind);
            Fault::new(ErrorCode::DriverProvisionFailed, text).caused_by(error)
        };
        let listener = TcpListener::bind(SocketAddr::new(host.bind, 0))
            .await
            .map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let path = format!("/callback/{}", Uuid::new_v4().simple());
        let (sender, calls) = mpsc::channel(MAX_WAITING);
        let app = Router::new()
            .route(&path, post(take).put(take))
            .layer(DefaultBodyLimit::max(MAX_CALL_BYTES))
            .with_state(sender);
        let mut server = JoinSet::new();
        server.spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::warn!(%error, "the listener for the topology's call broke");
            }
        });
        let name = match host.name.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host.name.clone(),
        };
        Ok(Self {
            url: format!("http://{name}:{port}{path}"),
            port,
            calls,
            _server: server,
        })
    }

    /// The address for the topology.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The port that is listened on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The body of the next call. Cancel safe.
    pub(crate) async fn next(&mut self) -> Value {
        match self.calls.recv().await {
            Some(body) => body,
            // The listener is gone; whoever waits has a deadline.
            None => std::future::pending().await,
        }
    }
}

async fn take(State(calls): State<mpsc::Sender<Value>>, body: Bytes) -> StatusCode {
    let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
    let value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body).unwrap_or_else(|_| text())
    };
    match calls.try_send(value) {
        Ok(()) => StatusCode::ACCEPTED,
        Err(mpsc::error::TrySendError::Full(_)) => StatusCode::TOO_MANY_REQUESTS,
        Err(mpsc::error::TrySendError::Closed(_)) => StatusCode::GONE,
    }
}
