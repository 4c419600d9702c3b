//! Runs any number of runners in this process and shows them as one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everdict_cases::DockerTopologies;
use everdict_contracts::{Capability, CaseJob, HarnessSpec};
use everdict_exec::HostEnv;
use everdict_runner_core::{
    Executor, Runner, RunnerConfig, RunnerEvent, RunnerHandle, RunnerSnapshot, RunnerState,
};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use reqwest::Url;
use secrecy::SecretString;
use serde::Serialize;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

use crate::containers::{ContainerOptions, Containers, Door, Wanted};
use crate::hub_url;
use crate::problem::{Problem, Result};

/// What one runner is started with.
#[derive(Debug, Clone)]
pub struct RunnerPlan {
    /// What people call it.
    pub label: String,
    /// Its hub.
    pub hub: Url,
    /// Its token.
    pub token: SecretString,
    /// The version the roster shows.
    pub version: String,
    /// Cases at the same time.
    pub max_concurrent: usize,
    /// Longest wait of one poll.
    pub wait: Duration,
    /// Time between heartbeats; `None` follows the lease.
    pub heartbeat: Option<Duration>,
    /// First pause after a failed poll.
    pub poll_interval: Duration,
    /// Scratch directories are made in here. One folder serves several runners.
    pub work_root: PathBuf,
    /// Begun attempts and undelivered results are kept in here.
    pub state_dir: PathBuf,
    /// Capabilities the member doesn't want to offer.
    pub switched_off: BTreeSet<Capability>,
}

/// One runner at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerView {
    /// What people call it.
    pub label: String,
    /// Its hub's address.
    pub hub_url: String,
    /// What it does.
    #[serde(flatten)]
    pub runner: RunnerSnapshot,
}

/// Everything a view needs, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineSnapshot {
    /// Grows by one with every change.
    pub seq: u64,
    /// The runners, in the order they were started with.
    pub runners: Vec<RunnerView>,
}

impl EngineSnapshot {
    /// Returns the number of cases running now.
    #[must_use]
    pub fn active(&self) -> usize {
        self.runners.iter().map(|view| view.runner.active.len()).sum()
    }

    /// Tells whether every runner has stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.runners
            .iter()
            .all(|view| view.runner.state == RunnerState::Stopped)
    }
}

/// The running runners. Dropping it stops them hard.
pub struct Engine {
    handles: Vec<RunnerHandle>,
    containers: Containers,
    snapshot: watch::Receiver<EngineSnapshot>,
    _merging: JoinSet<()>,
}

impl Engine {
    /// Starts a runner per plan, and looks for a container engine that all of them share. Returns at once: connecting
    /// shows in the snapshot.
    ///
    /// # Errors
    /// A problem about input when a plan's token or address can't be used, about this machine when the state folder
    /// can't.
    pub fn start(
        plans: Vec<RunnerPlan>,
        host_env: &Arc<HostEnv>,
        containers: ContainerOptions,
    ) -> Result<Self> {
        let containers = Containers::start(containers, Arc::clone(host_env))?;
        let mut handles = Vec::with_capacity(plans.len());
        let mut views = Vec::with_capacity(plans.len());
        for plan in plans {
            let (label, hub_url) = (plan.label.clone(), hub_url::text(&plan.hub));
            let allowed = !plan.switched_off.contains(&Capability::Docker);
            let executor = executor(containers.door(), move || allowed);
            let mut config = config(plan, host_env);
            config.containers = Some(containers.offer());
            let handle = Runner::start_with(config, executor).map_err(|error| {
                Problem::input(format!("can't start runner {label}"))
                    .fix("check its address, or pair it again")
                    .because(error)
            })?;
            let runner = handle.snapshot().borrow().clone();
            views.push(RunnerView {
                label,
                hub_url,
                runner,
            });
            handles.push(handle);
        }
        let (sender, snapshot) = watch::channel(EngineSnapshot {
            seq: 0,
            runners: views,
        });
        let sender = Arc::new(sender);
        let mut merging = JoinSet::new();
        for (index, handle) in handles.iter().enumerate() {
            merging.spawn(merge(index, handle.snapshot(), Arc::clone(&sender)));
        }
        Ok(Self {
            handles,
            containers,
            snapshot,
            _merging: merging,
        })
    }

    /// Returns the state, now and on every change.
    #[must_use]
    pub fn snapshot(&self) -> watch::Receiver<EngineSnapshot> {
        self.snapshot.clone()
    }

    /// Returns every runner's steps from now on, in the order of the plans.
    #[must_use]
    pub fn events(&self) -> Vec<broadcast::Receiver<RunnerEvent>> {
        self.handles.iter().map(RunnerHandle::events).collect()
    }

    /// Takes no new cases; running ones finish and report.
    pub fn drain(&self) {
        self.handles.iter().for_each(RunnerHandle::drain);
    }

    /// Stops running cases too, and cleans up.
    pub fn cancel(&self) {
        self.handles.iter().for_each(RunnerHandle::cancel);
    }

    /// Waits until every runner has stopped and what they have on the container engine is taken down. Cancel safe.
    pub async fn join(&self) {
        join_all(self.handles.iter().map(RunnerHandle::join)).await;
        self.containers.close().await;
    }
}

/// Runs a case as the product does, with this machine's container engine for those that need one.
pub(crate) fn executor(door: Door, allowed: impl Fn() -> bool + Send + Sync + 'static) -> Executor {
    Arc::new(move |job, mut context| {
        let (door, allowed) = (door.clone(), allowed());
        async move {
            let wanted = Wanted::of(&job);
            if let Some(wanted) = &wanted {
                wanted.check([context.work_root.as_path()])?;
            }
            if allowed && needs_containers(&job) {
                let means = door.enter(wanted.as_ref()).await?;
                context.services = Some(Arc::new(DockerTopologies::new(means.topologies)));
                context.containers = Some(means.cases);
            }
            everdict_cases::run_leased_job(&job, &context).await
        }
        .boxed()
    })
}

fn needs_containers(job: &CaseJob) -> bool {
    matches!(job.harness_spec, Some(HarnessSpec::Service(_))) || job.eval_case.image.is_some()
}

pub(crate) fn config(plan: RunnerPlan, host_env: &Arc<HostEnv>) -> RunnerConfig {
    let mut config = RunnerConfig::new(
        hub_url::text(&plan.hub),
        plan.token,
        plan.version,
        Arc::clone(host_env),
        plan.work_root,
    );
    config.state_dir = Some(plan.state_dir);
    config.max_concurrent = plan.max_concurrent;
    config.wait_ms = u32::try_from(plan.wait.as_millis()).unwrap_or(u32::MAX);
    config.heartbeat_ms = plan.heartbeat.map(millis);
    config.poll_interval_ms = millis(plan.poll_interval);
    config.switched_off = plan.switched_off;
    config
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

async fn merge(
    index: usize,
    mut runner: watch::Receiver<RunnerSnapshot>,
    engine: Arc<watch::Sender<EngineSnapshot>>,
) {
    loop {
        let now = runner.borrow_and_update().clone();
        engine.send_if_modified(|snapshot| {
            let Some(view) = snapshot.runners.get_mut(index) else {
                return false;
            };
            let news = view.runner != now;
            if news {
                view.runner = now;
                snapshot.seq += 1;
            }
            news
        });
        // The sender goes with the runner; the last state was seen by then.
        if runner.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
