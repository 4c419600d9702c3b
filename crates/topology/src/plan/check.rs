//! Refuses what can't run, before anything is created: each with the place in the job and the way out.

use std::collections::BTreeSet;

use everdict_contracts::{Acquire, Fault, IsolateBy, Os, ServiceHarness, TopologyService};

use super::PlanPolicy;
use crate::images::ImageRef;
use crate::stores::kind_name;
use crate::{env, names};

/// Name under which containers reach the host; the runtime gives it to all of them.
const HOST_ALIAS: &str = "host.docker.internal";
/// Longest name that resolves as one label (RFC 1035).
const MAX_NAME_CHARS: usize = 63;

/// Checks the whole spec but its order, volumes and limits.
pub(super) fn spec(spec: &ServiceHarness, policy: &PlanPolicy) -> Result<(), Fault> {
    for (index, service) in spec.services.iter().enumerate() {
        let path = format!("harnessSpec.services[{index}]");
        name(spec, index, &path)?;
        container(service, &path, policy)?;
        peers(spec, service, &path)?;
    }
    env::check_secrets(&spec.services)?;
    for (index, dependency) in spec.dependencies.iter().enumerate() {
        if let Some(service) = &dependency.service {
            known(
                spec,
                service,
                &format!("harnessSpec.dependencies[{index}].service"),
            )?;
        }
    }
    callable(spec, &spec.front_door.service, "harnessSpec.frontDoor.service")?;
    target(spec)
}

fn refuse(path: &str, why: impl std::fmt::Display) -> Fault {
    Fault::bad_request(format!("{path}: {why}"))
}

/// A name is how peers reach the service, so it must resolve and be one's own; DNS doesn't tell case apart.
fn name(spec: &ServiceHarness, index: usize, path: &str) -> Result<(), Fault> {
    let name = &spec.services[index].name;
    let path = format!("{path}.name");
    let resolves = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= MAX_NAME_CHARS
        && names::sanitize(name) == *name;
    if !resolves {
        return Err(refuse(
            &path,
            format!(
                "`{name}` can't be a host name; use up to {MAX_NAME_CHARS} letters, digits, `-`, `_` or `.`"
            ),
        ));
    }
    let lower = name.to_ascii_lowercase();
    if let Some(earlier) = spec.services[..index]
        .iter()
        .position(|peer| peer.name.to_ascii_lowercase() == lower)
    {
        return Err(refuse(
            &path,
            format!("`{name}` is also the name of harnessSpec.services[{earlier}]; give each its own"),
        ));
    }
    let store = spec
        .dependencies
        .iter()
        .filter(|dependency| dependency.isolate_by != IsolateBy::External)
        .any(|dependency| {
            names::store_alias(&spec.id, kind_name(dependency.store)).to_ascii_lowercase() == lower
        });
    if store || lower == HOST_ALIAS || lower == "localhost" {
        let whose = if store {
            "a store of this topology"
        } else {
            "the runtime"
        };
        return Err(refuse(
            &path,
            format!("`{name}` is a host name of {whose}; choose another"),
        ));
    }
    Ok(())
}

fn container(service: &TopologyService, path: &str, policy: &PlanPolicy) -> Result<(), Fault> {
    if service.on_host() {
        return Err(refuse(
            &format!("{path}.exec.kind"),
            format!(
                "`{}` would run on the host, but this runtime only runs containers; give it an `image` instead",
                service.name
            ),
        ));
    }
    let image = service.image.as_deref().unwrap_or_default();
    if let Err(error) = ImageRef::parse(image) {
        return Err(refuse(&format!("{path}.image"), error));
    }
    if let Some(port) = service.port
        && !u16::try_from(port).is_ok_and(|port| port > 0)
    {
        return Err(refuse(
            &format!("{path}.port"),
            format!("{port} is no port; choose one from 1 to 65535"),
        ));
    }
    if service.replicas != 1 {
        return Err(refuse(
            &format!("{path}.replicas"),
            format!(
                "{} copies asked for, but this runtime starts each service once; set it to 1",
                service.replicas
            ),
        ));
    }
    if let Some(os @ (Os::Windows | Os::Macos)) = service.requires.and_then(|requires| requires.os) {
        let os = if os == Os::Windows { "windows" } else { "macos" };
        return Err(refuse(
            &format!("{path}.requires.os"),
            format!("containers here run linux, not {os}; target a runtime with {os}"),
        ));
    }
    if service.resources.is_some_and(|resources| resources.gpu.is_some()) && !policy.gpus {
        return Err(refuse(
            &format!("{path}.resources.gpu"),
            "this machine gives no GPU to containers; have its owner allow it in the runner's settings, or take it out",
        ));
    }
    Ok(())
}

fn peers(spec: &ServiceHarness, service: &TopologyService, path: &str) -> Result<(), Fault> {
    for (index, needed) in service.needs.iter().enumerate() {
        known(spec, needed, &format!("{path}.needs[{index}]"))?;
    }
    for (index, wiring) in service.wiring.iter().flatten().enumerate() {
        known(spec, &wiring.service, &format!("{path}.wiring[{index}].service"))?;
    }
    Ok(())
}

fn known<'s>(spec: &'s ServiceHarness, name: &str, path: &str) -> Result<&'s TopologyService, Fault> {
    spec.services
        .iter()
        .find(|service| service.name == name)
        .ok_or_else(|| {
            let names: BTreeSet<&str> = spec
                .services
                .iter()
                .map(|service| service.name.as_str())
                .collect();
            let names: Vec<&str> = names.into_iter().collect();
            refuse(
                path,
                format!(
                    "no service is named `{name}`; the services are {}",
                    names.join(", ")
                ),
            )
        })
}

fn callable(spec: &ServiceHarness, name: &str, path: &str) -> Result<(), Fault> {
    let service = known(spec, name, path)?;
    if service.port.is_none() {
        return Err(refuse(
            path,
            format!("`{name}` can't be called, it has no port; give it a `port`"),
        ));
    }
    Ok(())
}

fn target(spec: &ServiceHarness) -> Result<(), Fault> {
    let Some(target) = &spec.target else { return Ok(()) };
    let path = "harnessSpec.target";
    if let Some(extension) = &target.extension
        && let Err(error) = ImageRef::parse(&extension.r#ref)
    {
        return Err(refuse(&format!("{path}.extension.ref"), error));
    }
    let Some(Acquire::Service(acquire)) = &target.acquire else {
        return Ok(());
    };
    callable(spec, &acquire.service, &format!("{path}.acquire.service"))?;
    if let Some(service) = acquire
        .capacity
        .as_ref()
        .and_then(|capacity| capacity.service.as_ref())
    {
        callable(spec, service, &format!("{path}.acquire.capacity.service"))?;
    }
    if let Some(service) = acquire.ready.as_ref().and_then(|ready| ready.service.as_ref()) {
        callable(spec, service, &format!("{path}.acquire.ready.service"))?;
    }
    Ok(())
}
