//! Images on the machine.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::containers::labels;
use super::image::FakeImage;
use super::reply::{Ask, Refusal, Reply, created, labels_match, ok};
use super::state::{Phase, Shared};

fn tags(image: &FakeImage) -> Vec<&str> {
    if image.reference.contains('@') {
        Vec::new()
    } else {
        vec![image.reference.as_str()]
    }
}

fn digests(image: &FakeImage) -> Vec<String> {
    if image.reference.contains('@') {
        return vec![image.reference.clone()];
    }
    let name = match image.reference.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => &image.reference,
    };
    vec![format!("{name}@{}", image.digest())]
}

pub(super) fn inspect(shared: &Shared, key: &str) -> Result<Reply, Refusal> {
    shared.read(|state| {
        let image = state.image(key)?;
        let volumes: Map<String, Value> = image
            .volumes
            .iter()
            .map(|path| (path.clone(), json!({})))
            .collect();
        let ports: Map<String, Value> = image
            .port
            .iter()
            .map(|port| (format!("{port}/tcp"), json!({})))
            .collect();
        Ok(ok(&json!({
            "Id": image.id(), "RepoTags": tags(image), "RepoDigests": digests(image), "Os": image.os,
            "Architecture": image.architecture, "Size": image.size, "VirtualSize": image.size,
            "Created": "2024-01-01T00:00:00Z",
            "Config": {"Labels": image.labels, "Volumes": volumes, "ExposedPorts": ports, "Env": [], "Cmd": ["fake"]},
        })))
    })
}

pub(super) fn list(shared: &Shared, ask: &Ask) -> Reply {
    let wanted = ask.filter("label");
    shared.read(|state| {
        let rows = state
            .images
            .iter()
            .filter(|image| labels_match(&wanted, &image.labels))
            .map(|image| {
                json!({
                    "Id": image.id(), "ParentId": "", "RepoTags": tags(image), "RepoDigests": digests(image),
                    "Created": 1_704_067_200, "Size": image.size, "VirtualSize": image.size, "SharedSize": -1,
                    "Labels": image.labels, "Containers": -1,
                })
            });
        ok(&rows.collect())
    })
}

/// Keeps a container as an image of that name, which runs as the container does.
pub(super) fn commit(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let config = ask.json()?;
    let reference = format!("{}:{}", ask.text("repo"), ask.text("tag"));
    shared.edit(|state| {
        let base = state.container(key)?.image.clone();
        if state.disk_full {
            return Err(Refusal::new(
                500,
                "Error processing tar file(exit status 1): no space left on device",
            ));
        }
        let image = FakeImage {
            reference: reference.clone(),
            labels: labels(&config["Labels"]),
            ..base
        };
        let id = image.id();
        state.images.retain(|other| other.reference != reference);
        state.images.push(image);
        Ok(created(&json!({"Id": id})))
    })
}

pub(super) fn remove(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    shared.edit(|state| {
        let image = state.image(key)?.clone();
        let user = state.containers.iter().find(|one| one.image.id() == image.id());
        if let Some(user) = user {
            let (short, id) = (&image.id()[7..19], &user.id[..12]);
            if user.phase == Phase::Running {
                let text = format!(
                    "conflict: unable to delete {short} (cannot be forced) - image is being used by running container {id}"
                );
                return Err(Refusal::new(409, text));
            }
            if !ask.flag("force") {
                let text = format!(
                    "conflict: unable to delete {short} (must be forced) - image is being used by stopped container {id}"
                );
                return Err(Refusal::new(409, text));
            }
        }
        state.images.retain(|other| other.id() != image.id());
        Ok(ok(&json!([{"Untagged": image.reference}, {"Deleted": image.id()}])))
    })
}
