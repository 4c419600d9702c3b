//! What a browser follows, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::guard::refused;
use crate::control::Failure;
use crate::control::calls::Following;

/// Proxies and browsers drop what is silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    #[serde(default)]
    job_id: String,
}

pub(super) async fn watch(state: State<Arc<Shared>>, asked: Query<Asked>, headers: HeaderMap) -> Response {
    follow(&state.0, "watch", &asked.0, &headers)
}

pub(super) async fn watch_log(
    state: State<Arc<Shared>>,
    asked: Query<Asked>,
    headers: HeaderMap,
) -> Response {
    follow(&state.0, "watch_log", &asked.0, &headers)
}

pub(super) async fn watch_frames(
    state: State<Arc<Shared>>,
    asked: Query<Asked>,
    headers: HeaderMap,
) -> Response {
    follow(&state.0, "watch_frames", &asked.0, &headers)
}

/// Each stream begins with the whole (state, log so far, latest picture), so where a browser was before is of no matter.
fn follow(shared: &Arc<Shared>, name: &str, asked: &Asked, headers: &HeaderMap) -> Response {
    if let Err(refusal) = shared.gate.admit(headers) {
        return *refusal;
    }
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return refused(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_streams",
            "too many pages follow this already",
            "close some of them",
        );
    };
    match Following::open(&shared.control, name, &asked.job_id) {
        Ok(following) => {
            let open = OpenStream {
                following: Some(following),
                stop: shared.stop.clone(),
                _permit: permit,
            };
            let events = stream::unfold(open, OpenStream::next);
            Sse::new(events)
                .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
                .into_response()
        }

        Err(problem) => super::json(StatusCode::UNPROCESSABLE_ENTITY, &Failure::from(problem)),
    }
}

struct OpenStream {
    /// `None` once nothing will follow. The stream stays open then, or the browser would ask for it anew.
    following: Option<Following>,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl OpenStream {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        let message = async {
            if let Some(following) = &mut self.following
                && let Some(text) = following.next().await
            {
                return text;
            }
            self.following = None;
            std::future::pending().await
        };
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            text = message => Some((Ok(Event::default().data(text)), self)),
        }
    }
}
