//! The topologies of this process: each is made once, used by many, and taken down by nobody while somebody uses it.
//!
//! Absent → deploying → ready (n uses) → draining → absent. Whoever finds a topology absent starts its deployment in a
//! task of its own; everybody else waits for that one. A failure is told to all who wait, and never kept. Between
//! processes the locks of [`crate::lock`] stand for the same states.

mod slot;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everdict_contracts::{ErrorCode, Fault};
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::deploy::{Debt, Means, PreparedImages, Remover, install, stand_up, tear_down};
use crate::engine::{Engine, EngineError};
use crate::lock::{LockFolder, LockHeld};
use crate::plan::TopologyPlan;
use crate::runtime::{CaseScope, Progress};

pub(crate) use slot::Ticket;
pub use slot::Warm;
use slot::{Deploying, Slot};

/// Waiters that go round more often than this have met a topology that dies as soon as it stands.
const MAX_ROUNDS: u32 = 5;

/// How far the daemon's clock may be off: tokens are checked with a leeway of a minute or more.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// What is done before the site lock is taken, such as pulling images: a lock must not be held for minutes.
pub(crate) type Prepare = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), Fault>> + Send>;

/// See the module.
pub(crate) struct Pool {
    engine: Engine,
    locks: LockFolder,
    /// `None` where databases aren't to be prepared.
    prepared: Option<PreparedImages>,
    /// Cancelled when nothing is to be begun any more.
    stop: CancellationToken,
    slots: Mutex<HashMap<String, Slot>>,
    tasks: TaskTracker,
    debts: Mutex<Vec<Debt>>,
}

/// What to do next for a case that wants a topology.
enum Step {
    Use(Ticket),
    /// Held while waiting, so that the deployment goes on.
    Wait(Deploying, Option<Arc<tokio_util::sync::DropGuard>>),
    WaitForDrain(watch::Receiver<Option<Result<(), Fault>>>),
}

