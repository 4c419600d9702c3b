//! One queue: jobs in fair order, found without walking past those a runner cannot run.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{CapSet, Class, Moment};

/// Name of a fairness group.
pub(crate) type Group = Arc<str>;

/// Position of a group: when it was last served (zero: never), then its oldest job.
type Turn = (u64, u64, Group);

#[derive(Debug, Default)]
struct Bucket {
    waiting: HashMap<Group, BTreeSet<u64>>,
    turns: BTreeSet<Turn>,
}

#[derive(Debug, Default)]
struct Share {
    served: u64,
    jobs: usize,
}

/// Jobs of one queue. Waiting jobs are kept by class and required capabilities; there are few such
/// combinations, so that finding the next job for a runner does not depend on how many jobs wait.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    buckets: BTreeMap<(Class, CapSet), Bucket>,
    shares: HashMap<Group, Share>,
    served: u64,
    asked: Vec<(Option<CapSet>, Moment)>,
}

impl Lane {
    /// Counts a job in, whether it waits or not.
    pub(crate) fn join(&mut self, group: &Group) {
        self.shares.entry(group.clone()).or_default().jobs += 1;
    }

    /// Counts a job out. Returns whether the lane is empty now.
    pub(crate) fn part(&mut self, group: &Group) -> bool {
        if let Some(share) = self.shares.get_mut(group) {
            share.jobs -= 1;
            if share.jobs == 0 {
                self.shares.remove(group);
            }
        }
        self.shares.is_empty()
    }

    /// Makes a job wait; its place in the group is given by `seq`.
    pub(crate) fn push(&mut self, class: Class, needs: CapSet, group: &Group, seq: u64) {
        let served = self.shares.get(group).map_or(0, |share| share.served);
        let bucket = self.buckets.entry((class, needs)).or_default();
        let waiting = bucket.waiting.entry(group.clone()).or_default();
        let head = waiting.first().copied();
        waiting.insert(seq);
        if head.is_none_or(|head| seq < head) {
            if let Some(head) = head {
                bucket.turns.remove(&(served, head, group.clone()));
            }
            bucket.turns.insert((served, seq, group.clone()));
        }
    }

    /// Takes a job out of the waiting ones.
    pub(crate) fn pull(&mut self, class: Class, needs: CapSet, group: &Group, seq: u64) {
        let served = self.shares.get(group).map_or(0, |share| share.served);
        let Entry::Occupied(mut slot) = self.buckets.entry((class, needs)) else {
            return;
        };
        let bucket = slot.get_mut();
        let Some(waiting) = bucket.waiting.get_mut(group) else {
            return;
        };
        let head = waiting.first().copied();
        waiting.remove(&seq);
        if head == Some(seq) {
            bucket.turns.remove(&(served, seq, group.clone()));
            match waiting.first() {
                Some(next) => {
                    bucket.turns.insert((served, *next, group.clone()));
                }
                None => {
                    bucket.waiting.remove(group);
                }
            }
        }
        if bucket.waiting.is_empty() {
            slot.remove();
        }
    }

    /// Takes a job out because it is handed over: its group goes to the back.
    pub(crate) fn serve(&mut self, class: Class, needs: CapSet, group: &Group, seq: u64) {
        self.pull(class, needs, group, seq);
        self.served += 1;
        let now = self.served;
        let Some(share) = self.shares.get_mut(group) else {
            return;
        };
        let before = std::mem::replace(&mut share.served, now);
        for bucket in self.buckets.values_mut() {
            if let Some(head) = bucket.waiting.get(group).and_then(BTreeSet::first) {
                bucket.turns.remove(&(before, *head, group.clone()));
                bucket.turns.insert((now, *head, group.clone()));
            }
        }
    }

    /// Names the job whose turn it is among those that `caps` can run; `None` takes any.
    pub(crate) fn first(&self, caps: Option<CapSet>) -> Option<u64> {
        let mut best: Option<(Class, &Turn)> = None;
        for ((class, needs), bucket) in &self.buckets {
            if caps.is_some_and(|caps| !needs.missing_from(caps).is_empty()) {
                continue;
            }
            let Some(turn) = bucket.turns.first() else {
                continue;
            };
            if best.is_none_or(|best| (*class, turn) < best) {
                best = Some((*class, turn));
            }
        }
        best.map(|(_, (_, seq, _))| *seq)
    }

    /// Notes that a live runner with these capabilities asked.
    pub(crate) fn asked(&mut self, caps: Option<CapSet>, now: Moment) {
        match self.asked.iter_mut().find(|(known, _)| *known == caps) {
            Some((_, at)) => *at = now,
            None => self.asked.push((caps, now)),
        }
    }

    /// Says when a runner that could run a job with these needs last asked.
    pub(crate) fn last_asked(&self, needs: CapSet) -> Option<Moment> {
        self.asked
            .iter()
            .filter(|(caps, _)| caps.is_none_or(|caps| needs.missing_from(caps).is_empty()))
            .map(|(_, at)| *at)
            .max()
    }
}
