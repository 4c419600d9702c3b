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
mod hand_over;
mod key;
mod lane;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod types;
mod waiters;

use std::collections::{BTreeSet, HashMap};

pub(crate) use caps::CapSet;
use everdict_contracts::{JobId, RunnerId};
pub(crate) use key::{Class, Member, Owner, Place, QueueKey};
use lane::{Group, Lane};
pub(crate) use types::{Beat, Effect, Leased, Limits, Moment, Parked, Standing, Token};
pub(crate) use waiters::WaiterId;
use waiters::Waiters;

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