impl Pool {
    pub(crate) fn new(
        engine: Engine,
        locks: LockFolder,
        prepared: Option<PreparedImages>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            locks,
            prepared,
            stop,
            slots: Mutex::default(),
            tasks: TaskTracker::new(),
            debts: Mutex::default(),
        })
    }

    pub(crate) fn locks(&self) -> &LockFolder {
        &self.locks
    }

    /// Clean-ups and the like that must outlive the call that asked for them.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn owe(&self, debts: impl IntoIterator<Item = Debt>) {
        self.debts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(debts);
    }

    /// What could not be removed so far.
    pub(crate) fn debts(&self) -> Vec<Debt> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives out a use of the topology, which is made if need be. Cancel safe.
    pub(crate) async fn ensure(
        self: &Arc<Self>,
        plan: &Arc<TopologyPlan>,
        scope: &CaseScope,
        prepare: impl Fn() -> Prepare,
    ) -> Result<Ticket, Fault> {
        for _ in 0..MAX_ROUNDS {
            let outcome = match self.step(plan, scope, &prepare)? {
                Step::Use(ticket) => {
                    let stands = ticket.warm.stands(&self.engine);
                    if scope.bounded(stands).await?.map_err(EngineError::into_fault)? {
                        return Ok(ticket);
                    }
                    self.forget(&ticket.warm);
                    continue;
                }
                Step::Wait(mut deploying, interest) => {
                    let outcome = scope.bounded(outcome(&mut deploying.done)).await?;
                    if interest.is_none() {
                        // Everybody else had left before, so it was cancelled under us: start anew.
                        continue;
                    }
                    outcome
                }
                Step::WaitForDrain(mut done) => {
                    // However that ended: the next look tells what there is.
                    let _ = scope.bounded(outcome(&mut done)).await?;
                    continue;
                }
            };
            outcome?;
        }
        let text = format!(
            "{} doesn't stay up: containers end as soon as all are ready",
            plan.key
        );
        Err(Fault::new(ErrorCode::UpstreamError, text))
    }

    fn step(
        self: &Arc<Self>,
        plan: &Arc<TopologyPlan>,
        scope: &CaseScope,
        prepare: &impl Fn() -> Prepare,
    ) -> Result<Step, Fault> {
        let mut slots = self.slots();
        match slots.get(&plan.name) {
            Some(Slot::Ready(warm)) => {
                if let Some(ticket) = warm.ticket(&self.locks).map_err(lock_fault)? {
                    return Ok(Step::Use(ticket));
                }
                // Another process is taking it down: the site lock tells when that is over.
            }
            Some(Slot::Deploying(deploying)) => {
                let interest = deploying.interest.upgrade();
                return Ok(Step::Wait(deploying.clone(), interest));
            }
            Some(Slot::Draining(done)) => return Ok(Step::WaitForDrain(done.clone())),
            None => {}
        }
        let (tell, done) = watch::channel(None);
        let cancel = CancellationToken::new();
        let interest = Arc::new(cancel.clone().drop_guard());
        let deploying = Deploying {
            done,
            interest: Arc::downgrade(&interest),
        };
        slots.insert(plan.name.clone(), Slot::Deploying(deploying.clone()));
        let (pool, plan, progress) = (Arc::clone(self), Arc::clone(plan), Arc::clone(&scope.progress));
        let prepared = prepare()(cancel.clone());
        self.tasks.spawn(async move {
            let result = pool.deploy(&plan, &cancel, &progress, prepared).await;
            let result = pool.settle(&plan, result);
            let stands = result.is_ok();
            tell.send_replace(Some(result));
            if stands {
                pool.prepare_for_next(&plan).await;
            }
        });
        Ok(Step::Wait(deploying, Some(interest)))
    }

    /// Prepares databases for the topologies to come.
    async fn prepare_for_next(&self, plan: &TopologyPlan) {
        let Some(prepared) = &self.prepared else { return };
        for store in &plan.stores {
            prepared.prepare(store, &self.stop).await;
        }
    }

    async fn deploy(
        &self,
        plan: &Arc<TopologyPlan>,
        cancel: &CancellationToken,
        progress: &Progress,
        prepared: BoxFuture<'static, Result<(), Fault>>,
    ) -> Result<Warm, Fault> {
        let cancelled = || Fault::cancelled("the topology isn't wanted any more");
        tokio::try_join!(prepared, check_clock(&self.engine))?;
        let site = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled()),
            site = self.locks.site(&plan.name) => site.map_err(lock_fault)?,
        };
        // Held to the end: nobody moves in while something that stands may be replaced.
        let unused = self.locks.try_unused(&plan.name).map_err(lock_fault)?;
        let made = Mutex::new(Vec::new());
        let means = Means {
            engine: &self.engine,
            cancel,
            progress,
            made: &made,
            prepared: self.prepared.as_ref(),
            in_use: unused.is_none(),
        };
        let result = stand_up(plan, means).await;
        let result = match result {
            Ok(_) if cancel.is_cancelled() => Err(cancelled()),
            other => other,
        };
        if result.is_err() {
            let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
            let left = self.take_back(plan, &made, unused).await;
            if !left.is_empty() {
                let names: Vec<String> = left.iter().map(|debt| debt.object.to_string()).collect();
                progress(&format!(
                    "cleanup_incomplete, to be tried again: {}",
                    names.join(", ")
                ));
                self.owe(left);
            }
        }
        drop(site);
        result.map(|standing| Warm::new(Arc::clone(plan), standing, self.engine.published_host()))
    }

    /// Removes what a failed deployment has made: everything when nobody uses the topology. Gives out what resists.
    async fn take_back(&self, plan: &TopologyPlan, made: &[String], unused: Option<LockHeld>) -> Vec<Debt> {
        let unused = match unused {
            Some(held) => Some(held),
            None => self.locks.try_unused(&plan.name).ok().flatten(),
        };
        if unused.is_some() {
            return tear_down(&self.engine, install(plan), &plan.name).await;
        }
        let remover = Remover {
            engine: &self.engine,
            install: install(plan),
            topology: &plan.name,
        };
        remover.container_ids(made).await
    }

    fn settle(&self, plan: &TopologyPlan, result: Result<Warm, Fault>) -> Result<(), Fault> {
        let mut slots = self.slots();
        match result {
            Ok(warm) => {
                slots.insert(plan.name.clone(), Slot::Ready(Arc::new(warm)));
                Ok(())
            }
            Err(fault) => {
                slots.remove(&plan.name);
                Err(fault)
            }
        }
    }

    /// Drops a topology from the pool if it is still this very one: a late answer must not hit its successor.
    fn forget(&self, warm: &Arc<Warm>) {
        let mut slots = self.slots();
        if let Some(Slot::Ready(now)) = slots.get(&warm.plan.name)
            && Arc::ptr_eq(now, warm)
        {
            slots.remove(&warm.plan.name);
        }
    }

    /// The topologies of this process, with the number of their uses.
    pub(crate) fn ready(&self) -> Vec<(Arc<Warm>, usize)> {
        let slots = self.slots();
        let ready = slots.values().filter_map(|slot| match slot {
            Slot::Ready(warm) => Some((Arc::clone(warm), warm.uses_now())),
            _ => None,
        });
        ready.collect()
    }

    /// Takes down every topology that nobody has used for `idle`, and gives out their keys.
    pub(crate) async fn sweep_idle(&self, idle: Duration) -> Vec<String> {
        let now = Instant::now();
        let names: Vec<String> = self.slots().keys().cloned().collect();
        let drains = names.iter().map(|name| {
            self.drain(name, |warm| {
                warm.idle_since()
                    .is_some_and(|since| now.saturating_duration_since(since) >= idle)
            })
        });
        join_all(drains).await.into_iter().flatten().collect()
    }

    /// Takes one topology down if it is ready, unused here and everywhere, and `due`. Gives out its key.
    pub(crate) async fn drain(&self, name: &str, due: impl Fn(&Warm) -> bool) -> Option<String> {
        let (tell, done) = watch::channel(None);
        let warm = {
            let mut slots = self.slots();
            let warm = match slots.get(name) {
                Some(Slot::Ready(warm)) if warm.idle_since().is_some() && due(warm) => Arc::clone(warm),
                _ => return None,
            };
            slots.insert(name.to_owned(), Slot::Draining(done));
            warm
        };
        let taken = self.take_down(&warm.plan).await;
        self.slots().remove(name);
        tell.send_replace(Some(Ok(())));
        taken.then(|| warm.plan.key.to_string())
    }

    /// Takes a topology down unless another process is at it or uses it, which then has to.
    async fn take_down(&self, plan: &TopologyPlan) -> bool {
        let Ok(Some(_site)) = self.locks.try_site(&plan.name) else {
            return false;
        };
        let Ok(Some(_unused)) = self.locks.try_unused(&plan.name) else {
            return false;
        };
        let left = tear_down(&self.engine, install(plan), &plan.name).await;
        let gone = left.is_empty();
        self.owe(left);
        gone
    }

    /// Takes down what of the named topologies of this process' making is in nobody's books: a call that timed out may
    /// have been carried out later.
    pub(crate) async fn take_down_strays(&self, install: &str, names: std::collections::BTreeSet<String>) {
        for name in names {
            let Ok(Some(_site)) = self.locks.try_site(&name) else {
                continue;
            };
            // In this order: a deployment that begins now waits for the site lock.
            if self.slots().contains_key(&name) {
                continue;
            }
            let Ok(Some(_unused)) = self.locks.try_unused(&name) else {
                continue;
            };
            self.owe(tear_down(&self.engine, install, &name).await);
        }
    }

    /// Tries again what could not be removed.
    pub(crate) async fn pay_debts(&self) {
        let owed = std::mem::take(&mut *self.debts.lock().unwrap_or_else(PoisonError::into_inner));
        for debt in owed {
            let still = if debt.shared {
                self.pay_shared(debt).await
            } else {
                debt.pay(&self.engine).await
            };
            self.owe(still);
        }
    }

    /// Removes what is owed of a topology, unless it is part of one that stands again by now: a case that found it
    /// intact has moved in.
    async fn pay_shared(&self, debt: Debt) -> Option<Debt> {
        let beside = match self.slots().get(&debt.topology) {
            Some(Slot::Ready(warm)) if warm.has(&debt.object) => return None,
            Some(Slot::Deploying(_) | Slot::Draining(_)) => return Some(debt),
            Some(Slot::Ready(_)) => true,
            None => false,
        };
        if beside {
            return debt.pay(&self.engine).await;
        }
        let Ok(Some(_site)) = self.locks.try_site(&debt.topology) else {
            return Some(debt);
        };
        let Ok(Some(_unused)) = self.locks.try_unused(&debt.topology) else {
            return None;
        };
        debt.pay(&self.engine).await
    }
}

