//! The lease queue: who gets which job, and whose word about a job counts.
//!
//! A pure state machine: it reads no clock and does no I/O. Every call is told the moment `now`, and what
//! has to happen outside comes back as [`Effect`]s. The shell sleeps until [`Queue::next_deadline`] and
//! calls [`Queue::tick`].
//!
//! Invariants (checked by the property tests beside this file):
//! - A job has at most one writable lease, and its epoch only grows.
//! - A report counts only with the current epoch from the runner that holds the lease.
//! - A job is granted only to a waiter that has not left.
//! - Keys are structured, so no owner's queue can be reached through another owner's name.

mod caps;
mod key;
mod lane;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod waiters;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

pub(crate) use caps::CapSet;
use everdict_contracts::{JobId, RunnerId};
pub(crate) use key::{Class, Member, Owner, Place, QueueKey};
use lane::{Group, Lane};
pub(crate) use waiters::WaiterId;
use waiters::Waiters;

/// Time since an origin of the caller's choice.
pub(crate) type Moment = Duration;

/// How long things may last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A lease without a heartbeat ends after this.
    pub(crate) lease_ttl: Duration,
    /// A job that nobody who could run it has asked for ends after this.
    pub(crate) idle_timeout: Duration,
}

/// A job to be queued.
#[derive(Debug, Clone)]
pub(crate) struct Parked {
    pub(crate) job: JobId,
    pub(crate) key: QueueKey,
    pub(crate) class: Class,
    /// Jobs of one group take turns with those of other groups.
    pub(crate) group: String,
    pub(crate) needs: CapSet,
    /// Epoch of the latest lease; zero for a new job.
    pub(crate) epoch: u64,
    pub(crate) requeues: u32,
}

/// Where a job stood when the hub stopped.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    Queued,
    Leased(RunnerId),
    Cancelled(RunnerId),
}

/// Proof of a lease, as a runner presents it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) job: JobId,
    pub(crate) epoch: u64,
    pub(crate) runner: RunnerId,
}

/// Answer to a lease call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Leased {
    Granted(Token),
    Waiting(WaiterId),
    Nothing,
}

/// Answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The lease is renewed.
    Extended,
    /// The holder should stop.
    Cancelled,
    /// Not the holder's job any more.
    Stale,
}

/// Something the shell has to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The waiter gets a job; it waits no longer.
    Granted { waiter: WaiterId, token: Token },
    /// The lease with this epoch is over and the job waits again.
    Requeued {
        job: JobId,
        epoch: u64,
        requeues: u32,
    },
    /// Nobody who could run the job has asked for it in time; it is out of the queue.
    NoRunner { job: JobId },
    /// The pinned runner came and lacks these; the job is out of the queue.
    Mismatch {
        job: JobId,
        runner: RunnerId,
        missing: CapSet,
    },
}

#[derive(Debug)]
enum State {
    Queued,
    Leased(RunnerId),
    /// A report is being written; nothing else may happen until that is decided.
    Finishing(RunnerId),
    /// Kept only to tell the holder.
    Cancelled(RunnerId),
}

#[derive(Debug)]
struct Entry {
    job: JobId,
    key: QueueKey,
    class: Class,
    group: Group,
    needs: CapSet,
    epoch: u64,
    requeues: u32,
    state: State,
    /// Last sign of life that concerned this very job.
    active: Moment,
    deadline: Option<Moment>,
}

