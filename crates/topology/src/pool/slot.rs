use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use everdict_contracts::Fault;
use tokio::sync::watch;
use tokio_util::sync::DropGuard;

use crate::deploy::{DebtObject, Standing, filter, install};
use crate::engine::{ContainerRow, Engine, EngineError, RunState};
use crate::lock::{LockFolder, LockHeld};
use crate::plan::TopologyPlan;

/// Where one topology is in its life. One that isn't in the pool is absent, as far as this process knows.
pub(super) enum Slot {
    /// A task is making it stand.
    Deploying(Deploying),
    /// It stands.
    Ready(Arc<Warm>),
    /// A task is taking it down.
    Draining(watch::Receiver<Option<Result<(), Fault>>>),
}

/// A deployment that several cases may wait for.
#[derive(Clone)]
pub(super) struct Deploying {
    /// Turns to the outcome.
    pub(super) done: watch::Receiver<Option<Result<(), Fault>>>,
    /// Held by each case that waits; the last to leave cancels the deployment.
    pub(super) interest: Weak<DropGuard>,
}

/// A topology that stands.
pub struct Warm {
    pub(crate) plan: Arc<TopologyPlan>,
    pub(crate) standing: Standing,
    pub(crate) endpoints: BTreeMap<String, String>,
    uses: Mutex<Uses>,
}

struct Uses {
    count: usize,
    /// Tells other processes that somebody here uses it.
    lock: Option<LockHeld>,
    idle_since: Instant,
}

/// One use of a topology, for as long as it lives.
pub(crate) struct Ticket {
    pub(crate) warm: Arc<Warm>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut uses = self.warm.uses();
        uses.count = uses.count.saturating_sub(1);
        if uses.count == 0 {
            uses.lock = None;
            uses.idle_since = Instant::now();
        }
    }
}

impl Warm {
    pub(super) fn new(plan: Arc<TopologyPlan>, standing: Standing, host: &str) -> Self {
        let ports = standing
            .members
            .iter()
            .filter_map(|up| Some((up.name.clone(), up.port?)));
        let endpoints = ports
            .map(|(name, port)| (name, format!("http://{host}:{port}")))
            .collect();
        let uses = Mutex::new(Uses {
            count: 0,
            lock: None,
            idle_since: Instant::now(),
        });
        Self {
            plan,
            standing,
            endpoints,
            uses,
        }
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more use; `None` when another process is taking the topology down.
    pub(super) fn ticket(self: &Arc<Self>, locks: &LockFolder) -> io::Result<Option<Ticket>> {
        let mut uses = self.uses();
        if uses.count == 0 {
            let Some(lock) = locks.try_use(&self.plan.name)? else {
                return Ok(None);
            };
            uses.lock = Some(lock);
        }
        uses.count += 1;
        Ok(Some(Ticket {
            warm: Arc::clone(self),
        }))
    }

    /// Since when nobody here uses it.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let uses = self.uses();
        (uses.count == 0).then_some(uses.idle_since)
    }

    /// How many cases use it.
    pub(super) fn uses_now(&self) -> usize {
        self.uses().count
    }

    /// Tells whether something is part of what stands.
    pub(super) fn has(&self, object: &DebtObject) -> bool {
        match object {
            DebtObject::Container { id, .. } => self.standing.members.iter().any(|up| up.id == *id),
            DebtObject::Network { id, .. } => self.standing.network == *id,
            DebtObject::Volume { name } => self.plan.volumes.contains(name),
            DebtObject::Everything { .. } => true,
        }
    }

    /// Asks the daemon, in one call, whether every container is the one it was, and running.
    pub(super) async fn stands(&self, engine: &Engine) -> Result<bool, EngineError> {
        let rows = engine
            .list_containers(&filter(install(&self.plan), &self.plan.name))
            .await?;
        let by_id: BTreeMap<&str, &ContainerRow> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
        Ok(self.standing.members.iter().all(|up| {
            let Some(row) = by_id.get(up.id.as_str()) else {
                return false;
            };
            let finished = self
                .plan
                .service(&up.name)
                .is_some_and(|service| service.may_finish)
                && row.status.starts_with("Exited (0)");
            let same_port = up
                .port
                .is_none_or(|port| row.ports.values().any(|published| *published == port));
            finished || row.state == RunState::Running && same_port
        }))
    }
}
