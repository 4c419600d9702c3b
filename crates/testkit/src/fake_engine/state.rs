//! The daemon's tables.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::{Call, PullRecord};
use super::fault::{PullScript, Strike};
use super::image::FakeImage;
use super::reply::Refusal;

/// Networks that the default address pools have room for.
const DEFAULT_POOLS: usize = 30;

/// Events that a slow listener may lag behind.
const EVENT_BACKLOG: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Created,
    Running,
    Exited,
}

#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) volume: String,
    pub(super) target: String,
    pub(super) anonymous: bool,
}

/// A piece of a container's log.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) at: Timestamp,
    pub(super) stderr: bool,
    pub(super) bytes: Bytes,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) image: FakeImage,
    /// The body that it was created with.
    pub(super) spec: Value,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) created: Timestamp,
    pub(super) phase: Phase,
    pub(super) exit_code: i64,
    pub(super) oom: bool,
    pub(super) frozen: bool,
    pub(super) error: String,
    pub(super) started: Option<(Instant, Timestamp)>,
    pub(super) finished: Option<Timestamp>,
    /// Network id, while it runs; its address there.
    pub(super) endpoint: Option<(String, Ipv4Addr)>,
    /// Container port to host port, while it runs.
    pub(super) ports: BTreeMap<u16, u16>,
    pub(super) mounts: Vec<Mount>,
    pub(super) log: Vec<Frame>,
    /// Ends the process.
    pub(super) process: CancellationToken,
}

impl Container {
    pub(super) fn host_config(&self, field: &str) -> &Value {
        &self.spec["HostConfig"][field]
    }
}

#[derive(Debug, Clone)]
pub(super) struct Network {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) created: Timestamp,
    /// First address and bits.
    pub(super) subnet: (Ipv4Addr, u8),
    /// Taken from the default pools.
    pub(super) pooled: bool,
}

impl Network {
    pub(super) fn address(&self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.subnet.0) + host)
    }

    pub(super) fn overlaps(&self, other: (Ipv4Addr, u8)) -> bool {
        let shift = 32 - u32::from(self.subnet.1.min(other.1));
        let prefix = |address: Ipv4Addr| u64::from(u32::from(address)) >> shift;
        prefix(self.subnet.0) == prefix(other.0)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) created: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct Exec {
    pub(super) id: String,
    pub(super) container: String,
    pub(super) spec: Value,
    pub(super) code: Option<i64>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) containers: Vec<Container>,
    pub(super) networks: Vec<Network>,
    pub(super) volumes: Vec<Volume>,
    pub(super) execs: Vec<Exec>,
    pub(super) images: Vec<FakeImage>,
    pub(super) registry: Vec<FakeImage>,
    pub(super) pull_scripts: HashMap<String, PullScript>,
    pub(super) archives: HashMap<(String, String), Bytes>,
    pub(super) armed: Vec<Strike>,
    pub(super) calls: Vec<Call>,
    pub(super) pulls: Vec<PullRecord>,
    /// Clients that wait for the end of a container.
    pub(super) waiting: usize,
    pub(super) disk_full: bool,
    pub(super) pools: usize,
    pub(super) clock_behind: Duration,
    pub(super) architecture: String,
    /// Second and third octet of the first network's addresses, all of them on the loopback.
    base: (u8, u8),
    counter: u64,
}

