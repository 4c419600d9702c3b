//! Networks, whose names need not be unique.

use std::net::Ipv4Addr;
use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::containers::labels;
use super::reply::{Ask, Refusal, Reply, created, labels_match, nothing, ok};
use super::state::{Network, Phase, Shared, State};

pub(super) fn name(ask: &Ask) -> String {
    ask.json()
        .ok()
        .and_then(|body| body["Name"].as_str().map(str::to_owned))
        .unwrap_or_default()
}

pub(super) fn create(shared: &Arc<Shared>, ask: &Ask) -> Result<Reply, Refusal> {
    let spec = ask.json()?;
    let name = name(ask);
    shared.edit(|state| {
        let shares = state.networks.iter().any(|network| network.name == name);
        if shares && spec["CheckDuplicate"].as_bool() == Some(true) {
            return Err(Refusal::new(
                409,
                format!("network with name {name} already exists"),
            ));
        }
        if state.disk_full {
            let text = format!(
                "failed to update store for object type *libnetwork.network: write \
                 /var/lib/docker/network/files/{name}: no space left on device"
            );
            return Err(Refusal::new(500, text));
        }
        let (subnet, pooled) = match spec["IPAM"]["Config"][0]["Subnet"].as_str() {
            Some(text) => (explicit(state, text)?, false),
            None => (pooled(state)?, true),
        };
        let id = state.fresh_id();
        let labels = labels(&spec["Labels"]);
        let network = Network {
            id: id.clone(),
            name: name.clone(),
            labels,
            created: Timestamp::now(),
            subnet,
            pooled,
        };
        state.networks.push(network);
        let warning = if shares {
            format!("Network with name {name} (id : {id}) already exists")
        } else {
            String::new()
        };
        Ok(created(&json!({"Id": id, "Warning": warning})))
    })
}

fn pooled(state: &State) -> Result<(Ipv4Addr, u8), Refusal> {
    state.next_subnet().ok_or_else(|| {
        let text = "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the \
                    network";
        Refusal::new(404, text)
    })
}

fn explicit(state: &State, text: &str) -> Result<(Ipv4Addr, u8), Refusal> {
    let parsed = text.split_once('/').and_then(|(address, bits)| {
        Some((
            address.parse::<Ipv4Addr>().ok()?,
            bits.parse::<u8>().ok().filter(|bits| (8..=30).contains(bits))?,
        ))
    });
    let subnet = parsed.ok_or_else(|| Refusal::new(400, format!("invalid CIDR address: {text}")))?;
    if state.networks.iter().any(|network| network.overlaps(subnet)) {
        return Err(Refusal::new(
            403,
            "Pool overlaps with other one on this address space",
        ));
    }
    Ok(subnet)
}

/// By id or name, with the words that the API has for a name that several share.
fn found<'s>(state: &'s State, key: &str) -> Result<&'s Network, Refusal> {
    state.network(key).map_err(|refusal| match refusal.status {
        400 => {
            let count = state
                .networks
                .iter()
                .filter(|network| network.name == key)
                .count();
            Refusal::new(
                400,
                format!("{count} matches found based on name: network {key} is ambiguous"),
            )
        }
        _ => refusal,
    })
}

fn described(state: &State, network: &Network, with_containers: bool) -> Value {
    let members = state.containers.iter().filter_map(|one| {
        let (_, address) = one.endpoint.as_ref().filter(|(id, _)| *id == network.id)?;
        let view = json!({"Name": one.name, "IPv4Address": format!("{address}/{}", network.subnet.1)});
        Some((one.id.clone(), view))
    });
    let members: Map<String, Value> = if with_containers {
        members.collect()
    } else {
        Map::new()
    };
    let (address, bits) = network.subnet;
    json!({
        "Name": network.name, "Id": network.id, "Created": network.created.to_string(), "Scope": "local",
        "Driver": "bridge", "EnableIPv6": false, "Labels": network.labels, "Options": {}, "Containers": members,
        "IPAM": {"Driver": "default", "Config": [
            {"Subnet": format!("{address}/{bits}"), "Gateway": network.address(1).to_string()}
        ]},
    })
}

pub(super) fn inspect(shared: &Shared, key: &str) -> Result<Reply, Refusal> {
    shared.read(|state| Ok(ok(&described(state, found(state, key)?, true))))
}

pub(super) fn list(shared: &Shared, ask: &Ask) -> Reply {
    let (wanted, names, ids) = (ask.filter("label"), ask.filter("name"), ask.filter("id"));
    shared.read(|state| {
        let shown = state.networks.iter().filter(|network| {
            labels_match(&wanted, &network.labels)
                && (names.is_empty() || names.iter().any(|name| network.name.contains(name)))
                && (ids.is_empty() || ids.iter().any(|id| network.id.starts_with(id)))
        });
        ok(&shown.map(|network| described(state, network, false)).collect())
    })
}

pub(super) fn remove(shared: &Arc<Shared>, key: &str) -> Result<Reply, Refusal> {
    shared.edit(|state| {
        let network = found(state, key)?;
        let id = network.id.clone();
        let attached = |one: &super::state::Container| {
            one.phase == Phase::Running && one.endpoint.as_ref().is_some_and(|(network, _)| *network == id)
        };
        if state.containers.iter().any(attached) {
            let text = format!(
                "error while removing network: network {} id {id} has active endpoints",
                network.name
            );
            return Err(Refusal::new(403, text));
        }
        state.networks.retain(|network| network.id != id);
        Ok(nothing(StatusCode::NO_CONTENT))
    })
}

pub(super) fn connect(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let spec = ask.json()?;
    shared.edit(|state| {
        let network = found(state, key)?.clone();
        let address = state.next_address(&network);
        let container = state.container_mut(spec["Container"].as_str().unwrap_or_default())?;
        if container.phase == Phase::Running {
            container.endpoint = Some((network.id, address));
        }
        Ok(nothing(StatusCode::OK))
    })
}

pub(super) fn disconnect(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let spec = ask.json()?;
    shared.edit(|state| {
        let id = found(state, key)?.id.clone();
        let container = state.container_mut(spec["Container"].as_str().unwrap_or_default())?;
        if container
            .endpoint
            .as_ref()
            .is_some_and(|(network, _)| *network == id)
        {
            container.endpoint = None;
        }
        Ok(nothing(StatusCode::OK))
    })
}
