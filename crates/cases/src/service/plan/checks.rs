//! Names that must be known, and addresses that must be ones.

use std::collections::BTreeSet;

use everdict_contracts::{Acquire, Completion, Delivery, Fault, ServiceHarness};

use crate::service::interpolate::Vars;
use crate::service::wiring::{CALLBACK_URL, TARGET_CDP_URL};

/// The front door is a service with a port.
pub(super) fn front_door(spec: &ServiceHarness) -> Result<(), Fault> {
    service(spec, &spec.front_door.service, "harnessSpec.frontDoor.service")
}

/// Checks that `name` is a service that this process can talk to.
pub(crate) fn service(spec: &ServiceHarness, name: &str, field: &str) -> Result<(), Fault> {
    let known: Vec<&str> = spec
        .services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    match spec.services.iter().find(|service| service.name == name) {
        None => Err(Fault::bad_request(format!(
            "{field}: no service is named `{name}`; the services are {}",
            known.join(", ")
        ))),
        Some(service) if service.port.is_none() => Err(Fault::bad_request(format!(
            "{field}: the service `{name}` has no port, so that nobody can talk to it; give it one"
        ))),
        Some(_) => Ok(()),
    }
}

/// Names that services want of each run, each once.
pub(super) fn per_run(spec: &ServiceHarness) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = spec.services.iter().flat_map(|service| &service.per_run);
    names.filter(|name| seen.insert(name.as_str())).cloned().collect()
}

/// Every name that is asked for is known, and no target's coordinate takes the place of another variable.
pub(super) fn names(spec: &ServiceHarness, vars: &Vars) -> Result<(), Fault> {
    let mut known: BTreeSet<&str> = vars.keys().map(String::as_str).collect();
    if matches!(spec.front_door.completion, Some(Completion::Callback(_))) {
        known.insert(CALLBACK_URL);
    }
    match spec.target.as_ref().map(|target| &target.acquire) {
        None => {}
        Some(None | Some(Acquire::Provision(_))) => {
            known.insert(TARGET_CDP_URL);
        }
        Some(Some(Acquire::Service(acquire))) => {
            for name in acquire.coordinates.keys() {
                if !known.insert(name) || name == CALLBACK_URL {
                    return Err(Fault::bad_request(format!(
                        "harnessSpec.target.acquire.coordinates.{name}: a run has a variable of this name already; \
                         choose another"
                    )));
                }
            }
        }
    }
    for (index, service) in spec.services.iter().enumerate() {
        for (place, name) in service.per_run.iter().enumerate() {
            if !known.contains(name.as_str()) {
                let known: Vec<&str> = known.into_iter().collect();
                return Err(Fault::bad_request(format!(
                    "harnessSpec.services[{index}].perRun[{place}]: a run has no variable `{name}`; it has {}",
                    known.join(", ")
                )));
            }
        }
    }
    Ok(())
}

/// A sink is fetched over HTTP, or is a path of the front door.
pub(super) fn delivery(spec: &ServiceHarness) -> Result<(), Fault> {
    let Some(Delivery::Egress(egress)) = spec.target.as_ref().and_then(|target| target.delivery.as_ref())
    else {
        return Ok(());
    };
    let sink = egress.sink.trim();
    let fits = ["http://", "https://", "/", "{"]
        .iter()
        .any(|start| sink.starts_with(start));
    if fits {
        return Ok(());
    }
    Err(Fault::bad_request(format!(
        "harnessSpec.target.delivery.sink: `{sink}` is no address that is fetched from here; give one with http://, https://, \
         or a path of the front door"
    )))
}
