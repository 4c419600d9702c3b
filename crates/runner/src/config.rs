//! What a runner is started with.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{Capability, MAX_WAIT_MS};
use everdict_exec::HostEnv;
use secrecy::SecretString;
use tokio::sync::watch;

use crate::capabilities::ContainerOffer;

/// The most cases at once; the bound that the protocol sets for a paired runner.
pub const MAX_CONCURRENT: usize = 64;
/// Below every proxy's idle time-out we know of (nginx: 60 s), and long enough that an idle runner costs nothing.
const WAIT_MS: u32 = 25_000;
/// First wait after a failure; what the `--poll-interval-ms` flag of the existing runner means.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long a lease that nobody could renew is held on to, beyond its time. A hub that is away can't give the job to
/// another, and one that is back says at once what became of it, so a job outlives an outage of ten minutes with room
/// for the way back. Two runners on one job are harmless: the hub's fence takes one result.
const LEASE_GRACE: Duration = Duration::from_secs(15 * 60);

/// The settings of one runner. Start from [`RunnerConfig::new`] and change what differs.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// Base URL of the hub. Its path is ignored: the endpoint is `/mcp`.
    pub api_url: String,
    /// The pairing token.
    pub token: SecretString,
    /// The version that the roster shows.
    pub version: String,
    /// Cases at once, clamped to 1..=[`MAX_CONCURRENT`].
    pub max_concurrent: usize,
    /// How long a lease poll waits in the hub, in milliseconds, clamped to the protocol's 60 000.
    pub wait_ms: u32,
    /// Time between heartbeats in milliseconds; a third of the lease's time when absent.
    pub heartbeat_ms: Option<u64>,
    /// First wait after a failed poll, in milliseconds. Later ones grow to a minute.
    pub poll_interval_ms: u64,
    /// How long a job may go on after its lease ran out without an answer from the hub.
    pub lease_grace: Duration,
    /// The name of this machine in placement events.
    pub hostname: String,
    /// The environment as captured at start.
    pub host_env: Arc<HostEnv>,
    /// Scratch directories are created in here; stale ones are swept at start.
    pub work_root: PathBuf,
    /// Begun attempts and results that the hub has not taken yet are kept in here; `None` keeps none.
    pub state_dir: Option<PathBuf>,
    /// Capabilities that the member does not want to offer.
    pub switched_off: BTreeSet<Capability>,
    /// Takes no job until released by [`crate::RunnerHandle::hold`].
    pub held: bool,
    /// What the container engine of this machine can do, as that changes; without one no container is offered.
    pub containers: Option<watch::Receiver<ContainerOffer>>,
}

impl RunnerConfig {
    /// The defaults for a runner of `api_url`.
    #[must_use]
    pub fn new(
        api_url: impl Into<String>,
        token: SecretString,
        version: impl Into<String>,
        host_env: Arc<HostEnv>,
        work_root: impl Into<PathBuf>,
    ) -> Self {
        Self {
            api_url: api_url.into(),
            token,
            version: version.into(),
            max_concurrent: 1,
            wait_ms: WAIT_MS,
            heartbeat_ms: None,
            poll_interval_ms: u64::try_from(POLL_INTERVAL.as_millis()).unwrap_or(u64::MAX),
            lease_grace: LEASE_GRACE,
            hostname: hostname(&host_env),
            host_env,
            work_root: work_root.into(),
            state_dir: None,
            switched_off: BTreeSet::new(),
            held: false,
            containers: None,
        }
    }

    pub(crate) fn wait(&self) -> u32 {
        self.wait_ms.min(MAX_WAIT_MS)
    }

    /// Time between heartbeats of a lease of `ttl`: a third, so that two may be lost.
    pub(crate) fn heartbeat_every(&self, ttl: Duration) -> Duration {
        /// More often would only load the hub; a lease shorter than three of these can't be kept anyway.
        const FLOOR: Duration = Duration::from_millis(20);
        self.heartbeat_ms
            .map_or(ttl / 3, Duration::from_millis)
            .max(FLOOR)
    }
}

fn hostname(host: &HostEnv) -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .or_else(|| host.get("HOSTNAME").map(str::to_owned))
        .or_else(|| host.get("COMPUTERNAME").map(str::to_owned))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The operating system in the words of the protocol, which are those of Node.
pub(crate) fn os_name() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    }
}
