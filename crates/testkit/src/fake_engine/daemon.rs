//! The daemon about itself, and its events.

use std::sync::Arc;

use axum::body::Body;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::reply::{Ask, Refusal, Reply, labels_match, line, ok, streamed, with_type};
use super::state::{Phase, Shared};

const ENGINE: &str = "20.10.24";
const API: &str = "1.41";

pub(super) fn ping() -> Reply {
    with_type(StatusCode::OK, "text/plain; charset=utf-8", Body::from("OK"))
}

pub(super) fn version(shared: &Shared) -> Reply {
    let architecture = shared.read(|state| state.architecture.clone());
    ok(&json!({
        "Version": ENGINE, "ApiVersion": API, "MinAPIVersion": "1.12", "Os": "linux", "Arch": architecture,
        "KernelVersion": "6.1.0", "GoVersion": "go1.19.8", "GitCommit": "fake",
    }))
}

pub(super) fn info(shared: &Shared) -> Reply {
    let now = Timestamp::now();
    shared.read(|state| {
        let behind = SignedDuration::try_from(state.clock_behind).unwrap_or_default();
        let machine = match state.architecture.as_str() {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => other,
        };
        ok(&json!({
            "ID": "FAKE:ENGI:NE00", "Name": "fake", "ServerVersion": ENGINE, "OSType": "linux",
            "Architecture": machine, "OperatingSystem": "Fake Engine", "NCPU": 4, "MemTotal": 8_u64 << 30,
            "DockerRootDir": "/var/lib/docker", "SystemTime": now.saturating_sub(behind).unwrap_or(now).to_string(),
            "Containers": state.containers.len(), "Images": state.images.len(),
            "ContainersRunning": state.containers.iter().filter(|one| one.phase == Phase::Running).count(),
        }))
    })
}

/// Events of containers as they happen; those of the past aren't kept.
pub(super) fn events(shared: &Arc<Shared>, ask: &Ask) -> Reply {
    let filter = EventFilter {
        labels: ask.filter("label"),
        actions: ask.filter("event"),
        containers: ask.filter("container"),
    };
    let listener = shared.events.subscribe();
    let pieces = futures_util::stream::unfold((listener, filter), |(mut listener, filter)| async move {
        loop {
            match listener.recv().await {
                Ok(event) if filter.wants(&event) => return Some((Ok(line(&event)), (listener, filter))),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    streamed("application/json", pieces)
}

/// Which events a listener wants; what is empty leaves nothing out.
struct EventFilter {
    labels: Vec<String>,
    actions: Vec<String>,
    /// Names or ids.
    containers: Vec<String>,
}

impl EventFilter {
    fn wants(&self, event: &Value) -> bool {
        let attributes = &event["Actor"]["Attributes"];
        let labels = serde_json::from_value(attributes.clone()).unwrap_or_default();
        let id = event["Actor"]["ID"].as_str().unwrap_or_default();
        let is_it =
            |wanted: &String| id.starts_with(wanted.as_str()) || attributes["name"] == wanted.as_str();
        labels_match(&self.labels, &labels)
            && (self.actions.is_empty() || self.actions.iter().any(|one| event["Action"] == one.as_str()))
            && (self.containers.is_empty() || self.containers.iter().any(is_it))
    }
}

/// One sample, whatever was asked for.
pub(super) fn stats(shared: &Shared, key: &str) -> Result<Reply, Refusal> {
    shared.read(|state| {
        let container = state.container(key)?;
        Ok(ok(&json!({
            "id": container.id, "name": format!("/{}", container.name), "read": Timestamp::now().to_string(),
            "memory_stats": {"usage": 64_u64 << 20, "limit": 512_u64 << 20},
            "cpu_stats": {"cpu_usage": {"total_usage": 1_000_000}, "system_cpu_usage": 100_000_000, "online_cpus": 4},
            "precpu_stats": {"cpu_usage": {"total_usage": 0}}, "pids_stats": {"current": 3},
        })))
    })
}
