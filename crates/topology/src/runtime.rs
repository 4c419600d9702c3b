//! The runtime that a service case runs on, and its implementation over a local Docker daemon.

mod callbacks;
mod data;
mod docker;
mod handles;
mod observe;
mod options;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, RegistryAuth, ServiceHarness, StoreFixture};
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::egress::CaseNetwork;
use crate::stores::StoreQuery;

pub use docker::{DockerTopologyRuntime, StandingTopology};
pub use handles::{BrowserHandle, TopologyLease};
pub use observe::{MemberStatus, TopologyStatus};
pub use options::{IDLE_TTL, RuntimeOptions};

/// Takes a line for the job's log.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// The case on whose behalf something is done.
#[derive(Clone)]
pub struct CaseScope {
    /// The workspace that the job comes from.
    pub tenant: String,
    pub run_id: String,
    /// Unlike the run's id, different each time the job is leased.
    pub attempt: String,
    pub progress: Progress,
    pub cancel: CancellationToken,
    /// When the case's time is over.
    pub deadline: Option<Instant>,
    /// Image by service name, for this dispatch only.
    pub pins: BTreeMap<String, String>,
    /// For the registries that the job names.
    pub credentials: Vec<RegistryAuth>,
    /// What the case's topology may reach; a container of its own has this in its spec.
    pub network: CaseNetwork,
}

impl CaseScope {
    /// Waits for `future` as long as the case is wanted and has time.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`], or [`ErrorCode::UpstreamError`] at the deadline. The future is dropped then.
    pub async fn bounded<T>(&self, future: impl Future<Output = T>) -> Result<T, Fault> {
        let deadline = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Fault::cancelled("the case was cancelled")),
            value = future => Ok(value),
            () = deadline => Err(Fault::new(ErrorCode::UpstreamError, "the case's time is over")),
        }
    }
}

/// Where topologies run.
pub trait TopologyRuntime: Send + Sync {
    /// Goes into the result as the place of execution.
    fn id(&self) -> &'static str;

    /// Makes the harness' topology stand, or finds it standing, and counts one use of it.
    ///
    /// Cancel safe: a deployment that nobody waits for any more is cancelled and taken back.
    fn ensure_topology<'a>(
        &'a self,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<TopologyLease, Fault>>;

    /// Starts the case's own browser on the topology's network.
    ///
    /// Cancel safe: a browser that nobody waits for any more is removed.
    fn provision_browser<'a>(
        &'a self,
        lease: &'a TopologyLease,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<BrowserHandle, Fault>>;

    /// Seeds the run's slices. Fixtures must carry their text.
    fn seed_fixtures<'a>(
        &'a self,
        lease: &'a TopologyLease,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
        fixtures: &'a [StoreFixture],
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Reads from a run's slice, without changing it.
    fn read_store_state<'a>(
        &'a self,
        lease: &'a TopologyLease,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
        query: &'a StoreQuery<'a>,
    ) -> BoxFuture<'a, Result<String, Fault>>;

    /// Takes the run's slices away: before seeding, and after grading.
    fn drop_slices<'a>(
        &'a self,
        lease: &'a TopologyLease,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<(), Fault>>;

    /// Finds the DevTools base of a run's browser again, for whoever has lost the handle.
    fn browser_cdp_base<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Option<String>>;

    /// Describes what stands, member by member.
    fn describe<'a>(&'a self, lease: &'a TopologyLease) -> BoxFuture<'a, TopologyStatus>;

    /// Reads the end of a service's or a store's log; only what was written since a time, in seconds since 1970.
    fn service_logs<'a>(
        &'a self,
        lease: &'a TopologyLease,
        member: &'a str,
        since: Option<i64>,
    ) -> BoxFuture<'a, Option<String>>;

    /// Names the members that aren't well, and why, for a case that ran out of time.
    fn diagnose<'a>(&'a self, lease: &'a TopologyLease) -> BoxFuture<'a, Option<String>>;

    /// Waits until a member of the topology ends that shouldn't, and tells which and why, with the end of its log. To be
    /// raced against a case that is being driven. Cancel safe.
    fn broken<'a>(&'a self, lease: &'a TopologyLease) -> BoxFuture<'a, Fault>;

    /// Takes down one topology, by name, unless somebody uses it. Tells whether it is gone.
    fn teardown<'a>(&'a self, topology: &'a str) -> BoxFuture<'a, bool>;

    /// Takes down what nobody has used for `idle`, and gives out the keys.
    fn sweep_idle(&self, idle: Duration) -> BoxFuture<'_, Vec<String>>;
}
