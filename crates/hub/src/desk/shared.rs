//! The desk of hubs that share a database: the queue is there, and only the calls that wait are here.
//!
//! Calls of one owner are served together: while one look for jobs is under way, those that come meanwhile gather for the
//! next. Nobody polls: a look follows a new call, a job that came (here or at another hub, which tells), and a lost lease.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everdict_contracts::{JobId, RunnerId};
use everdict_store::{RunStatus, SharedWrite, Store, StoreError, Write};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::look::look;
use super::{Granted, Seat, lease_of, returned};
use crate::clock;
use crate::peers::News;
use crate::queue::{Beat, CapSet, Effect, Limits, Member, Owner, Token, WaiterId};
use crate::shared::Hubbed;

/// Callers served by one look: large enough for a busy pool, small enough for the first not to wait for the last.
pub(super) const SEATS: usize = 64;

/// Pause after a look that failed: the database is away, and asking faster does not bring it back.
pub(super) const PAUSE: Duration = Duration::from_millis(300);

/// Shortest and longest pause between looks for jobs that nobody comes for.
const IDLE_LOOK: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Owners whose look may wait to be started; a look starts at once, so this is never full for long.
const RINGING: usize = 1_024;

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) who: Member,
    pub(super) caps: Option<CapSet>,
    /// Whether the caller stays when there is nothing.
    pub(super) stays: bool,
    pub(super) seat: oneshot::Sender<Granted>,
}

/// The waiting calls of one owner, and the reasons to look.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    pub(super) waiting: BTreeMap<WaiterId, Waiting>,
    pub(super) fresh: HashSet<WaiterId>,
    pub(super) pool: bool,
    pub(super) pinned: HashSet<RunnerId>,
    pub(super) looking: bool,
}

impl Crowd {
    pub(super) fn has_reason(&self) -> bool {
        !self.waiting.is_empty() && (self.pool || !self.fresh.is_empty() || !self.pinned.is_empty())
    }
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) crowds: HashMap<Owner, Crowd>,
    next: u64,
    /// When it was last written down that a runner is about.
    noted: HashMap<(RunnerId, Option<CapSet>), i64>,
}

/// Calls that wait for jobs of a queue in the database.
#[derive(Debug)]
pub(crate) struct SharedDesk {
    pub(super) store: Store,
    pub(super) limits: Limits,
    tasks: TaskTracker,
    inner: Mutex<Inner>,
    bell: mpsc::Sender<Owner>,
    rung: Mutex<Option<mpsc::Receiver<Owner>>>,
}

impl SharedDesk {
    pub(crate) fn new(store: Store, limits: Limits, tasks: TaskTracker) -> Self {
        let (bell, rung) = mpsc::channel(RINGING);
        Self {
            store,
            limits,
            tasks,
            inner: Mutex::default(),
            bell,
            rung: Mutex::new(Some(rung)),
        }
    }

    /// Looks for jobs again: a job came to the owner's pool, or to the lane of one runner.
    pub(crate) fn wake(&self, owner: &Owner, runner: Option<&str>) {
        let mut inner = self.inner();
        let Some(crowd) = inner.crowds.get_mut(owner) else {
            return;
        };
        match runner {
            None | Some("") => crowd.pool = true,
            Some(runner) => {
                let runner = RunnerId::from(runner);
                if !crowd.waiting.values().any(|one| one.who.runner == runner) {
                    return;
                }
                crowd.pinned.insert(runner);
            }
        }
        self.ring(crowd, owner);
    }

    /// Looks for jobs again for everybody: something may have been missed.
    pub(crate) fn wake_all(&self) {
        let mut inner = self.inner();
        for (owner, crowd) in &mut inner.crowds {
            crowd.fresh.extend(crowd.waiting.keys().copied());
            self.ring(crowd, owner);
        }
    }

    fn ring(&self, crowd: &mut Crowd, owner: &Owner) {
        if crowd.looking || !crowd.has_reason() {
            return;
        }
        // A full bell is answered in a moment; then the next reason rings again, at the latest the caller's next poll.
        crowd.looking = self.bell.try_send(owner.clone()).is_ok();
    }

    pub(super) fn sit_down(&self, who: &Member, caps: Option<CapSet>, stays: bool) -> (WaiterId, Seat) {
        let (seat, receiver) = oneshot::channel();
        let mut inner = self.inner();
        let waiter = WaiterId::new(inner.next);
        inner.next += 1;
        let crowd = inner.crowds.entry(who.owner.clone()).or_default();
        let waiting = Waiting {
            who: who.clone(),
            caps,
            stays,
            seat,
        };
        crowd.waiting.insert(waiter, waiting);
        crowd.fresh.insert(waiter);
        self.ring(crowd, &who.owner);
        (waiter, receiver)
    }

    pub(super) fn leave(self: &Arc<Self>, who: &Member, waiter: WaiterId, seat: &mut Seat) {
        let mut inner = self.inner();
        if let Some(crowd) = inner.crowds.get_mut(&who.owner) {
            crowd.waiting.remove(&waiter);
            crowd.fresh.remove(&waiter);
            if crowd.waiting.is_empty() && !crowd.looking {
                inner.crowds.remove(&who.owner);
            }
        }
        drop(inner);
        if let Ok(granted) = seat.try_recv() {
            self.give_back(who, &granted.token);
        }
    }

