//! What a topology will be, decided before anything is created.
//!
//! [`TopologyPlan::from_spec`] is pure: it refuses what can't run with the JSON path of the fault and the way out, and
//! fixes every name, address and environment variable, so that the runtime only carries out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use everdict_contracts::{Fault, ServiceHarness, StoreKind};

use crate::digest::{DigestKey, SpecDigest};
use crate::egress::Reaching;
use crate::labels::Owner;
use crate::stores::{StockImages, StoreValues};

mod build;
mod check;
mod identity;
mod limits;
mod pins;
mod volumes;
mod waves;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use limits::of_service as service_limits;
pub use pins::apply as apply_pins;

/// Everything that decides a plan beside the spec itself.
#[derive(Debug, Clone)]
pub struct PlanContext<'a> {
    pub owner: &'a Owner,
    /// The workspace that the job comes from; two workspaces never share a topology.
    pub tenant: &'a str,
    /// Image by service name, for this dispatch only.
    pub pins: &'a BTreeMap<String, String>,
    /// The member's overlay for the environment of services: wins over a service's own, loses to `inject`.
    pub store_env: &'a BTreeMap<String, String>,
    pub images: &'a StockImages,
    pub policy: &'a PlanPolicy,
    /// Hides secrets in the digest; stays on this machine.
    pub digest_key: &'a DigestKey,
    /// The readiness of stores, browsers, and of services that have none of their own.
    pub readiness: ReadinessPlan,
    /// What the case lets its topology reach.
    pub network: &'a Reaching,
}

/// What the member lets a topology have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanPolicy {
    pub volumes: VolumePolicy,
    /// Whether services may be given GPUs.
    pub gpus: bool,
}

/// Which folders of the host a service may mount. Named volumes are always allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumePolicy {
    /// Each allows itself and everything below it.
    pub host_paths: Vec<PathBuf>,
}

/// Whose topology it is, as people name it. The version carries the suffix of the dispatch's image pins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopologyKey {
    pub tenant: String,
    pub harness: String,
    pub version: String,
}

impl fmt::Display for TopologyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.tenant, self.harness, self.version)
    }
}

/// A topology, decided.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyPlan {
    pub key: TopologyKey,
    /// Two plans with equal keys and digests may share containers, others never.
    pub digest: SpecDigest,
    /// Name of the network and start of every name of the topology: readable, at most 60 characters, and different for
    /// different keys or digests.
    pub name: String,
    /// What every object of the topology is labelled with; [`crate::labels::of_kind`] adds what kind it is.
    pub labels: BTreeMap<String, String>,
    /// In the order of the spec.
    pub stores: Vec<StorePlan>,
    /// In the order of the spec.
    pub services: Vec<ServicePlan>,
    /// Places in [`Self::services`]: a wave starts when all of the waves before it are ready. Stores come before all.
    pub waves: Vec<Vec<usize>>,
    /// Absent when the harness has no browser, or gets one from a service.
    pub browser: Option<BrowserPlan>,
    /// What its containers may reach.
    pub(crate) network: Reaching,
    /// Named volumes, to be created with labels and removed with the topology.
    pub volumes: Vec<String>,
}

/// One store container. It is not published on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct StorePlan {
    pub kind: StoreKind,
    pub container: String,
    pub alias: String,
    pub image: String,
    pub env: EnvPairs,
    /// The command, empty for the image's own.
    pub cmd: Vec<String>,
    pub readiness: StoreReadiness,
    pub budget: ReadinessPlan,
    pub limits: Limits,
    /// Folders kept in memory.
    pub tmpfs: Vec<TmpfsPlan>,
    pub values: StoreValues,
    /// Place of the first dependency that wants it, such as `harnessSpec.dependencies[0]`.
    pub path: String,
}

/// A folder in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TmpfsPlan {
    pub target: String,
    pub size_bytes: u64,
    /// Octal, as mount takes it.
    pub mode: &'static str,
}

/// How a store shows that it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreReadiness {
    /// A start-up message of the PostgreSQL protocol is answered by a request for a password or by a go-ahead.
    PostgresWire { port: u16 },
    /// `PING` is answered by `+PONG`.
    RedisPing { port: u16 },
    /// `GET path` answers 200.
    Http { port: u16, path: &'static str },
}

