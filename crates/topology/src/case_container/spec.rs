//! What a case's container is to be, and what of a case no container can give.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig};
use everdict_contracts::{EvalCase, Fault};

use super::script;
use crate::egress::{CaseNetwork, Reaching, Wanted};
use crate::engine::Engine;
use crate::images::ImageRef;
use crate::plan::{Limits, service_limits};

/// Where the image is declared.
pub(super) const IMAGE_PATH: &str = "evalCase.image";

/// A root user in the image may install packages, step down to other users and end their processes. None of these
/// reaches the host: no raw sockets, no mounts, no devices.
const CAPABILITIES: [&str; 7] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
];

/// A browser started by a test suite keeps its bitmaps in there; the engine's default of 64 MB makes it crash. It counts
/// as the container's memory, and only as far as it is used.
const SHM_BYTES: i64 = 1024 * 1024 * 1024;

/// The idle main process prints nothing, and the output of commands doesn't go there.
const LOG_MAX_SIZE: &str = "1m";

/// A container for a case, as far as it can be decided without a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseSpec {
    image: String,
    limits: Limits,
    memory_declared: bool,
    network: CaseNetwork,
}

impl CaseSpec {
    /// Reads the spec off a case; `None` when the case names no image.
    ///
    /// # Errors
    /// `BAD_REQUEST` with the place of what can't be had: a malformed image or host, a gpu, limits that
    /// no machine has.
    pub fn of_case(case: &EvalCase) -> Result<Option<Self>, Fault> {
        let Some(image) = &case.image else { return Ok(None) };
        ImageRef::parse(image).map_err(|error| Fault::bad_request(format!("{IMAGE_PATH}: {error}")))?;
        let network = CaseNetwork::of_case(case)?;
        let wanted = case.resources.unwrap_or_default();
        if wanted.gpu.is_some() {
            return Err(Fault::bad_request(
                "evalCase.resources.gpu: this runner gives the containers of cases no gpu",
            ));
        }
        let limits = service_limits(wanted)
            .map_err(|(field, why)| Fault::bad_request(format!("evalCase.resources.{field}: {why}")))?;
        Ok(Some(Self {
            image: image.clone(),
            limits,
            memory_declared: wanted.memory_mb.is_some(),
            network,
        }))
    }

    /// The image's reference, as declared.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// What the container may reach, with names resolved.
    ///
    /// # Errors
    /// `BAD_REQUEST` for a list of hosts where nobody is held to one, and for a name without an address.
    pub(super) async fn reach(&self, engine: &Engine) -> Result<Reaching, Fault> {
        self.network.alone(engine).await
    }

    /// What the daemon is asked to make. `image` is an id, so that a tag that moves changes nothing; `machine_memory`
    /// is the daemon's, in bytes.
    pub(super) fn body(
        &self,
        image: &str,
        labels: BTreeMap<String, String>,
        machine_memory: u64,
        reach: &Reaching,
    ) -> ContainerCreateBody {
        let memory = self.memory(machine_memory);
        let connected = self.network.0 != Wanted::None;
        let machine = "host.docker.internal:host-gateway".to_owned();
        let hosts = || {
            std::iter::once(machine)
                .chain(reach.pinned.iter().cloned())
                .collect()
        };
        ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(vec!["sh".to_owned()]),
            cmd: Some(vec!["-c".to_owned(), script::IDLE.to_owned()]),
            // The idle shell waits for a line that nobody writes.
            open_stdin: Some(true),
            labels: Some(labels.into_iter().collect()),
            // The image's own check would run beside the case.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            host_config: Some(HostConfig {
                network_mode: Some(if connected { "bridge" } else { "none" }.to_owned()),
                extra_hosts: connected.then(hosts),
                memory: Some(memory),
                // Equal to the memory: no swap, so that running out is seen rather than felt by the whole machine.
                memory_swap: Some(memory),
                nano_cpus: self.limits.cpu_nanos,
                pids_limit: Some(self.limits.pids),
                shm_size: Some(SHM_BYTES),
                init: Some(true),
                privileged: Some(false),
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(CAPABILITIES.map(str::to_owned).to_vec()),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                log_config: Some(log_config()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    /// What is declared; else half the machine, since test suites of large projects need more than services do, and
    /// the machine must stay usable.
    fn memory(&self, machine_memory: u64) -> i64 {
        if self.memory_declared {
            return self.limits.memory_bytes;
        }
        let half = i64::try_from(machine_memory / 2).unwrap_or(i64::MAX);
        self.limits.memory_bytes.max(half)
    }
}

fn log_config() -> HostConfigLogConfig {
    let config = HashMap::from([
        ("max-size".to_owned(), LOG_MAX_SIZE.to_owned()),
        ("max-file".to_owned(), "1".to_owned()),
    ]);
    HostConfigLogConfig {
        typ: Some("json-file".to_owned()),
        config: Some(config),
    }
}

#[cfg(test)]
mod tests {
    use everdict_contracts::decode;
    use serde_json::{Value, json};

    use super::*;

    fn case(change: &Value) -> EvalCase {
        let mut case = json!({
            "id": "c", "env": {"kind": "prompt"}, "task": "t", "graders": [], "image": "redis:7-alpine"
        });
        for (key, value) in change.as_object().unwrap() {
            case[key] = value.clone();
        }
        decode(case).unwrap()
    }

    fn unpinned() -> Reaching {
        Reaching::default()
    }

    fn refused(change: &Value) -> String {
        CaseSpec::of_case(&case(change)).unwrap_err().message
    }

    #[test]
    fn a_case_without_an_image_needs_no_container() {
        let mut bare = case(&json!({}));
        bare.image = None;
        assert_eq!(CaseSpec::of_case(&bare).unwrap(), None);
    }

    #[test]
    fn what_no_container_can_give_is_refused_with_its_place() {
        let hosts = json!({"network": {"mode": "allowlist", "allowedHosts": ["*.example"]}});
        assert!(refused(&hosts).starts_with("evalCase.network.allowedHosts[0]: "));
        assert!(refused(&json!({"resources": {"gpu": 1}})).starts_with("evalCase.resources.gpu: "));
        assert!(refused(&json!({"resources": {"memoryMb": 1}})).starts_with("evalCase.resources.memoryMb: "));
        assert!(refused(&json!({"image": "No Such"})).starts_with("evalCase.image: `No Such` is no image"));
    }

    #[test]
    fn every_container_is_confined_whatever_its_image_says() {
        let spec = CaseSpec::of_case(&case(&json!({"network": {"mode": "none"}})))
            .unwrap()
            .unwrap();
        let body = spec.body("sha256:1", BTreeMap::new(), 64 << 30, &unpinned());
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.privileged, Some(false));
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
        assert_eq!(host.init, Some(true));
        assert!(host.pids_limit > Some(0));
        assert_eq!((host.memory, host.memory_swap), (Some(32 << 30), Some(32 << 30)));
        assert_eq!((host.binds, host.mounts, host.port_bindings), (None, None, None));
    }

    #[test]
    fn declared_memory_is_the_limit_however_large_the_machine() {
        let spec = CaseSpec::of_case(&case(&json!({"resources": {"memoryMb": 64}})))
            .unwrap()
            .unwrap();
        let body = spec.body("i", BTreeMap::new(), 64 << 30, &unpinned());
        let host = body.host_config.unwrap();
        assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)));
    }
}
