//! The gate: a helper container for a runner that may not enter the network of containers itself.
//!
//! It joins the network name space of one container, hands that one's rules to the kernel, and ends. Of all privileges it
//! has `NET_ADMIN`, in that name space; it runs nothing but [`PROGRAM`], which is all that is in its image. The engine
//! removes it when it ends, and a sweep when it never started.

mod answer;
mod image;

use std::sync::atomic::{AtomicU64, Ordering};

use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::AttachContainerOptionsBuilder;
use futures_util::StreamExt as _;
use tokio::sync::{Mutex, OnceCell};

use super::Failure;
use super::netlink::Batch;
use crate::digest::{hex, short_hash};
use crate::engine::{DaemonInfo, Engine, EngineError, EngineErrorKind, READ_LIMIT, START_LIMIT};
use crate::labels::{self, Kind, Owner};

pub(crate) use image::{REPOSITORY, is_gate};

/// A static executable of two kilobytes for the kernel of this build; empty where this build has none.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate"));

/// Its path in its image.
const PATH: &str = "/gate";

/// The most bytes of a batch: written in hexadecimal it has to fit into one argument, which Linux lets have 128 KB.
const BATCH_LIMIT: usize = 60 * 1024;

/// What the engine's own first steps in a container take, many times over; the program takes two hundred kilobytes.
const MEMORY_BYTES: i64 = 32 * 1024 * 1024;

/// The program is one process.
const PIDS: i64 = 8;

/// What all handles on one engine know of its gates.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    facts: OnceCell<Facts>,
    /// The image, once it is there. Held while it is being made, so that it is made once.
    image: Mutex<Option<String>>,
    /// How many were made; makes each name unlike all others.
    made: AtomicU64,
}

/// What matters of an engine, which doesn't change while it runs.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Why no gate can run there, if none can.
    pub(super) unfit: Option<String>,
    /// Whether this machine's addresses are those by which its containers reach this machine.
    pub(super) beside: bool,
}

/// Judges an engine by what it says about itself.
pub(super) fn facts_of(info: &DaemonInfo) -> Facts {
    Facts {
        unfit: unfit(info, std::env::consts::ARCH, !PROGRAM.is_empty()),
        beside: super::same_kernel(info) && !info.rootless,
    }
}