    pub(super) fn dismiss(&self, who: &Member) {
        if let Some(crowd) = self.inner().crowds.get_mut(&who.owner) {
            crowd.waiting.retain(|_, one| one.who.runner != who.runner);
        }
    }

    pub(super) fn give_back(self: &Arc<Self>, who: &Member, token: &Token) {
        let (desk, token, owner) = (self.clone(), token.clone(), who.owner.clone());
        self.tasks.spawn(async move {
            // Whether the job was pinned is not known here: its lane and the pool are both looked at.
            let news = [
                News::Waiting(vec![token.job.to_string()]),
                News::Work(owner.to_string(), String::new()),
                News::Work(owner.to_string(), token.runner.to_string()),
            ];
            let news = news.iter().map(News::text).collect();
            if let Err(error) = desk.store.write_telling(returned(&token), news).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, job = %token.job, "a job could not be given back; it is when its lease ends");
            }
            desk.wake(&owner, None);
            desk.wake(&owner, Some(token.runner.as_str()));
        });
    }

    pub(super) async fn heartbeat(
        &self,
        who: &Member,
        token: &Token,
        caps: Option<CapSet>,
    ) -> Result<Beat, StoreError> {
        self.note(who, caps);
        let renew = Write::Shared(SharedWrite::Renew {
            lease: lease_of(token),
            ttl: self.limits.lease_ttl,
            at: clock::now(),
        });
        if self.store.write(renew).await? == everdict_store::Outcome::Applied {
            return Ok(Beat::Extended);
        }
        self.standing(token).await
    }

    pub(super) async fn standing(&self, token: &Token) -> Result<Beat, StoreError> {
        let standing = self.store.standing(token.job.as_str()).await?;
        let Some(standing) = standing.filter(|standing| {
            standing.epoch == token.epoch && standing.holder.as_deref() == Some(token.runner.as_str())
        }) else {
            return Ok(Beat::Stale);
        };
        Ok(match standing.status {
            RunStatus::Running => Beat::Extended,
            RunStatus::Failed if standing.cancelled => Beat::Cancelled,
            RunStatus::Queued | RunStatus::Succeeded | RunStatus::Failed => Beat::Stale,
        })
    }

    /// Notes that a runner is about, which keeps what it could run waiting. Written down often enough for the idle time.
    pub(super) fn note(&self, who: &Member, caps: Option<CapSet>) {
        let at = clock::now();
        let often = i64::try_from(self.limits.idle_timeout.as_millis() / 10).unwrap_or(i64::MAX);
        {
            let mut inner = self.inner();
            let noted = inner.noted.entry((who.runner.clone(), caps)).or_default();
            if at - *noted < often {
                return;
            }
            *noted = at;
        }
        let note = Write::Shared(SharedWrite::Asker {
            owner: who.owner.to_string(),
            runner: who.runner.to_string(),
            caps: caps.map(names),
            at,
        });
        let store = self.store.clone();
        self.tasks.spawn(async move {
            if let Err(error) = store.write(note).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "that a runner is about could not be stored");
            }
        });
    }

    /// Serves the calls, and ends what is due, until told to stop.
    pub(super) async fn keep_time(&self, hub: &Hubbed, stop: &CancellationToken) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner).take();
        let work = async {
            tokio::join!(self.serve(hub, rung), self.expire(hub), self.end_idle(hub));
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    async fn serve(&self, hub: &Hubbed, rung: Option<mpsc::Receiver<Owner>>) {
        let Some(mut rung) = rung else { return };
        while let Some(owner) = rung.recv().await {
            // Not cut off in the middle: what the database has leased must reach its caller or go back.
            hub.tasks.spawn(look(hub.clone(), owner));
        }
    }

    async fn expire(&self, hub: &Hubbed) {
        loop {
            let next = match self.store.expire_leases(clock::now()).await {
                Ok(expired) => {
                    for run in &expired.runs {
                        hub.live.show_status(run, RunStatus::Queued);
                    }
                    hub.metrics.lost(expired.runs.len());
                    for (owner, place) in &expired.lanes {
                        self.wake(&Owner::parse(owner), Some(place));
                    }
                    expired.next.unwrap_or(self.limits.lease_ttl)
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "lost leases could not be looked for; trying again");
                    PAUSE
                }
            };
            // A lease given out meanwhile lasts at least as long as one does, so no end is slept through.
            let pause = next.min(self.limits.lease_ttl).max(Duration::from_millis(5));
            tokio::time::sleep(pause).await;
        }
    }

    async fn end_idle(&self, hub: &Hubbed) {
        let idle = i64::try_from(self.limits.idle_timeout.as_millis()).unwrap_or(i64::MAX);
        let pause = (self.limits.idle_timeout / 10).clamp(IDLE_LOOK.0, IDLE_LOOK.1);
        loop {
            tokio::time::sleep(pause).await;
            match self.store.forsaken(clock::now().saturating_sub(idle)).await {
                Ok(runs) => {
                    let effects = runs.into_iter().map(|run| Effect::NoRunner {
                        job: JobId::from(run),
                    });
                    hub.carry_out(effects.collect());
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "jobs that nobody comes for could not be looked for");
                }
            }
        }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn names(caps: CapSet) -> Vec<String> {
    caps.iter().map(|capability| capability.to_string()).collect()
}
