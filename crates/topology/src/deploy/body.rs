//! What the daemon is asked to make: every container is confined the same way, whoever wrote its image.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{
    ContainerCreateBody, DeviceRequest, EndpointSettings, HostConfig, HostConfigLogConfig, NetworkingConfig,
    PortBinding,
};

use crate::labels::{self, Kind};
use crate::plan::{BrowserPlan, EnvPairs, Limits, MountPlan, ServicePlan, StorePlan};
use crate::stores::kind_name;

/// Capabilities that entrypoints use to prepare their folders and to step down from root. None reaches the host: no
/// raw sockets, no mounts, no devices.
pub(super) const STEP_DOWN: [&str; 6] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "SETGID",
    "SETUID",
    "NET_BIND_SERVICE",
];

/// Size of each log file, and how many are kept: 30 MB per container at most.
const LOG_MAX_SIZE: &str = "10m";
const LOG_MAX_FILES: &str = "3";

/// What all containers of a topology have in common.
pub(crate) struct Common<'a> {
    pub(crate) network: &'a str,
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// `name:address`, for their tables of hosts.
    pub(crate) pinned: &'a [String],
}

struct Parts<'a> {
    image: &'a str,
    env: Option<&'a EnvPairs>,
    cmd: &'a [String],
    aliases: Vec<String>,
    labels: BTreeMap<String, String>,
    port: Option<u16>,
    limits: Limits,
    capabilities: &'a [&'a str],
    init: bool,
}

pub(crate) fn store(common: &Common<'_>, plan: &StorePlan) -> ContainerCreateBody {
    let mut body = common.body(Parts {
        image: &plan.image,
        env: Some(&plan.env),
        cmd: &plan.cmd,
        aliases: vec![plan.alias.clone()],
        labels: labels::of_kind(common.labels, Kind::Store, Some(kind_name(plan.kind))),
        port: None,
        limits: plan.limits,
        capabilities: &STEP_DOWN,
        init: false,
    });
    if let Some(host) = &mut body.host_config {
        let options = |size: u64, mode: &str| format!("rw,size={size},mode={mode}");
        let folders = plan
            .tmpfs
            .iter()
            .map(|tmpfs| (tmpfs.target.clone(), options(tmpfs.size_bytes, tmpfs.mode)));
        host.tmpfs = Some(folders.collect());
    }
    body
}

pub(crate) fn service(common: &Common<'_>, plan: &ServicePlan) -> ContainerCreateBody {
    let mut body = common.body(Parts {
        image: &plan.image,
        env: Some(&plan.env),
        cmd: &[],
        aliases: plan.aliases.clone(),
        labels: labels::of_kind(common.labels, Kind::Service, Some(&plan.name)),
        port: plan.port,
        limits: plan.limits,
        capabilities: &STEP_DOWN,
        init: true,
    });
    if let Some(host) = &mut body.host_config {
        host.binds = Some(plan.mounts.iter().map(bind).collect());
        host.device_requests = plan.gpus.map(|count| {
            vec![DeviceRequest {
                count: i64::try_from(count).ok(),
                capabilities: Some(vec![vec!["gpu".to_owned()]]),
                ..DeviceRequest::default()
            }]
        });
    }
    body
}

/// `labels` are those of the case.
pub(crate) fn browser(common: &Common<'_>, plan: &BrowserPlan, alias: &str) -> ContainerCreateBody {
    let mut body = common.body(Parts {
        image: &plan.image,
        env: None,
        cmd: &plan.args,
        aliases: vec![alias.to_owned()],
        labels: labels::of_kind(common.labels, Kind::Browser, None),
        port: Some(plan.port),
        limits: plan.limits,
        // The default browser asks for nothing; an image of the harness' own may step down from root.
        capabilities: if plan.extension { &STEP_DOWN } else { &[] },
        init: true,
    });
    if let Some(host) = &mut body.host_config {
        host.shm_size = i64::try_from(plan.shm_bytes).ok();
    }
    body
}

impl Common<'_> {
    fn body(&self, parts: Parts<'_>) -> ContainerCreateBody {
        let endpoint = EndpointSettings {
            aliases: Some(parts.aliases),
            ..EndpointSettings::default()
        };
        let port = parts.port.map(|port| format!("{port}/tcp"));
        ContainerCreateBody {
            image: Some(parts.image.to_owned()),
            env: parts.env.map(EnvPairs::to_engine),
            cmd: (!parts.cmd.is_empty()).then(|| parts.cmd.to_vec()),
            labels: Some(parts.labels.into_iter().collect()),
            exposed_ports: port.clone().map(|port| vec![port]),
            host_config: Some(HostConfig {
                network_mode: Some(self.network.to_owned()),
                port_bindings: port.map(|port| HashMap::from([(port, Some(vec![loopback()]))])),
                extra_hosts: Some(
                    std::iter::once("host.docker.internal:host-gateway".to_owned())
                        .chain(self.pinned.iter().cloned())
                        .collect(),
                ),
                memory: Some(parts.limits.memory_bytes),
                // Equal to the memory: no swap, so that running out is seen rather than felt by the whole machine.
                memory_swap: Some(parts.limits.memory_bytes),
                nano_cpus: parts.limits.cpu_nanos,
                pids_limit: Some(parts.limits.pids),
                init: Some(parts.init),
                privileged: Some(false),
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(parts.capabilities.iter().map(ToString::to_string).collect()),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                log_config: Some(log_config()),
                ..HostConfig::default()
            }),
            networking_config: Some(NetworkingConfig {
                endpoints_config: Some(HashMap::from([(self.network.to_owned(), endpoint)])),
            }),
            ..ContainerCreateBody::default()
        }
    }
}

/// A port of the loopback that the daemon picks: nobody on the local network reaches it, and no two cases want the same.
fn loopback() -> PortBinding {
    PortBinding {
        host_ip: Some("127.0.0.1".to_owned()),
        host_port: Some(String::new()),
    }
}

/// `json-file` rather than `local`: Podman has no `local`.
fn log_config() -> HostConfigLogConfig {
    let config = [("max-size", LOG_MAX_SIZE), ("max-file", LOG_MAX_FILES)];
    HostConfigLogConfig {
        typ: Some("json-file".to_owned()),
        config: Some(
            config
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        ),
    }
}

fn bind(mount: &MountPlan) -> String {
    let (source, target, read_only) = match mount {
        MountPlan::Volume {
            volume,
            target,
            read_only,
        } => (volume.clone(), target, read_only),
        MountPlan::Host {
            source,
            target,
            read_only,
        } => (source.display().to_string(), target, read_only),
    };
    format!("{source}:{target}{}", if *read_only { ":ro" } else { "" })
}
