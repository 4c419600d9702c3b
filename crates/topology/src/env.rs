//! The environment of a service, merged in the protocol's order; of equal names the later wins:
//!
//! 1. conventional variables of every store,
//! 2. peers by `wiring`,
//! 3. the service's own, with `{{peer}}` places filled,
//! 4. the member's overlay,
//! 5. what dependencies `inject`.

use std::collections::BTreeMap;

use everdict_contracts::{EnvValue, Fault, IsolateBy, ServiceHarness, TopologyService};

use crate::plan::{EnvPairs, StorePlan};

/// Refuses secrets that the control plane should have filled in, all of them at once.
pub(crate) fn check_secrets(services: &[TopologyService]) -> Result<(), Fault> {
    let missing: Vec<String> = services
        .iter()
        .enumerate()
        .flat_map(|(index, service)| {
            let unresolved = service
                .env
                .iter()
                .filter(|(_, value)| matches!(value, EnvValue::Secret(_)));
            unresolved.map(move |(name, _)| format!("harnessSpec.services[{index}].env.{name}"))
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Fault::bad_request(format!(
        "{}: no value for the secret; set it in the workspace's secrets and run again",
        missing.join(", ")
    )))
}

/// Merges the environment of one service.
pub(crate) fn merge(
    spec: &ServiceHarness,
    index: usize,
    stores: &[StorePlan],
    overlay: &BTreeMap<String, String>,
) -> Result<EnvPairs, Fault> {
    let service = &spec.services[index];
    let path = format!("harnessSpec.services[{index}]");
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    for store in stores {
        env.extend(
            store
                .values
                .conventional_env()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
    }
    env.extend(wired_peers(spec, service));
    for (name, value) in &service.env {
        if let EnvValue::Plain(text) = value {
            let text = fill_peers(spec, service, text)
                .map_err(|why| Fault::bad_request(format!("{path}.env.{name}: {why}")))?;
            env.insert(name.clone(), text);
        }
    }
    env.extend(overlay.iter().map(|(name, value)| (name.clone(), value.clone())));
    inject(spec, service, stores, &mut env)?;
    for (name, value) in &env {
        check_pair(name, value).map_err(|why| Fault::bad_request(format!("{path}.env: `{name}` {why}")))?;
    }
    Ok(env.into_iter().collect())
}

fn check_pair(name: &str, value: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("can't be the name of a variable; take out `=` and NUL characters");
    }
    if value.contains('\0') {
        return Err("has a value with a NUL character, which no variable can hold");
    }
    Ok(())
}

/// Peers without a port have no address, so nothing of them is wired.
fn wired_peers(spec: &ServiceHarness, service: &TopologyService) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for wiring in service.wiring.iter().flatten() {
        let Some(port) = peer(spec, &wiring.service).and_then(|peer| peer.port) else {
            continue;
        };
        let host = &wiring.service;
        let values = [
            (&wiring.host_env, host.clone()),
            (&wiring.port_env, port.to_string()),
            (&wiring.url_env, format!("http://{host}:{port}")),
        ];
        pairs.extend(
            values
                .into_iter()
                .filter_map(|(name, value)| Some((name.clone()?, value))),
        );
    }
    pairs
}

fn peer<'s>(spec: &'s ServiceHarness, name: &str) -> Option<&'s TopologyService> {
    spec.services.iter().find(|service| service.name == name)
}

/// Fills `{{peer}}`, `{{peer.url}}`, `{{peer.host}}` and `{{peer.port}}` in one pass. A place that names no service is
/// not ours and stays.
fn fill_peers(spec: &ServiceHarness, service: &TopologyService, text: &str) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        match token(rest) {
            Some((name, length)) => {
                match peer_value(spec, service, name)? {
                    Some(value) => filled.push_str(&value),
                    None => filled.push_str(&rest[..length]),
                }
                rest = &rest[length..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Reads `{{ name }}` at the start of `text`: the name, and the length of the whole.
fn token(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?;
    let end = inner.find("}}")?;
    let name = inner[..end].trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (!name.is_empty() && name.chars().all(fits)).then_some((name, end + 4))
}

fn peer_value(
    spec: &ServiceHarness,
    service: &TopologyService,
    token: &str,
) -> Result<Option<String>, String> {
    let (name, field) = match token.rsplit_once('.') {
        Some((name, field @ ("host" | "port" | "url"))) => (name, field),
        _ => (token, "url"),
    };
    let Some(peer) = peer(spec, name) else {
        return Ok(None);
    };
    if !service.needs.iter().any(|needed| needed == name) {
        return Err(format!(
            "`{{{{{token}}}}}` names a service that isn't needed; add `{name}` to `needs`"
        ));
    }
    let Some(port) = peer.port else {
        return Err(format!(
            "`{{{{{token}}}}}` names a service without a port; give `{name}` a `port`"
        ));
    };
    Ok(Some(match field {
        "host" => name.to_owned(),
        "port" => port.to_string(),
        _ => format!("http://{name}:{port}"),
    }))
}

fn inject(
    spec: &ServiceHarness,
    service: &TopologyService,
    stores: &[StorePlan],
    env: &mut BTreeMap<String, String>,
) -> Result<(), Fault> {
    for (index, dependency) in spec.dependencies.iter().enumerate() {
        let meant = dependency
            .service
            .as_ref()
            .is_none_or(|only| *only == service.name);
        if !meant || dependency.isolate_by == IsolateBy::External {
            continue;
        }
        let Some(store) = stores.iter().find(|store| store.kind == dependency.store) else {
            continue;
        };
        for (item, mapping) in dependency.inject.iter().flatten().enumerate() {
            let value = store.values.render(&mapping.template).map_err(|error| {
                Fault::bad_request(format!(
                    "harnessSpec.dependencies[{index}].inject[{item}].template: {error}"
                ))
            })?;
            env.insert(mapping.env.clone(), value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
