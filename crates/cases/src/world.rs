//! The world a case declares, and whether a host process, or a container of the case's image, can be that world.

use everdict_contracts::{
    EnvSpec, EvalCase, ExecutionManifest, Fault, ImageProvenance, MANIFEST_VERSION, NetworkMode, NoImages,
    Os, OsResolved,
};
use everdict_topology::case_container::CaseSpec;

use crate::context::CaseContext;

/// The operating system this process really runs on.
const HOST_OS: Os = if cfg!(target_os = "macos") {
    Os::Macos
} else if cfg!(windows) {
    Os::Windows
} else {
    Os::Linux
};

/// Checks that the case may run in a container of its image, or as a host process when it names none, and says what
/// world that is. Which image it really is shows only when the container is there.
///
/// # Errors
/// `BAD_REQUEST` naming the declaration that can't be honoured.
pub(crate) fn admit(
    case: &EvalCase,
    ctx: &CaseContext,
) -> Result<(ExecutionManifest, Option<CaseSpec>), Fault> {
    match &case.env {
        EnvSpec::Prompt(_) | EnvSpec::Repo(_) => {}
        EnvSpec::Browser(_) => {
            return Err(Fault::bad_request(
                "evalCase.env.kind: a browser is only there for a service harness, which brings one",
            ));
        }
        EnvSpec::OsUse(_) => {
            return Err(Fault::bad_request(
                "evalCase.env.kind: os-use needs a desktop of its own, which this runner has not",
            ));
        }
    }
    let Some(spec) = CaseSpec::of_case(case)? else {
        return Ok((admit_host(case)?, None));
    };
    if ctx.containers.is_none() {
        return Err(Fault::bad_request(format!(
            "evalCase.image: the case asks for image `{}`, and this runner has no docker daemon to run it with",
            spec.image()
        )));
    }
    let declared = linux_only(case, "the case's image is linux")?;
    let manifest = ExecutionManifest {
        os: Os::Linux,
        os_resolved: resolved(declared),
        driver: Some("docker".to_owned()),
        image: None,
        runtime: None,
        manifest_version: Some(MANIFEST_VERSION),
        image_provenance: None,
        world: None,
    };
    Ok((manifest, Some(spec)))
}

fn admit_host(case: &EvalCase) -> Result<ExecutionManifest, Fault> {
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
    let declared = linux_only(case, "a topology's containers are linux")?;
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

/// # Errors
/// `BAD_REQUEST` for another operating system.
fn linux_only(case: &EvalCase, fact: &str) -> Result<Option<Os>, Fault> {
    let declared = case.placement.as_ref().and_then(|placement| placement.os);
    match declared.filter(|os| *os != Os::Linux) {
        None => Ok(declared),
        Some(os) => Err(Fault::bad_request(format!(
            "evalCase.placement.os: the case asks for {}, and {fact}",
            name(os)
        ))),
    }
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