/// What all parts of the daemon share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) socket: PathBuf,
    /// Turns whenever anything changes.
    pub(super) changed: watch::Sender<u64>,
    pub(super) events: broadcast::Sender<Value>,
    /// Ends everything.
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Shared {
    pub(super) fn new(socket: PathBuf) -> Self {
        let [a, b, ..] = *uuid::Uuid::new_v4().as_bytes();
        let state = State {
            containers: Vec::new(),
            networks: Vec::new(),
            volumes: Vec::new(),
            execs: Vec::new(),
            images: Vec::new(),
            registry: Vec::new(),
            pull_scripts: HashMap::new(),
            archives: HashMap::new(),
            armed: Vec::new(),
            calls: Vec::new(),
            pulls: Vec::new(),
            waiting: 0,
            disk_full: false,
            pools: DEFAULT_POOLS,
            clock_behind: Duration::ZERO,
            architecture: "amd64".to_owned(),
            base: (16 + a % 224, b),
            counter: 0,
        };
        Self {
            state: Mutex::new(state),
            socket,
            changed: watch::channel(0).0,
            events: broadcast::channel(EVENT_BACKLOG).0,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the tables and wakes everybody who waits for a change.
    pub(super) fn edit<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_modify(|version| *version += 1);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells listeners about an event of a container.
    pub(super) fn emit(&self, action: &str, container: &Container) {
        let mut attributes: BTreeMap<String, String> = container.labels.clone();
        attributes.insert("name".to_owned(), container.name.clone());
        attributes.insert("image".to_owned(), container.image.reference.clone());
        if action == "die" {
            attributes.insert("exitCode".to_owned(), container.exit_code.to_string());
        }
        let now = Timestamp::now();
        let _ = self.events.send(json!({
            "Type": "container", "Action": action, "status": action, "id": container.id, "scope": "local",
            "Actor": {"ID": container.id, "Attributes": attributes},
            "time": now.as_second(), "timeNano": i64::try_from(now.as_nanosecond()).unwrap_or_default(),
        }));
    }

    /// Ends a container's process, if it runs, and tells so.
    pub(super) fn end(&self, id: &str, code: i64, oom: bool) {
        self.edit(|state| {
            let Some(container) = state.containers.iter_mut().find(|container| container.id == id) else {
                return;
            };
            if container.phase != Phase::Running {
                return;
            }
            container.phase = Phase::Exited;
            container.exit_code = code;
            container.oom = oom;
            container.finished = Some(Timestamp::now());
            container.endpoint = None;
            container.ports.clear();
            container.process.cancel();
            if oom {
                self.emit("oom", container);
            }
            self.emit("die", container);
        });
    }
}

impl State {
    /// A fresh id.
    pub(super) fn fresh_id(&mut self) -> String {
        self.counter += 1;
        hex_of(&[&self.counter.to_string(), &uuid::Uuid::new_v4().to_string()])
    }

    /// By id, by the start of one, or by name.
    pub(super) fn container(&self, key: &str) -> Result<&Container, Refusal> {
        self.containers
            .iter()
            .find(|one| matches(key, &one.id, &one.name))
            .ok_or_else(|| no_such_container(key))
    }

    pub(super) fn container_mut(&mut self, key: &str) -> Result<&mut Container, Refusal> {
        let found = self
            .containers
            .iter_mut()
            .find(|one| matches(key, &one.id, &one.name));
        found.ok_or_else(|| no_such_container(key))
    }

    /// By id or by name, which several may share.
    pub(super) fn network(&self, key: &str) -> Result<&Network, Refusal> {
        if let Some(network) = self.networks.iter().find(|network| network.id == key) {
            return Ok(network);
        }
        let named: Vec<&Network> = self
            .networks
            .iter()
            .filter(|one| matches(key, &one.id, &one.name))
            .collect();
        match named.as_slice() {
            [] => Err(Refusal::new(404, format!("network {key} not found"))),
            [network] => Ok(network),
            many => {
                let text = format!(
                    "network {key} is ambiguous ({} matches found on name)",
                    many.len()
                );
                Err(Refusal::new(400, text))
            }
        }
    }

    /// By reference, by id, or by digest.
    pub(super) fn image(&self, key: &str) -> Result<&FakeImage, Refusal> {
        let wanted = canonical(key);
        let found = self.images.iter().find(|image| {
            canonical(&image.reference) == wanted || image.id() == key || key.ends_with(&image.digest())
        });
        found.ok_or_else(|| Refusal::new(404, format!("No such image: {key}")))
    }

    /// Addresses for one more network of the default pools.
    pub(super) fn next_subnet(&self) -> Option<(Ipv4Addr, u8)> {
        if self.networks.iter().filter(|network| network.pooled).count() >= self.pools {
            return None;
        }
        let (a, b) = self.base;
        let subnets = (0..=u8::MAX).map(|step| (Ipv4Addr::new(127, a, b.wrapping_add(step), 0), 24));
        subnets
            .into_iter()
            .find(|subnet| !self.networks.iter().any(|network| network.overlaps(*subnet)))
    }

    /// A free address on a network; the first one is the gateway's.
    pub(super) fn next_address(&self, network: &Network) -> Ipv4Addr {
        let taken = |address: &Ipv4Addr| {
            self.containers
                .iter()
                .any(|one| one.endpoint.as_ref().is_some_and(|(_, taken)| taken == address))
        };
        let hosts = 1_u32 << (32 - u32::from(network.subnet.1));
        (2..hosts - 1)
            .map(|host| network.address(host))
            .find(|address| !taken(address))
            .unwrap_or(Ipv4Addr::UNSPECIFIED)
    }
}

fn matches(key: &str, id: &str, name: &str) -> bool {
    key.trim_start_matches('/') == name || key == id || key.len() >= 12 && id.starts_with(key)
}

fn no_such_container(key: &str) -> Refusal {
    Refusal::new(404, format!("No such container: {key}"))
}

/// A reference as it is compared: short for Docker Hub's images, with a tag or a digest.
pub(super) fn canonical(reference: &str) -> String {
    let text = reference.strip_prefix("docker.io/").unwrap_or(reference);
    let text = text.strip_prefix("library/").unwrap_or(text);
    if text.contains('@') || text.rsplit('/').next().is_some_and(|last| last.contains(':')) {
        return text.to_owned();
    }
    format!("{text}:latest")
}

/// 64 hexadecimal digits that depend on all parts.
pub(super) fn hex_of(parts: &[&str]) -> String {
    /// Offset and prime of the 64-bit FNV-1a hash.
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let lane = |seed: u8| {
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
        std::iter::once(seed)
            .chain(bytes)
            .fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    };
    (0..4)
        .map(|seed| format!("{:016x}", lane(seed).rotate_left(u32::from(seed) * 13)))
        .collect()
}
