//! Archives that are put into containers, and given out again as they came.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, StatusCode};

use super::reply::{Ask, Refusal, Reply, nothing, with_type};
use super::state::Shared;

/// What the daemon says in base64 about the path: an empty object, which is enough for clients that ignore it.
const STAT: HeaderValue = HeaderValue::from_static("e30=");

pub(super) fn put(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    shared.edit(|state| {
        let id = state.container(key)?.id.clone();
        if state.disk_full {
            return Err(Refusal::new(
                500,
                "Error processing tar file(exit status 1): no space left on device",
            ));
        }
        state
            .archives
            .insert((id, ask.text("path").to_owned()), ask.body.clone());
        Ok(nothing(StatusCode::OK))
    })
}

pub(super) fn get(shared: &Shared, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let path = ask.text("path").to_owned();
    shared.read(|state| {
        let container = state.container(key)?;
        let archive = state.archives.get(&(container.id.clone(), path.clone()));
        let archive = archive
            .ok_or_else(|| Refusal::new(404, format!("Could not find the file {path} in container {key}")))?;
        let mut reply = with_type(StatusCode::OK, "application/x-tar", Body::from(archive.clone()));
        reply.headers_mut().insert("x-docker-container-path-stat", STAT);
        Ok(reply)
    })
}