/// The queue of one hub.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: Limits,
    ids: HashMap<JobId, u64>,
    entries: HashMap<u64, Entry>,
    lanes: HashMap<QueueKey, Lane>,
    waiters: Waiters,
    deadlines: BTreeSet<(Moment, u64)>,
    next_seq: u64,
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            ids: HashMap::new(),
            entries: HashMap::new(),
            lanes: HashMap::new(),
            waiters: Waiters::default(),
            deadlines: BTreeSet::new(),
            next_seq: 0,
        }
    }

    /// Adds a job and hands it to a waiter if one can take it.
    pub(crate) fn enqueue(&mut self, now: Moment, parked: Parked) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(seq) = self.insert(now, parked, Standing::Queued) {
            self.offer(now, seq, &mut effects);
        }
        effects
    }

    /// Adds a job as the store remembers it; leases and idle time start afresh.
    pub(crate) fn restore(&mut self, now: Moment, parked: Parked, standing: Standing) {
        self.insert(now, parked, standing);
    }

    fn insert(&mut self, now: Moment, parked: Parked, standing: Standing) -> Option<u64> {
        if self.ids.contains_key(&parked.job) {
            return None;
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let group = Group::from(parked.group.as_str());
        let lane = self.lanes.entry(parked.key.clone()).or_default();
        lane.join(&group);
        let state = match standing {
            Standing::Queued => {
                lane.push(parked.class, parked.needs, &group, seq);
                State::Queued
            }
            Standing::Leased(holder) => State::Leased(holder),
            Standing::Cancelled(holder) => State::Cancelled(holder),
        };
        self.ids.insert(parked.job.clone(), seq);
        self.entries.insert(
            seq,
            Entry {
                job: parked.job,
                key: parked.key,
                class: parked.class,
                group,
                needs: parked.needs,
                epoch: parked.epoch,
                requeues: parked.requeues,
                state,
                active: now,
                deadline: None,
            },
        );
        self.arm(now, seq);
        Some(seq)
    }

    /// Looks for a job for `who`: first its own queue, then its owner's pool.
    ///
    /// `caps` absent turns the capability gate off. With `wait`, a caller that gets nothing is registered
    /// and must call [`Queue::leave`] when it stops waiting.
    pub(crate) fn lease(
        &mut self,
        now: Moment,
        who: &Member,
        caps: Option<CapSet>,
        wait: bool,
    ) -> (Leased, Vec<Effect>) {
        let mut effects = Vec::new();
        let leased = match self.take(now, who, caps, &mut effects) {
            Some(token) => Leased::Granted(token),
            None if wait => Leased::Waiting(self.waiters.join(who.clone(), caps)),
            None => Leased::Nothing,
        };
        (leased, effects)
    }

    /// Forgets a waiter. Returns false when it had been granted a job or is unknown.
    pub(crate) fn leave(&mut self, waiter: WaiterId) -> bool {
        self.waiters.leave(waiter)
    }

    /// Forgets every waiter of a runner and names them, so that their calls can be ended.
    pub(crate) fn dismiss(&mut self, who: &Member) -> Vec<WaiterId> {
        self.waiters.dismiss(who)
    }

    /// Takes back a job whose grant never reached the runner. The epoch stays used.
    pub(crate) fn give_back(&mut self, now: Moment, token: &Token) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Some(seq) = self.holding(token)
            && matches!(self.entries[&seq].state, State::Leased(_))
        {
            self.requeue(now, seq, false, &mut effects);
        }
        effects
    }

    /// Renews a lease, or says why not.
    pub(crate) fn heartbeat(
        &mut self,
        now: Moment,
        who: &Member,
        token: &Token,
        caps: Option<CapSet>,
    ) -> Beat {
        self.refresh(now, who, caps);
        let Some(seq) = self.holding(token) else {
            return Beat::Stale;
        };
        let entry = self.entry(seq);
        match entry.state {
            State::Leased(_) => {
                entry.active = now;
                self.arm(now, seq);
                Beat::Extended
            }
            State::Finishing(_) => Beat::Extended,
            State::Cancelled(_) => Beat::Cancelled,
            State::Queued => Beat::Stale,
        }
    }

    /// Says whether the token's holder may write, and whether it should stop.
    pub(crate) fn standing(&self, token: &Token) -> Beat {
        match self.holding(token).map(|seq| &self.entries[&seq].state) {
            Some(State::Leased(_)) => Beat::Extended,
            Some(State::Cancelled(_)) => Beat::Cancelled,
            Some(State::Queued | State::Finishing(_)) | None => Beat::Stale,
        }
    }

    /// Reserves the job for the report of its holder. Returns false when the token is not a writable
    /// lease. Must be followed by [`Queue::finish`] or [`Queue::resume`].
    pub(crate) fn begin_finish(&mut self, token: &Token) -> bool {
        let Some(seq) = self.holding(token) else {
            return false;
        };
        let entry = self.entry(seq);
        let State::Leased(holder) = &entry.state else {
            return false;
        };
        entry.state = State::Finishing(holder.clone());
        self.disarm(seq);
        true
    }

    /// Drops a job that is over.
    pub(crate) fn finish(&mut self, job: &JobId) {
        if let Some(seq) = self.ids.get(job).copied() {
            self.remove(seq);
        }
    }

    /// Gives the lease back to its holder after a report that could not be written.
    pub(crate) fn resume(&mut self, now: Moment, job: &JobId) {
        let Some(seq) = self.ids.get(job).copied() else {
            return;
        };
        let entry = self.entry(seq);
        if let State::Finishing(holder) = &entry.state {
            entry.state = State::Leased(holder.clone());
            entry.active = now;
            self.arm(now, seq);
        }
    }

    /// Cancels a job: it leaves the queue, or lingers to tell its holder.
    pub(crate) fn cancel(&mut self, now: Moment, job: &JobId) {
        let Some(seq) = self.ids.get(job).copied() else {
            return;
        };
        let entry = self.entry(seq);
        match &entry.state {
            State::Queued => self.remove(seq),
            State::Leased(holder) | State::Finishing(holder) => {
                entry.state = State::Cancelled(holder.clone());
                entry.active = now;
                self.arm(now, seq);
            }
            State::Cancelled(_) => {}
        }
    }

    /// Ends what is due at `now`.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some((due, seq)) = self.deadlines.first().copied() {
            if due > now {
                break;
            }
            self.disarm(seq);
            self.expire(now, seq, &mut effects);
        }
        effects
    }

    /// When [`Queue::tick`] has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    fn expire(&mut self, now: Moment, seq: u64, effects: &mut Vec<Effect>) {
        let entry = &self.entries[&seq];
        match entry.state {
            State::Leased(_) => self.requeue(now, seq, true, effects),
            State::Cancelled(_) => self.remove(seq),
            State::Finishing(_) => {}
            State::Queued => {
                let seen = self
                    .lanes
                    .get(&entry.key)
                    .and_then(|lane| lane.last_asked(entry.needs));
                let active = seen.map_or(entry.active, |seen| seen.max(entry.active));
                if active + self.limits.idle_timeout > now {
                    self.entry(seq).active = active;
                    self.arm(active, seq);
                } else {
                    let job = entry.job.clone();
                    self.remove(seq);
                    effects.push(Effect::NoRunner { job });
                }
            }
        }
    }

    fn requeue(&mut self, now: Moment, seq: u64, lost: bool, effects: &mut Vec<Effect>) {
        let entry = self.entries.get_mut(&seq).expect("BUG: unknown entry");
        entry.state = State::Queued;
        entry.active = now;
        entry.requeues += u32::from(lost);
        effects.push(Effect::Requeued {
            job: entry.job.clone(),
            epoch: entry.epoch,
            requeues: entry.requeues,
        });
        self.lanes
            .get_mut(&entry.key)
            .expect("BUG: an entry without its lane")
            .push(entry.class, entry.needs, &entry.group, seq);
        self.arm(now, seq);
        self.offer(now, seq, effects);
    }

    /// Hands a job that has just become available to one waiter.
    fn offer(&mut self, now: Moment, seq: u64, effects: &mut Vec<Effect>) {
        let Some(entry) = self.entries.get(&seq) else {
            return;
        };
        let candidate = match &entry.key.place {
            Place::Runner(runner) => self.waiters.of_runner(&Member {
                owner: entry.key.owner.clone(),
                runner: runner.clone(),
            }),
            Place::Pool => self.waiters.of_owner(&entry.key.owner, entry.needs),
        };
        let Some((waiter, who, caps)) = candidate else {
            return;
        };
        if let Some(token) = self.take(now, &who, caps, effects) {
            self.waiters.served(waiter);
            effects.push(Effect::Granted { waiter, token });
        }
    }

    fn take(
        &mut self,
        now: Moment,
        who: &Member,
        caps: Option<CapSet>,
        effects: &mut Vec<Effect>,
    ) -> Option<Token> {
        let own = QueueKey::runner(who);
        while let Some(seq) = self.lanes.get(&own).and_then(|lane| lane.first(None)) {
            let needs = self.entries[&seq].needs;
            match caps.map(|caps| needs.missing_from(caps)) {
                Some(missing) if !missing.is_empty() => {
                    let job = self.entries[&seq].job.clone();
                    self.remove(seq);
                    effects.push(Effect::Mismatch {
                        job,
                        runner: who.runner.clone(),
                        missing,
                    });
                }
                _ => return Some(self.grant(now, seq, who, caps)),
            }
        }
        let pool = QueueKey::pool(&who.owner);
        let seq = self.lanes.get(&pool).and_then(|lane| lane.first(caps))?;
        Some(self.grant(now, seq, who, caps))
    }

    fn grant(&mut self, now: Moment, seq: u64, who: &Member, caps: Option<CapSet>) -> Token {
        let entry = self.entries.get_mut(&seq).expect("BUG: unknown entry");
        self.lanes
            .get_mut(&entry.key)
            .expect("BUG: an entry without its lane")
            .serve(entry.class, entry.needs, &entry.group, seq);
        entry.state = State::Leased(who.runner.clone());
        entry.epoch += 1;
        entry.active = now;
        let token = Token {
            job: entry.job.clone(),
            epoch: entry.epoch,
            runner: who.runner.clone(),
        };
        self.arm(now, seq);
        self.refresh(now, who, caps);
        token
    }

    /// Notes that a live runner with these capabilities is about, which keeps what it could run waiting.
    fn refresh(&mut self, now: Moment, who: &Member, caps: Option<CapSet>) {
        for key in [QueueKey::runner(who), QueueKey::pool(&who.owner)] {
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.asked(caps, now);
            }
        }
    }

    fn holding(&self, token: &Token) -> Option<u64> {
        let seq = *self.ids.get(&token.job)?;
        let entry = &self.entries[&seq];
        let holder = match &entry.state {
            State::Queued => return None,
            State::Leased(holder) | State::Finishing(holder) | State::Cancelled(holder) => holder,
        };
        (entry.epoch == token.epoch && *holder == token.runner).then_some(seq)
    }

    fn entry(&mut self, seq: u64) -> &mut Entry {
        self.entries.get_mut(&seq).expect("BUG: unknown entry")
    }

    fn arm(&mut self, from: Moment, seq: u64) {
        self.disarm(seq);
        let limits = self.limits;
        let entry = self.entry(seq);
        let due = match entry.state {
            State::Leased(_) => from + limits.lease_ttl,
            State::Queued | State::Cancelled(_) => from + limits.idle_timeout,
            State::Finishing(_) => return,
        };
        entry.deadline = Some(due);
        self.deadlines.insert((due, seq));
    }

    fn disarm(&mut self, seq: u64) {
        if let Some(due) = self.entry(seq).deadline.take() {
            self.deadlines.remove(&(due, seq));
        }
    }

    fn remove(&mut self, seq: u64) {
        self.disarm(seq);
        let entry = self.entries.remove(&seq).expect("BUG: unknown entry");
        self.ids.remove(&entry.job);
        if let Some(lane) = self.lanes.get_mut(&entry.key) {
            if matches!(entry.state, State::Queued) {
                lane.pull(entry.class, entry.needs, &entry.group, seq);
            }
            if lane.part(&entry.group) {
                self.lanes.remove(&entry.key);
            }
        }
    }
}