/// One service container.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicePlan {
    pub name: String,
    pub container: String,
    /// Names by which peers reach it.
    pub aliases: Vec<String>,
    pub image: String,
    /// Sorted by name, each name once.
    pub env: EnvPairs,
    /// To be published on a port of 127.0.0.1 that the engine picks.
    pub port: Option<u16>,
    pub mounts: Vec<MountPlan>,
    pub limits: Limits,
    pub gpus: Option<u64>,
    pub readiness: ReadinessPlan,
    /// Whether an end with code 0 is fine. True for services without a port: nobody can call them.
    pub may_finish: bool,
    /// Places of the services that it waits for, sorted.
    pub needs: Vec<usize>,
    /// Whether another service waits for it: one that may finish should then have finished, or run for a while.
    pub needed: bool,
    /// Place in the job, such as `harnessSpec.services[2]`.
    pub path: String,
}

/// Something mounted into a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountPlan {
    /// `volume` is the name on the engine, one of [`TopologyPlan::volumes`].
    Volume {
        volume: String,
        target: String,
        read_only: bool,
    },
    /// A folder of the host that the member allows.
    Host {
        source: PathBuf,
        target: String,
        read_only: bool,
    },
}

impl MountPlan {
    /// Returns the place in the container.
    pub fn target(&self) -> &str {
        match self {
            Self::Volume { target, .. } | Self::Host { target, .. } => target,
        }
    }
}

/// The browser that each case gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserPlan {
    pub image: String,
    /// The image's own when empty.
    pub args: Vec<String>,
    /// Port of the DevTools protocol inside the container.
    pub port: u16,
    pub limits: Limits,
    pub shm_bytes: u64,
    pub readiness: ReadinessPlan,
    /// Whether the image is the harness's own rather than the default browser.
    pub extension: bool,
    pub path: String,
}

/// The most that a container may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Billionths of a core; unbounded when absent.
    pub cpu_nanos: Option<i64>,
    /// Swap included.
    pub memory_bytes: i64,
    pub pids: i64,
}

/// How long a container may take to become ready, and the longest pause between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadinessPlan {
    pub timeout: Duration,
    pub interval: Duration,
}

impl Default for ReadinessPlan {
    /// The protocol's defaults.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            interval: Duration::from_secs(1),
        }
    }
}

/// Environment variables in order. Values may be secrets and don't show in `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvPairs(Vec<(String, String)>);

impl EnvPairs {
    /// Returns name and value of each variable.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// Returns `NAME=value` for each variable, as the Engine API takes them.
    pub fn to_engine(&self) -> Vec<String> {
        self.iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for EnvPairs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

impl fmt::Debug for EnvPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// An image that a plan needs, and where the job names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageNeed {
    pub image: String,
    pub path: String,
}

impl TopologyPlan {
    /// Decides the topology of `spec`. Touches nothing but the host folders that the policy allows: their links are
    /// followed.
    ///
    /// # Errors
    /// `BAD_REQUEST` with the JSON path of what can't run, and the way out.
    pub fn from_spec(spec: &ServiceHarness, context: &PlanContext<'_>) -> Result<Self, Fault> {
        build::plan(spec, context)
    }

    /// Returns every image of the plan once: stores first, the browser last.
    pub fn images(&self) -> Vec<ImageNeed> {
        let stores = self
            .stores
            .iter()
            .map(|store| (&store.image, format!("{} ({})", store.path, store.alias)));
        let services = self
            .services
            .iter()
            .map(|service| (&service.image, format!("{}.image", service.path)));
        let browser = self
            .browser
            .iter()
            .map(|browser| (&browser.image, browser.path.clone()));
        let mut needs: Vec<ImageNeed> = Vec::new();
        for (image, path) in stores.chain(services).chain(browser) {
            if needs.iter().all(|known| known.image != *image) {
                needs.push(ImageNeed {
                    image: image.clone(),
                    path,
                });
            }
        }
        needs
    }

    /// Returns the plan of a store, if the topology has it.
    pub fn store(&self, kind: StoreKind) -> Option<&StorePlan> {
        self.stores.iter().find(|store| store.kind == kind)
    }

    /// Returns the plan of a service by its name.
    pub fn service(&self, name: &str) -> Option<&ServicePlan> {
        self.services.iter().find(|service| service.name == name)
    }

    /// Returns the names of all containers of the topology: stores, then services. Browsers belong to cases.
    pub fn containers(&self) -> impl Iterator<Item = &str> {
        let stores = self.stores.iter().map(|store| store.container.as_str());
        stores.chain(self.services.iter().map(|service| service.container.as_str()))
    }
}