fn unfit(info: &DaemonInfo, ours: &str, have_program: bool) -> Option<String> {
    if !have_program {
        return Some("this build of the runner has no helper for linux engines".to_owned());
    }
    if info.os_type != "linux" {
        return Some(format!("the engine runs {} containers", info.os_type));
    }
    let theirs = match info.architecture.as_str() {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    (theirs != ours)
        .then(|| format!("the engine's machine is {theirs}, and this build's helper is for {ours}"))
}

impl Engine {
    /// What matters of the engine, asked once.
    pub(super) async fn gate_facts(&self) -> Result<Facts, Failure> {
        let ask = async { self.info().await.map(|info| facts_of(&info)) };
        let facts = self.gates().facts.get_or_try_init(|| ask).await;
        facts.cloned().map_err(no_way)
    }

    /// Hands batches to the kernel in a network: `container:` and an id.
    pub(super) async fn through_gate(&self, network: &str, batches: &[Batch]) -> Result<(), Failure> {
        if let Some(why) = self.gate_facts().await?.unfit {
            return Err(Failure::NoWay(why));
        }
        let Some(owner) = self.owner() else {
            return Err(Failure::NoWay("nobody is named as its owner".to_owned()));
        };
        let arguments = batches.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
        let (id, name) = self.make_gate(&owner, network, arguments).await.map_err(no_way)?;
        let printed = match self.run_gate(&id).await {
            Ok(printed) => printed,
            Err(error) => {
                // It may not have been started, and then nobody else removes it.
                if let Err(left) = self.remove_container(&id).await {
                    tracing::warn!(container = %name, error = %left, "a helper container stays for the next sweep");
                }
                return Err(no_way(error));
            }
        };
        answer::judge(&printed, batches)
    }

    async fn make_gate(
        &self,
        owner: &Owner,
        network: &str,
        arguments: Vec<String>,
    ) -> Result<(String, String), EngineError> {
        let count = self.gates().made.fetch_add(1, Ordering::Relaxed).to_string();
        let parts = [&*owner.install, &*owner.start, &*owner.pid.to_string(), &*count];
        let name = format!("{REPOSITORY}-{}", short_hash(&parts, 16));
        let image = self.gate_image(owner, None).await?;
        let made = body(owner, network, &arguments, &image);
        match self.create_container(&name, made).await {
            Err(error) if error.kind == EngineErrorKind::NoSuchImage => {
                // `gc`, of another process too, may have taken it away.
                let image = self.gate_image(owner, Some(&image)).await?;
                let made = body(owner, network, &arguments, &image);
                self.create_container(&name, made).await
            }
            other => other,
        }
        .map(|id| (id, name))
    }

    /// Starts it and gives out what it prints. Its output is followed from before the start, since nothing is left of it
    /// after its end.
    async fn run_gate(&self, id: &str) -> Result<Vec<u8>, EngineError> {
        let options = AttachContainerOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let attached = self.docker().attach_container(id, Some(options));
        let attached = self
            .call("follow a container's output", READ_LIMIT, attached)
            .await?;
        self.start_container(id).await?;
        let mut output = attached.output;
        let read = async {
            let mut printed = Vec::new();
            while let Some(piece) = output.next().await {
                printed.extend_from_slice(&piece?.into_bytes());
            }
            Ok(printed)
        };
        self.call("wait for a helper container", START_LIMIT, read).await
    }
}

fn no_way(error: EngineError) -> Failure {
    Failure::NoWay(error.to_string())
}

/// A batch as the program reads it.
fn argument(batch: &Batch) -> Result<String, Failure> {
    let (bytes, _) = batch.clone().finish();
    if bytes.len() > BATCH_LIMIT {
        return Err(Failure::NoWay(
            "the rules are too many for a helper container: declare fewer hosts".to_owned(),
        ));
    }
    let family = if batch.is_of_ipv6() { '6' } else { '4' };
    Ok(format!("{family}{}", hex(&bytes)))
}

fn body(owner: &Owner, network: &str, arguments: &[String], image: &str) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec![PATH.to_owned()]),
        cmd: Some(arguments.to_vec()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        labels: Some(
            labels::of_kind(&owner.labels(), Kind::Gate, None)
                .into_iter()
                .collect(),
        ),
        host_config: Some(HostConfig {
            network_mode: Some(network.to_owned()),
            auto_remove: Some(true),
            readonly_rootfs: Some(true),
            privileged: Some(false),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(vec!["NET_ADMIN".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            init: Some(false),
            memory: Some(MEMORY_BYTES),
            memory_swap: Some(MEMORY_BYTES),
            pids_limit: Some(PIDS),
            // Its output is read as it comes, and is nothing for people.
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".to_owned()),
                config: None,
            }),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::this_owner;

    fn info(architecture: &str, os_type: &str) -> DaemonInfo {
        DaemonInfo {
            id: String::new(),
            name: String::new(),
            version: String::new(),
            os_type: os_type.to_owned(),
            kernel: String::new(),
            rootless: false,
            architecture: architecture.to_owned(),
            operating_system: String::new(),
            cpus: 1,
            memory: 1,
            time: None,
            root_dir: String::new(),
        }
    }

    #[test]
    fn a_helper_is_for_one_processor_and_one_kernel() {
        assert_eq!(unfit(&info("amd64", "linux"), "x86_64", true), None);
        assert_eq!(unfit(&info("aarch64", "linux"), "aarch64", true), None);
        let why = |info: DaemonInfo, have| unfit(&info, "x86_64", have).unwrap();
        assert!(why(info("arm64", "linux"), true).contains("is aarch64"));
        assert!(why(info("x86_64", "windows"), true).contains("windows"));
        assert!(why(info("x86_64", "linux"), false).contains("no helper"));
    }

    #[test]
    fn a_helper_has_one_privilege_and_goes_by_itself() {
        let owner = this_owner("install", "runner");
        let body = body(&owner, "container:abc", &["4".to_owned()], "everdict-gate:1");
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("container:abc"));
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(host.cap_add, Some(vec!["NET_ADMIN".to_owned()]));
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
        assert_eq!(
            (host.privileged, host.readonly_rootfs, host.auto_remove),
            (Some(false), Some(true), Some(true))
        );
        assert_eq!((host.binds, host.mounts, host.pid_mode), (None, None, None));
        assert!(host.pids_limit > Some(0) && host.memory > Some(0) && host.memory == host.memory_swap);
        let labels = body.labels.unwrap();
        assert_eq!(Owner::from_labels(&labels), Some(owner));
        assert_eq!(labels[labels::KIND], "gate");
    }

    #[test]
    fn rules_that_are_too_many_are_refused_before_anything_is_made() {
        let mut batch = Batch::new(2);
        assert!(argument(&batch).unwrap().starts_with('4'));
        for _ in 0..4000 {
            batch.add(0, 0, &super::super::netlink::Attrs::new());
        }
        assert!(matches!(argument(&batch), Err(Failure::NoWay(why)) if why.contains("fewer hosts")));
    }
}
