//! Topologies on the local Docker daemon.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, ServiceHarness, StoreFixture};
use futures_util::future::{BoxFuture, try_join_all};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::data::Stores;
use super::{
    BrowserHandle, CaseScope, RuntimeOptions, TopologyLease, TopologyRuntime, TopologyStatus, observe,
};
use crate::browser::{BrowserOrder, provision};
use crate::deploy::{Debt, PreparedImages};
use crate::egress::{CaseNetwork, Reaching};
use crate::engine::{Engine, EngineError};
use crate::images::PullWatcher;
use crate::labels::Owner;
use crate::lock::LockFolder;
use crate::plan::{PlanContext, TopologyKey, TopologyPlan};
use crate::pool::{Pool, Prepare};
use crate::reaper::{self, SweepReport};
use crate::stores::StoreQuery;

/// Between two rounds of the sweep. A topology that is idle may stay a minute longer than it has to.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A topology that this process knows to stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandingTopology {
    pub key: TopologyKey,
    /// For [`TopologyRuntime::teardown`].
    pub name: String,
    /// How many cases of this process use it.
    pub uses: usize,
}

/// Topologies on the local Docker daemon.
pub struct DockerTopologyRuntime {
    engine: Engine,
    pool: Arc<Pool>,
    options: RuntimeOptions,
    stop: CancellationToken,
    /// The periodic sweep, which ends only when it is told to.
    sweeper: TaskTracker,
}

impl DockerTopologyRuntime {
    /// Opens the runtime on a daemon.
    ///
    /// # Errors
    /// When the daemon doesn't answer, or the state folder can't be written.
    pub async fn open(engine: Engine, options: RuntimeOptions) -> Result<Self, Fault> {
        let engine = engine.owned_by(&options.owner);
        let info = engine.info().await.map_err(EngineError::into_fault)?;
        let locks = LockFolder::open(&options.state_dir, &info.id).map_err(|error| {
            let text = format!("{} can't be written", options.state_dir.display());
            Fault::new(ErrorCode::DriverProvisionFailed, text).caused_by(error)
        })?;
        let stop = CancellationToken::new();
        let prepared = options
            .prepare_databases
            .then(|| PreparedImages::new(engine.clone(), options.owner.clone()));
        let pool = Pool::new(engine.clone(), locks, prepared, stop.clone());
        Ok(Self {
            engine,
            pool,
            options,
            stop,
            sweeper: TaskTracker::new(),
        })
    }

    /// The daemon.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Who this process is to other processes.
    pub fn owner(&self) -> &Owner {
        &self.options.owner
    }

    /// Removes what dead owners of this installation have left, once now and then every minute, with idle topologies and
    /// what could not be removed before. Ends with [`DockerTopologyRuntime::shut_down`].
    pub fn start_sweeping(self: &Arc<Self>) {
        let runtime = Arc::clone(self);
        self.sweeper.spawn(async move {
            loop {
                runtime.sweep().await;
                tokio::select! {
                    () = runtime.stop.cancelled() => return,
                    () = tokio::time::sleep(SWEEP_EVERY) => {}
                }
            }
        });
    }

    /// One round of the sweep.
    pub async fn sweep(&self) -> SweepReport {
        self.pool.pay_debts().await;
        if let Some(ttl) = self.options.idle_ttl {
            self.pool.sweep_idle(ttl).await;
        }
        let report = reaper::sweep(&self.engine, &self.options.owner, self.pool.locks()).await;
        let mine = report
            .found
            .iter()
            .filter(|found| found.owner.as_ref() == Some(&self.options.owner));
        let topologies = mine
            .map(|found| found.topology.clone())
            .filter(|name| !name.is_empty())
            .collect();
        self.pool
            .take_down_strays(&self.options.owner.install, topologies)
            .await;
        report
    }

    /// Key, name and number of uses of each topology that stands, as far as this process knows.
    pub fn topologies(&self) -> Vec<StandingTopology> {
        let ready = self.pool.ready().into_iter();
        ready
            .map(|(warm, uses)| StandingTopology {
                key: warm.plan.key.clone(),
                name: warm.plan.name.clone(),
                uses,
            })
            .collect()
    }

    /// What could not be removed so far.
    pub fn debts(&self) -> Vec<Debt> {
        self.pool.debts()
    }

    /// Takes down all topologies that nobody uses, waits for every clean-up that is under way, and gives out what could
    /// not be removed.
    pub async fn shut_down(&self) -> Vec<Debt> {
        self.stop.cancel();
        self.sweeper.close();
        self.sweeper.wait().await;
        self.settle().await;
        self.pool.sweep_idle(Duration::ZERO).await;
        self.pool.debts()
    }

    /// Waits until no clean-up and no deployment is under way.
    pub async fn settle(&self) {
        self.pool.tasks().close();
        self.pool.tasks().wait().await;
        self.pool.tasks().reopen();
    }

    fn plan(
        &self,
        spec: &ServiceHarness,
        scope: &CaseScope,
        network: &Reaching,
    ) -> Result<TopologyPlan, Fault> {
        let options = &self.options;
        TopologyPlan::from_spec(
            spec,
            &PlanContext {
                owner: &options.owner,
                tenant: &scope.tenant,
                pins: &scope.pins,
                store_env: &options.store_env,
                images: &options.images,
                policy: &options.policy,
                digest_key: &options.digest_key,
                readiness: options.readiness,
                network,
            },
        )
    }

