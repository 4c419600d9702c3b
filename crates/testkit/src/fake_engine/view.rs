//! Containers as they are listed and described.

use serde_json::{Map, Value, json};

use super::image::FakeHealth;
use super::reply::{Ask, Refusal, Reply, labels_match, ok};
use super::state::{Container, Phase, Shared, State};

pub(super) fn list(shared: &Shared, ask: &Ask) -> Reply {
    let (labels, ids, names) = (ask.filter("label"), ask.filter("id"), ask.filter("name"));
    let statuses = ask.filter("status");
    let all = ask.flag("all") || !statuses.is_empty();
    shared.read(|state| {
        let shown = state.containers.iter().rev().filter(|one| {
            (all || one.phase == Phase::Running)
                && labels_match(&labels, &one.labels)
                && (ids.is_empty() || ids.iter().any(|id| one.id.starts_with(id)))
                && (names.is_empty()
                    || names
                        .iter()
                        .any(|name| one.name.contains(name.trim_start_matches('/'))))
                && (statuses.is_empty() || statuses.iter().any(|status| status == phase_word(one.phase)))
        });
        ok(&shown.map(|one| row(state, one)).collect())
    })
}

fn row(state: &State, one: &Container) -> Value {
    let ports: Vec<Value> = one
        .ports
        .iter()
        .map(
            |(port, host)| json!({"IP": "127.0.0.1", "PrivatePort": port, "PublicPort": host, "Type": "tcp"}),
        )
        .collect();
    json!({
        "Id": one.id, "Names": [format!("/{}", one.name)], "Image": one.image.reference, "ImageID": one.image.id(),
        "Command": "fake", "Created": one.created.as_second(), "Labels": one.labels, "Ports": ports,
        "State": phase_word(one.phase), "Status": status(one),
        "NetworkSettings": {"Networks": networks(state, one)}, "Mounts": mounts(one),
    })
}

fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Created => "created",
        Phase::Running => "running",
        Phase::Exited => "exited",
    }
}

fn status(one: &Container) -> String {
    match one.phase {
        Phase::Created => "Created".to_owned(),
        Phase::Running => "Up 1 second".to_owned(),
        Phase::Exited => format!("Exited ({}) 1 second ago", one.exit_code),
    }
}

/// The network that it is on, or will be once it runs.
fn networks(state: &State, one: &Container) -> Value {
    let mode = one.host_config("NetworkMode").as_str().unwrap_or("default");
    let found = one
        .endpoint
        .as_ref()
        .map_or_else(|| state.network(mode), |(id, _)| state.network(id));
    let Ok(network) = found else {
        return json!({mode: {"NetworkID": "", "IPAddress": "", "Gateway": ""}});
    };
    let aliases = &one.spec["NetworkingConfig"]["EndpointsConfig"][mode]["Aliases"];
    let (address, gateway) = match &one.endpoint {
        Some((_, address)) => (address.to_string(), network.address(1).to_string()),
        None => (String::new(), String::new()),
    };
    json!({network.name.as_str(): {
        "NetworkID": network.id, "IPAddress": address, "Gateway": gateway, "Aliases": aliases,
        "IPPrefixLen": network.subnet.1,
    }})
}

fn mounts(one: &Container) -> Vec<Value> {
    let mounts = one.mounts.iter().map(|mount| {
        json!({
            "Type": "volume", "Name": mount.volume, "Destination": mount.target, "Driver": "local", "RW": true,
            "Source": format!("/var/lib/docker/volumes/{}/_data", mount.volume), "Mode": "",
        })
    });
    mounts.collect()
}

pub(super) fn inspect(shared: &Shared, key: &str) -> Result<Reply, Refusal> {
    shared.read(|state| {
        let one = state.container(key)?;
        let ports: Map<String, Value> = one
            .ports
            .iter()
            .map(|(port, host)| {
                (format!("{port}/tcp"), json!([{"HostIp": "127.0.0.1", "HostPort": host.to_string()}]))
            })
            .collect();
        Ok(ok(&json!({
            "Id": one.id, "Name": format!("/{}", one.name), "Created": one.created.to_string(),
            "Image": one.image.id(), "RestartCount": 0, "State": state_of(one),
            "HostConfig": one.spec["HostConfig"], "Mounts": mounts(one),
            "Config": {
                "Labels": one.labels, "Image": one.spec["Image"], "Env": one.spec["Env"], "Cmd": one.spec["Cmd"],
                "User": one.spec["User"], "WorkingDir": one.spec["WorkingDir"],
            },
            "NetworkSettings": {"Ports": ports, "Networks": networks(state, one)},
        })))
    })
}

fn state_of(one: &Container) -> Value {
    /// What the daemon writes for a time that hasn't come.
    const NEVER: &str = "0001-01-01T00:00:00Z";
    let mut state = json!({
        "Status": phase_word(one.phase), "Running": one.phase == Phase::Running, "Paused": one.frozen,
        "Restarting": false, "OOMKilled": one.oom, "Dead": false,
        "Pid": if one.phase == Phase::Running { 4242 } else { 0 },
        "ExitCode": one.exit_code, "Error": one.error,
        "StartedAt": one.started.map_or(NEVER.to_owned(), |(_, at)| at.to_string()),
        "FinishedAt": one.finished.map_or(NEVER.to_owned(), |at| at.to_string()),
    });
    if let Some(health) = health(one) {
        state["Health"] = json!({"Status": health, "FailingStreak": 0, "Log": []});
    }
    state
}

fn health(one: &Container) -> Option<&'static str> {
    let health = one.image.health?;
    let run = one
        .started
        .filter(|_| one.phase == Phase::Running)
        .map(|(at, _)| at.elapsed());
    Some(match (health, run) {
        (FakeHealth::HealthyAfter(after), Some(run)) if run >= after => "healthy",
        (FakeHealth::UnhealthyAfter(after), Some(run)) if run >= after => "unhealthy",
        (_, Some(_)) => "starting",
        (_, None) => "unhealthy",
    })
}