/// Refuses a daemon whose clock is off, as that of a virtual machine is after a long sleep: in its containers every
/// certificate and token would be invalid, and the agent would be blamed.
async fn check_clock(engine: &Engine) -> Result<(), Fault> {
    let Some(theirs) = engine.info().await.map_err(EngineError::into_fault)?.time else {
        return Ok(());
    };
    let behind = jiff::Timestamp::now().duration_since(theirs);
    if behind.unsigned_abs() <= CLOCK_TOLERANCE {
        return Ok(());
    }
    let way = if behind.is_negative() {
        "ahead of"
    } else {
        "behind"
    };
    let text = format!(
        "the docker daemon's clock is {} s {way} this machine's: restart docker or its virtual machine",
        behind.unsigned_abs().as_secs()
    );
    Err(Fault::new(ErrorCode::DriverProvisionFailed, text))
}

fn lock_fault(error: std::io::Error) -> Fault {
    Fault::new(
        ErrorCode::DriverProvisionFailed,
        "the topology's lock file can't be used",
    )
    .caused_by(error)
}

/// Waits for the outcome of a task; a task that panicked counts as a failure of ours.
async fn outcome(done: &mut watch::Receiver<Option<Result<(), Fault>>>) -> Result<(), Fault> {
    match done.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
        Err(_) => Err(Fault::internal("the deployment ended without an outcome")),
    }
}