    async fn ensure(&self, spec: &ServiceHarness, scope: &CaseScope) -> Result<TopologyLease, Fault> {
        // First what is wrong with the spec itself, which needs no daemon and no name server.
        let mut plan = self.plan(spec, scope, &Reaching::default())?;
        if scope.network != CaseNetwork::default() {
            let network = scope.bounded(scope.network.of_peers(&self.engine)).await??;
            plan = self.plan(spec, scope, &network)?;
        }
        let plan = Arc::new(plan);
        let ticket = self.pool.ensure(&plan, scope, || self.pull(&plan, scope)).await?;
        Ok(TopologyLease::new(ticket))
    }

    /// What a deployment has to have before it takes the site lock: its images.
    fn pull(&self, plan: &TopologyPlan, scope: &CaseScope) -> Prepare {
        let (engine, keeper, needs) = (
            self.engine.clone(),
            Arc::clone(&self.options.keeper),
            plan.images(),
        );
        let (credentials, progress) = (scope.credentials.clone(), Arc::clone(&scope.progress));
        Box::new(move |cancel| {
            Box::pin(async move {
                let watcher = PullWatcher {
                    lines: &*progress,
                    cancel: &cancel,
                };
                let pulls = needs
                    .iter()
                    .map(|need| keeper.ensure(&engine, need, &credentials, watcher));
                try_join_all(pulls).await.map(drop)
            })
        })
    }

    async fn browser(&self, lease: &TopologyLease, scope: &CaseScope) -> Result<BrowserHandle, Fault> {
        let (engine, pool, warm) = (self.engine.clone(), Arc::clone(&self.pool), lease.warm());
        let cancel = scope.cancel.child_token();
        let guard = cancel.clone().drop_guard();
        let (run, attempt, progress) = (
            scope.run_id.clone(),
            scope.attempt.clone(),
            Arc::clone(&scope.progress),
        );
        // In a task of its own: dropping this future must not leave a container that nobody knows.
        let task = self.pool.tasks().spawn(async move {
            let mut debts = Vec::new();
            let order = BrowserOrder {
                engine: &engine,
                plan: &warm.plan,
                network: &warm.standing.network,
                run: &run,
                attempt: &attempt,
                cancel: &cancel,
                progress: &progress,
            };
            let browser = provision(&order, &mut debts).await;
            pool.owe(debts);
            browser.map(|browser| BrowserHandle::new(browser, &warm, engine, pool))
        });
        let handle = scope.bounded(task).await?;
        let _ = guard.disarm();
        handle.unwrap_or_else(|_| Err(Fault::internal("the browser's task ended without an outcome")))
    }
}

impl TopologyRuntime for DockerTopologyRuntime {
    fn id(&self) -> &'static str {
        "docker"
    }

    fn ensure_topology<'a>(
        &'a self,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<TopologyLease, Fault>> {
        Box::pin(self.ensure(spec, scope))
    }

    fn provision_browser<'a>(
        &'a self,
        lease: &'a TopologyLease,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<BrowserHandle, Fault>> {
        Box::pin(self.browser(lease, scope))
    }

    fn seed_fixtures<'a>(
        &'a self,
        lease: &'a TopologyLease,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
        fixtures: &'a [StoreFixture],
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            Stores {
                engine: &self.engine,
                lease,
                scope,
            }
            .seed(spec, fixtures)
            .await
        })
    }

    fn read_store_state<'a>(
        &'a self,
        lease: &'a TopologyLease,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
        query: &'a StoreQuery<'a>,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move {
            Stores {
                engine: &self.engine,
                lease,
                scope,
            }
            .read(spec, query)
            .await
        })
    }

    fn drop_slices<'a>(
        &'a self,
        lease: &'a TopologyLease,
        spec: &'a ServiceHarness,
        scope: &'a CaseScope,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            Stores {
                engine: &self.engine,
                lease,
                scope,
            }
            .drop_slices(spec)
            .await
        })
    }

    fn browser_cdp_base<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(observe::browser_cdp_base(
            &self.engine,
            &self.options.owner.install,
            run_id,
        ))
    }

    fn describe<'a>(&'a self, lease: &'a TopologyLease) -> BoxFuture<'a, TopologyStatus> {
        Box::pin(observe::describe(&self.engine, lease))
    }

    fn service_logs<'a>(
        &'a self,
        lease: &'a TopologyLease,
        member: &'a str,
        since: Option<i64>,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(observe::logs(&self.engine, lease, member, since))
    }

    fn diagnose<'a>(&'a self, lease: &'a TopologyLease) -> BoxFuture<'a, Option<String>> {
        Box::pin(observe::diagnose(&self.engine, lease))
    }

    fn broken<'a>(&'a self, lease: &'a TopologyLease) -> BoxFuture<'a, Fault> {
        Box::pin(observe::broken(&self.engine, lease))
    }

    fn teardown<'a>(&'a self, topology: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.pool.drain(topology, |_| true).await.is_some() })
    }

    fn sweep_idle(&self, idle: Duration) -> BoxFuture<'_, Vec<String>> {
        Box::pin(self.pool.sweep_idle(idle))
    }
}
