//! The Docker Engine API with a deadline on every call and errors that say what to do.
//!
//! Networks and containers are always referred to by id: on engine 20.10 several networks can share one name, and a
//! name that is ambiguous fails only when the next container is created.

mod archive;
mod attached;
mod container;
mod cpus;
mod ending;
mod error;
mod exec;
mod network;
mod pausing;
mod transport;
mod volume;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use jiff::Timestamp;

use crate::egress::{EgressMode, Gates};
use crate::labels::Owner;

pub(crate) use attached::{AttachedExec, ExecState};
pub use container::{ContainerRow, ContainerView, Health, LogQuery, RunState};
pub use error::{EngineError, EngineErrorKind};
pub use exec::{ExecInput, ExecOutcome, ExecRequest};
pub use network::{NetworkRequest, NetworkRow};
pub(crate) use transport::{host, is_loopback, with_tls};
pub use volume::VolumeRow;

/// For calls that read the daemon's tables: they take milliseconds, so ten seconds mean that it hangs.
pub(crate) const READ_LIMIT: Duration = Duration::from_secs(10);

/// For creating a container or a network: up to a second on a loaded machine, more on a slow disk.
pub(crate) const CREATE_LIMIT: Duration = Duration::from_secs(30);

/// For starting a container: half a second as a rule, many times that when a machine is out of memory.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// For removing one thing. Half of what a whole clean-up may take, so that the names of what resists are known when it
/// gives up.
pub(crate) const REMOVE_LIMIT: Duration = Duration::from_secs(30);

/// How long the transport may wait for the head of an answer. Every call has its own, shorter deadline; only waiting
/// for the end of a container comes near it.
const TRANSPORT_SECONDS: u64 = 24 * 60 * 60;

/// What a daemon says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonInfo {
    /// Identifies the daemon across addresses; empty when it doesn't tell.
    pub id: String,
    /// The host's name.
    pub name: String,
    /// Engine version.
    pub version: String,
    /// Such as `linux`.
    pub os_type: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Whether the daemon runs without root's rights, in networks of its own.
    pub rootless: bool,
    /// Such as `x86_64`.
    pub architecture: String,
    /// Such as `Docker Desktop` or the distribution's name.
    pub operating_system: String,
    /// Processors that containers may use.
    pub cpus: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// What its clock says; `None` when it doesn't tell.
    pub time: Option<Timestamp>,
    /// Where images and containers are kept on the daemon's machine.
    pub root_dir: String,
}

/// A connection to one daemon; cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    docker: Docker,
    address: Arc<str>,
    removal_limit: Duration,
    egress: EgressMode,
    gates: Arc<Gates>,
    owner: Option<Arc<Owner>>,
}

impl Engine {
    /// Connects to `address` and agrees on an API version: a socket (`unix:///path`, or a bare path), or a port of the
    /// loopback (`tcp://127.0.0.1:2375`, with TLS `tcp://127.0.0.1:2376?tls=` and the folder of the certificates).
    ///
    /// # Errors
    /// [`EngineErrorKind::Unreachable`] when nothing answers there or the address is of another kind: published ports
    /// are on the loopback of the daemon's machine, so a daemon elsewhere would be of no use.
    pub async fn connect(address: &str) -> Result<Self, EngineError> {
        const OPERATION: &str = "connect to the docker daemon";
        let docker = transport::open(address)?;
        let docker = within(OPERATION, READ_LIMIT, docker.negotiate_version()).await?;
        Ok(Self {
            docker,
            address: Arc::from(address),
            removal_limit: REMOVE_LIMIT,
            egress: EgressMode::default(),
            gates: Arc::default(),
            owner: None,
        })
    }

    /// Waits for no longer than `limit` until one thing is removed, and for twice that in a whole clean-up.
    #[must_use]
    pub fn with_removal_limit(self, limit: Duration) -> Self {
        Self {
            removal_limit: limit,
            ..self
        }
    }

    /// How long a whole clean-up may take; what resists longer is named, and tried again by later sweeps.
    #[must_use]
    pub fn clean_up_limit(&self) -> Duration {
        2 * self.removal_limit
    }

    /// Holds containers to what they may reach, or doesn't.
    #[must_use]
    pub fn with_egress(self, egress: EgressMode) -> Self {
        Self { egress, ..self }
    }

    /// Names who makes things through this handle.
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        Self {
            owner: Some(Arc::new(owner.clone())),
            ..self
        }
    }

    pub(crate) fn owner(&self) -> Option<Arc<Owner>> {
        self.owner.clone()
    }

    pub(crate) fn gates(&self) -> &Gates {
        &self.gates
    }

    pub(crate) fn egress_mode(&self) -> EgressMode {
        self.egress
    }

    pub(crate) fn removal_limit(&self) -> Duration {
        self.removal_limit
    }

    /// The address that [`Engine::connect`] was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The address under which published ports are reached from this process.
    pub fn published_host(&self) -> &'static str {
        "127.0.0.1"
    }

    /// Asks whether the daemon answers.
    ///
    /// # Errors
    /// [`EngineErrorKind::Unreachable`] or [`EngineErrorKind::TimedOut`].
    pub async fn ping(&self) -> Result<(), EngineError> {
        within("ping the docker daemon", READ_LIMIT, self.docker.ping())
            .await
            .map(drop)
    }

    /// Asks the daemon about itself.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub async fn info(&self) -> Result<DaemonInfo, EngineError> {
        let info = within(
            "ask the docker daemon about itself",
            READ_LIMIT,
            self.docker.info(),
        )
        .await?;
        let number = |value: Option<i64>| u64::try_from(value.unwrap_or_default()).unwrap_or_default();
        Ok(DaemonInfo {
            id: info.id.unwrap_or_default(),
            name: info.name.unwrap_or_default(),
            version: info.server_version.unwrap_or_default(),
            os_type: info.os_type.unwrap_or_default(),
            kernel: info.kernel_version.unwrap_or_default(),
            rootless: info
                .security_options
                .iter()
                .flatten()
                .any(|option| option.contains("rootless")),
            architecture: info.architecture.unwrap_or_default(),
            operating_system: info.operating_system.unwrap_or_default(),
            cpus: number(info.ncpu),
            memory: number(info.mem_total),
            time: info.system_time.and_then(|text| text.parse().ok()),
            root_dir: info.docker_root_dir.unwrap_or_default(),
        })
    }

    /// The client beneath, for calls that answer with a stream and bring their own deadline.
    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Runs one call under a deadline.
    pub(crate) async fn call<T>(
        &self,
        operation: &'static str,
        limit: Duration,
        future: impl Future<Output = Result<T, bollard::errors::Error>>,
    ) -> Result<T, EngineError> {
        within(operation, limit, future).await
    }
}

async fn within<T>(
    operation: &'static str,
    limit: Duration,
    future: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, EngineError> {
    match tokio::time::timeout(limit, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(EngineError::from_bollard(operation, error)),
        Err(_) => Err(EngineError::timed_out(operation, limit)),
    }
}
