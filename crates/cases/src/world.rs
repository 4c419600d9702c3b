//! The world a case declares, and whether a host process can be that world.

use everdict_contracts::{
    EnvSpec, EvalCase, ExecutionManifest, Fault, ImageProvenance, MANIFEST_VERSION, NetworkMode, NoImages,
    Os, OsResolved,
};

/// The operating system this process really runs on.
const HOST_OS: Os = if cfg!(target_os = "macos") {
    Os::Macos
} else if cfg!(windows) {
    Os::Windows
} else {
    Os::Linux
};

/// Checks that the case may run as a host process, and says what world that is.
///
/// # Errors
/// `BAD_REQUEST` naming the declaration that a host process can't honour.
pub(crate) fn admit(case: &EvalCase) -> Result<ExecutionManifest, Fault> {
    match &case.env {
        EnvSpec::Prompt(_) | EnvSpec::Repo(_) => {}
        EnvSpec::Browser(_) => {
            return Err(Fault::bad_request(
                "evalCase.env.kind: a browser is only there for a service harness, which brings one",
            ));
        }
        EnvSpec::OsUse(_) => {
            return Err(Fault::bad_request(
                "evalCase.env.kind: os-use needs a desktop of its own, which a host process has not",
            ));
        }
    }
    if let Some(image) = &case.image {
        return Err(Fault::bad_request(format!(
            "evalCase.image: the case asks for image `{image}`, and this runner runs cases as host processes only"
        )));
    }
    if let Some(resources) = &case.resources
        && (resources.cpu.is_some() || resources.memory_mb.is_some() || resources.gpu.is_some())
    {
        return Err(Fault::bad_request(
            "evalCase.resources: a host process can't be held to a cpu, memory or gpu limit; send the case to a container \
             runtime, or drop the limit",
        ));
    }
    if case
        .network
        .as_ref()
        .is_some_and(|network| network.mode != NetworkMode::Public)
    {
        return Err(Fault::bad_request(
            "evalCase.network: a host process shares the host's network; send the case to a container runtime, since with \
             an open network it would be another task",
        ));
    }
    manifest(case)
}

/// Checks that the case may run on a topology of containers, and says what world that is.
///
/// Its image and its machine are those of the harness' services.
///
/// # Errors
/// `BAD_REQUEST` naming the declaration that a topology can't honour.
pub(crate) fn admit_service(case: &EvalCase, runtime: &str) -> Result<ExecutionManifest, Fault> {
    let declared = case.placement.as_ref().and_then(|placement| placement.os);
    if let Some(os) = declared.filter(|os| *os != Os::Linux) {
        return Err(Fault::bad_request(format!(
            "evalCase.placement.os: the case asks for {}, and a topology's containers are linux",
            name(os)
        )));
    }
    if case
        .network
        .as_ref()
        .is_some_and(|network| network.mode != NetworkMode::Public)
    {
        return Err(Fault::bad_request(
            "evalCase.network: a topology's containers reach the open network; with it the case would be another task",
        ));
    }
    Ok(ExecutionManifest {
        os: Os::Linux,
        os_resolved: resolved(declared),
        driver: None,
        image: None,
        runtime: Some(runtime.to_owned()),
        manifest_version: None,
        image_provenance: None,
        world: None,
    })
}

fn resolved(declared: Option<Os>) -> OsResolved {
    match declared {
        Some(_) => OsResolved::Declared,
        None => OsResolved::Defaulted,
    }
}

fn manifest(case: &EvalCase) -> Result<ExecutionManifest, Fault> {
    let declared = case.placement.as_ref().and_then(|placement| placement.os);
    if let Some(os) = declared.filter(|os| *os != HOST_OS) {
        return Err(Fault::bad_request(format!(
            "evalCase.placement.os: the case asks for {}, and this machine runs {}",
            name(os),
            name(HOST_OS)
        )));
    }
    Ok(ExecutionManifest {
        os: HOST_OS,
        os_resolved: resolved(declared),
        driver: Some("local".to_owned()),
        image: None,
        runtime: None,
        manifest_version: Some(MANIFEST_VERSION),
        image_provenance: Some(ImageProvenance::None(NoImages {})),
        world: None,
    })
}

fn name(os: Os) -> &'static str {
    match os {
        Os::Linux => "linux",
        Os::Windows => "windows",
        Os::Macos => "macos",
    }
}
