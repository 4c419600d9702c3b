//! Volumes, named and anonymous.

use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::containers::labels;
use super::reply::{Ask, Refusal, Reply, created, labels_match, nothing, ok};
use super::state::{Shared, State, Volume};

fn described(volume: &Volume) -> Value {
    json!({
        "Name": volume.name, "Driver": "local", "Mountpoint": format!("/var/lib/docker/volumes/{}/_data", volume.name),
        "CreatedAt": volume.created.to_string(), "Labels": volume.labels, "Options": {}, "Scope": "local",
    })
}

pub(super) fn create(shared: &Arc<Shared>, ask: &Ask) -> Result<Reply, Refusal> {
    let spec = ask.json()?;
    shared.edit(|state| {
        let name = match spec["Name"].as_str() {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => state.fresh_id(),
        };
        if let Some(volume) = state.volumes.iter().find(|volume| volume.name == name) {
            return Ok(created(&described(volume)));
        }
        if state.disk_full {
            let text = format!("mkdir /var/lib/docker/volumes/{name}: no space left on device");
            return Err(Refusal::new(500, text));
        }
        let volume = Volume {
            name,
            labels: labels(&spec["Labels"]),
            created: Timestamp::now(),
        };
        let reply = created(&described(&volume));
        state.volumes.push(volume);
        Ok(reply)
    })
}

pub(super) fn inspect(shared: &Shared, name: &str) -> Result<Reply, Refusal> {
    shared.read(|state| {
        let volume = state.volumes.iter().find(|volume| volume.name == name);
        let volume = volume.ok_or_else(|| Refusal::new(404, format!("get {name}: no such volume")))?;
        Ok(ok(&described(volume)))
    })
}

pub(super) fn list(shared: &Shared, ask: &Ask) -> Reply {
    let wanted = ask.filter("label");
    shared.read(|state| {
        let shown = state
            .volumes
            .iter()
            .filter(|volume| labels_match(&wanted, &volume.labels));
        ok(&json!({"Volumes": shown.map(described).collect::<Vec<_>>(), "Warnings": []}))
    })
}

fn users(state: &State, name: &str) -> Vec<String> {
    let users = state
        .containers
        .iter()
        .filter(|one| one.mounts.iter().any(|mount| mount.volume == name));
    users.map(|one| one.id.clone()).collect()
}

pub(super) fn remove(shared: &Arc<Shared>, name: &str) -> Result<Reply, Refusal> {
    shared.edit(|state| {
        if !state.volumes.iter().any(|volume| volume.name == name) {
            return Err(Refusal::new(404, format!("get {name}: no such volume")));
        }
        let users = users(state, name);
        if !users.is_empty() {
            let text = format!("remove {name}: volume is in use - [{}]", users.join(", "));
            return Err(Refusal::new(409, text));
        }
        state.volumes.retain(|volume| volume.name != name);
        Ok(nothing(StatusCode::NO_CONTENT))
    })
}

pub(super) fn prune(shared: &Arc<Shared>) -> Reply {
    shared.edit(|state| {
        let unused = state
            .volumes
            .iter()
            .filter(|volume| users(state, &volume.name).is_empty());
        let gone: Vec<String> = unused.map(|volume| volume.name.clone()).collect();
        state.volumes.retain(|volume| !gone.contains(&volume.name));
        ok(&json!({"VolumesDeleted": gone, "SpaceReclaimed": 0}))
    })
}
