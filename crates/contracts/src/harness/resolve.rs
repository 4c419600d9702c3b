//! Fills a template with an instance.

use super::command::CommandHarness;
use super::front_door::{Completion, FrontDoorRequest, FrontDoorSpec};
use super::service::{ServiceHarness, TopologyService};
use super::template::{
    CommandTemplate, CompletionOverride, FrontDoorOverride, HarnessInstance, HarnessTemplate,
    ServiceOverride, ServiceTemplate, SlottedService,
};
use super::{HarnessSpec, ModelBinding, ProcessHarness};
use crate::fault::Fault;

/// The pin that names a command's image.
const IMAGE_PIN: &str = "image";
/// The pin that names a command's model.
const MODEL_PIN: &str = "model";

/// Makes the harness that `instance` says, of `template`.
///
/// # Errors
/// [`crate::ErrorCode::BadRequest`] when the instance belongs to another template, leaves a slot open, pins what has
/// no slot, or overrides what the template lacks.
pub fn resolve(template: &HarnessTemplate, instance: &HarnessInstance) -> Result<HarnessSpec, Fault> {
    let reference = template.reference();
    if reference != instance.template {
        return Err(Fault::bad_request(format!(
            "instance {}@{} is of template {}, not of {reference}",
            instance.id, instance.version, instance.template
        )));
    }
    match template {
        HarnessTemplate::Process(_) => Ok(HarnessSpec::Process(ProcessHarness {
            id: instance.id.clone(),
            version: instance.version.clone(),
        })),
        HarnessTemplate::Command(command) => Ok(HarnessSpec::Command(resolve_command(command, instance))),
        HarnessTemplate::Service(service) => {
            resolve_service(service, instance).map(|harness| HarnessSpec::Service(Box::new(harness)))
        }
    }
}

fn resolve_command(template: &CommandTemplate, instance: &HarnessInstance) -> CommandHarness {
    let overrides = instance.overrides.clone().unwrap_or_default();
    let mut env = template.env.clone();
    env.extend(overrides.env.unwrap_or_default());
    let mut params = template.params.clone();
    params.extend(overrides.params.unwrap_or_default());
    CommandHarness {
        id: instance.id.clone(),
        version: instance.version.clone(),
        image: instance.pins.get(IMAGE_PIN).or(template.image.as_ref()).cloned(),
        resources: overrides.resources.or(template.resources),
        work_dir: template.work_dir.clone(),
        setup: template.setup.clone(),
        command: template.command.clone(),
        env,
        model: instance
            .pins
            .get(MODEL_PIN)
            .or(template.model.as_ref())
            .cloned()
            .map(ModelBinding::Name),
        params,
        trace: template.trace.clone(),
        live_screen: template.live_screen.clone(),
    }
}

fn resolve_service(template: &ServiceTemplate, instance: &HarnessInstance) -> Result<ServiceHarness, Fault> {
    let overrides = instance.overrides.clone().unwrap_or_default();
    let by_service = overrides.services.unwrap_or_default();
    if let Some(stranger) = by_service.keys().find(|name| {
        !template
            .services
            .iter()
            .any(|slotted| &slotted.service.name == *name)
    }) {
        return Err(Fault::bad_request(format!(
            "overrides.services.{stranger}: the template has no such service"
        )));
    }
    let services = template
        .services
        .iter()
        .map(|slotted| {
            let service = fill(slotted, instance)?;
            Ok(match by_service.get(&service.name) {
                Some(patch) => patch_service(service, patch),
                None => service,
            })
        })
        .collect::<Result<Vec<_>, Fault>>()?;
    let mut target = template.target.clone();
    if let Some(extension) = overrides.target.and_then(|target| target.extension) {
        let Some(target) = target.as_mut() else {
            return Err(Fault::bad_request(
                "overrides.target.extension: the template has no target",
            ));
        };
        target.extension = Some(extension);
    }
    let mut front_door = template.front_door.clone();
    if let Some(patch) = &overrides.front_door {
        patch_front_door(&mut front_door, patch);
    }
    Ok(ServiceHarness {
        id: instance.id.clone(),
        version: instance.version.clone(),
        services,
        dependencies: template.dependencies.clone(),
        target,
        front_door,
        trace_source: template.trace_source.clone(),
    })
}

fn fill(slotted: &SlottedService, instance: &HarnessInstance) -> Result<TopologyService, Fault> {
    let mut service = slotted.service.clone();
    let slot = slotted.slot();
    match instance.pins.get(slot) {
        Some(_) if service.on_host() => Err(Fault::bad_request(format!(
            "pins.{slot}: service {} runs on the host and has no image",
            service.name
        ))),
        Some(image) => {
            service.image = Some(image.clone());
            Ok(service)
        }
        None if service.image.is_none() && !service.on_host() => Err(Fault::bad_request(format!(
            "pins.{slot}: service {} needs an image, from a pin or from the template",
            service.name
        ))),
        None => Ok(service),
    }
}

fn patch_service(mut service: TopologyService, patch: &ServiceOverride) -> TopologyService {
    service.env.extend(patch.env.clone().unwrap_or_default());
    for name in patch.unset_env.iter().flatten() {
        service.env.remove(name);
    }
    service.replicas = patch.replicas.unwrap_or(service.replicas);
    service.resources = patch.resources.or(service.resources);
    service.readiness = patch.readiness.or(service.readiness);
    if patch.volumes.is_some() {
        service.volumes.clone_from(&patch.volumes);
    }
    if patch.model.is_some() {
        service.model.clone_from(&patch.model);
    }
    service
}

fn patch_front_door(front_door: &mut FrontDoorSpec, patch: &FrontDoorOverride) {
    if let Some(entries) = patch.body_template() {
        let request = front_door.request.get_or_insert_with(FrontDoorRequest::default);
        request
            .body_template
            .get_or_insert_default()
            .extend(entries.clone());
    }
    if let (Some(completion), Some(times)) = (front_door.completion.as_mut(), patch.completion) {
        patch_completion(completion, times);
    }
}

fn patch_completion(completion: &mut Completion, times: CompletionOverride) {
    let (timeout, interval) = match completion {
        Completion::Sync(sync) => {
            sync.timeout_ms = times.timeout_ms.or(sync.timeout_ms);
            return;
        }
        Completion::Poll(poll) => (&mut poll.timeout_ms, Some(&mut poll.interval_ms)),
        Completion::Trace(trace) => (&mut trace.timeout_ms, Some(&mut trace.interval_ms)),
        Completion::Stream(stream) => (&mut stream.timeout_ms, None),
        Completion::Callback(callback) => (&mut callback.timeout_ms, None),
    };
    if let Some(new) = times.timeout_ms {
        *timeout = new;
    }
    if let (Some(slot), Some(new)) = (interval, times.interval_ms) {
        *slot = new;
    }
}

#[cfg(test)]
mod tests;
