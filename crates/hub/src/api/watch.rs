//! For whoever watches over the hub: is it alive, can it work, what has it done.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::{Answer, caller, json_response};
use crate::auth::Action;
use crate::dispatch::storage;
use crate::metrics::Depth;
use crate::shared::Hubbed;

/// How long the database may take to answer: balancers ask every few seconds.
const READY: Duration = Duration::from_secs(2);

/// Answers `GET /healthz`: the process answers. Says nothing about its database, so that a database that is away does not
/// have every hub restarted.
pub(super) async fn healthz() -> Response {
    json_response(StatusCode::OK, "{\"ok\":true}".to_owned())
}

/// Answers `GET /readyz`: 503 while the database does not answer or the hub is about to stop, so that a balancer sends
/// nobody.
pub(super) async fn readyz(State(shared): State<Hubbed>) -> Response {
    if shared.closing.is_cancelled() {
        return not_ready("the hub is stopping");
    }
    match tokio::time::timeout(READY, shared.store.ping()).await {
        Ok(Ok(())) => json_response(StatusCode::OK, "{\"ready\":true}".to_owned()),
        Ok(Err(error)) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "not ready: the database does not answer");
            not_ready("the database does not answer")
        }
        Err(_) => not_ready("the database does not answer in time"),
    }
}

fn not_ready(why: &str) -> Response {
    let body = serde_json::json!({"ready": false, "reason": why});
    json_response(StatusCode::SERVICE_UNAVAILABLE, body.to_string())
}

/// Answers `GET /metrics` in Prometheus' text form: to this machine, and to an admin's API key. A call that came through a
/// proxy is not this machine's, wherever the proxy is.
pub(super) async fn metrics(
    State(shared): State<Hubbed>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Answer {
    let forwarded = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
    let local =
        peer.ip().to_canonical().is_loopback() && !forwarded.iter().any(|name| headers.contains_key(*name));
    if !local || headers.contains_key(header::AUTHORIZATION) {
        caller(&shared, &headers).await?.allow(Action::MetricsRead)?;
    }
    let (waiting, leased) = shared.store.depth().await.map_err(storage)?;
    let (runners, online) = shared.roster.count();
    let depth = Depth {
        waiting,
        leased,
        runners: runners as u64,
        online: online as u64,
    };
    let mut response = Response::new(shared.metrics.print(depth).into());
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}
