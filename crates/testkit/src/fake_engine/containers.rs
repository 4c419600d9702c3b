//! Containers come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::image::FakeImage;
use super::reply::{Ask, Refusal, Reply, created, nothing};
use super::state::{Container, Mount, Phase, Shared, State, Volume};

pub(super) fn create(shared: &Arc<Shared>, ask: &Ask) -> Result<Reply, Refusal> {
    let spec = ask.json()?;
    let id = shared.edit(|state| {
        let image = spec["Image"].as_str().unwrap_or_default();
        let image = state.image(image)?.clone();
        let id = state.fresh_id();
        let name = match ask.text("name") {
            "" => format!("fake_{}", &id[..12]),
            name => checked_name(state, name)?,
        };
        if state.disk_full {
            let text = format!(
                "write /var/lib/docker/overlay2/{}/link: no space left on device",
                &id[..12]
            );
            return Err(Refusal::new(500, text));
        }
        let mounts = mounts(state, &image, &spec);
        let container = Container {
            id: id.clone(),
            name,
            image,
            labels: labels(&spec["Labels"]),
            spec,
            created: Timestamp::now(),
            phase: Phase::Created,
            exit_code: 0,
            oom: false,
            frozen: false,
            error: String::new(),
            started: None,
            finished: None,
            endpoint: None,
            ports: BTreeMap::new(),
            mounts,
            log: Vec::new(),
            process: CancellationToken::new(),
        };
        shared.emit("create", &container);
        state.containers.push(container);
        Ok(id)
    })?;
    Ok(created(&json!({"Id": id, "Warnings": []})))
}

/// Names are unique, and this is atomic.
fn checked_name(state: &State, name: &str) -> Result<String, Refusal> {
    let name = name.trim_start_matches('/');
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if !first || name.len() < 2 || !name.chars().all(valid) {
        let text = format!("Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed");
        return Err(Refusal::new(400, text));
    }
    match state.containers.iter().find(|one| one.name == name) {
        None => Ok(name.to_owned()),
        Some(other) => {
            let text = format!(
                "Conflict. The container name \"/{name}\" is already in use by container \"{}\". You have to remove \
                 (or rename) that container to be able to reuse that name.",
                other.id
            );
            Err(Refusal::new(409, text))
        }
    }
}

pub(super) fn labels(value: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// Binds of named volumes, and an anonymous volume for each `VOLUME` that nothing else covers.
fn mounts(state: &mut State, image: &FakeImage, spec: &Value) -> Vec<Mount> {
    let host = &spec["HostConfig"];
    let mut mounts = Vec::new();
    for bind in host["Binds"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let mut parts = bind.split(':');
        let (Some(source), Some(target)) = (parts.next(), parts.next()) else {
            continue;
        };
        if !source.starts_with('/') {
            state.have_volume(source);
            mounts.push(Mount {
                volume: source.to_owned(),
                target: target.to_owned(),
                anonymous: false,
            });
        }
    }
    for target in &image.volumes {
        let covered =
            mounts.iter().any(|mount| mount.target == *target) || host["Tmpfs"].get(target).is_some();
        if !covered {
            let volume = state.fresh_id();
            state.have_volume(&volume);
            mounts.push(Mount {
                volume,
                target: target.clone(),
                anonymous: true,
            });
        }
    }
    mounts
}

impl State {
    fn have_volume(&mut self, name: &str) {
        if !self.volumes.iter().any(|volume| volume.name == name) {
            let volume = Volume {
                name: name.to_owned(),
                labels: BTreeMap::new(),
                created: Timestamp::now(),
            };
            self.volumes.push(volume);
        }
    }
}

pub(super) fn remove(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let (id, running) = shared.read(|state| {
        state
            .container(key)
            .map(|container| (container.id.clone(), container.phase == Phase::Running))
    })?;
    if running && !ask.flag("force") {
        let text = format!(
            "You cannot remove a running container {id}. Stop the container before attempting removal or force remove"
        );
        return Err(Refusal::new(409, text));
    }
    shared.end(&id, 137, false);
    shared.edit(|state| {
        let Some(at) = state.containers.iter().position(|one| one.id == id) else {
            return;
        };
        let container = state.containers.remove(at);
        if ask.flag("v") {
            let gone = |volume: &Volume| {
                container
                    .mounts
                    .iter()
                    .any(|mount| mount.anonymous && mount.volume == volume.name)
            };
            state.volumes.retain(|volume| !gone(volume));
        }
        shared.emit("destroy", &container);
    });
    Ok(nothing(StatusCode::NO_CONTENT))
}
