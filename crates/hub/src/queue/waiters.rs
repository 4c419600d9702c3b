//! Lease calls that wait for a job.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use everdict_contracts::RunnerId;

use super::{CapSet, Member, Owner};

/// Names one waiting call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

#[derive(Debug, Default)]
struct Crowd {
    /// Runners with at least one waiter, the least recently served first.
    order: BTreeSet<(u64, RunnerId)>,
    runners: BTreeMap<RunnerId, Seat>,
}

#[derive(Debug, Default)]
struct Seat {
    served: u64,
    waiting: BTreeMap<WaiterId, Option<CapSet>>,
}

/// Every waiting call of a hub. Runners of an owner take turns at pool jobs.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    crowds: HashMap<Owner, Crowd>,
    members: HashMap<WaiterId, Member>,
    next: u64,
    served: u64,
}

impl WaiterId {
    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }
}

impl Waiters {
    pub(crate) fn join(&mut self, who: Member, caps: Option<CapSet>) -> WaiterId {
        let id = WaiterId(self.next);
        self.next += 1;
        let crowd = self.crowds.entry(who.owner.clone()).or_default();
        let seat = crowd.runners.entry(who.runner.clone()).or_default();
        if seat.waiting.is_empty() {
            crowd.order.insert((seat.served, who.runner.clone()));
        }
        seat.waiting.insert(id, caps);
        self.members.insert(id, who);
        id
    }

    /// Returns false when the waiter is unknown.
    pub(crate) fn leave(&mut self, id: WaiterId) -> bool {
        let Some(who) = self.members.remove(&id) else {
            return false;
        };
        if let Some(crowd) = self.crowds.get_mut(&who.owner)
            && let Some(seat) = crowd.runners.get_mut(&who.runner)
        {
            seat.waiting.remove(&id);
            if seat.waiting.is_empty() {
                crowd.order.remove(&(seat.served, who.runner.clone()));
            }
        }
        true
    }

    /// Removes a waiter that got a job; its runner goes to the back.
    pub(crate) fn served(&mut self, id: WaiterId) {
        let Some(who) = self.members.get(&id).cloned() else {
            return;
        };
        self.leave(id);
        self.served += 1;
        if let Some(crowd) = self.crowds.get_mut(&who.owner)
            && let Some(seat) = crowd.runners.get_mut(&who.runner)
        {
            let waits = crowd.order.remove(&(seat.served, who.runner.clone()));
            seat.served = self.served;
            if waits {
                crowd.order.insert((seat.served, who.runner));
            }
        }
    }

    /// Removes every waiter of a runner, and its turn.
    pub(crate) fn dismiss(&mut self, who: &Member) -> Vec<WaiterId> {
        let Some(crowd) = self.crowds.get_mut(&who.owner) else {
            return Vec::new();
        };
        let Some(seat) = crowd.runners.remove(&who.runner) else {
            return Vec::new();
        };
        crowd.order.remove(&(seat.served, who.runner.clone()));
        if crowd.runners.is_empty() {
            self.crowds.remove(&who.owner);
        }
        let ids: Vec<_> = seat.waiting.into_keys().collect();
        for id in &ids {
            self.members.remove(id);
        }
        ids
    }

    /// The longest-waiting call of a runner.
    pub(crate) fn of_runner(&self, who: &Member) -> Option<(WaiterId, Member, Option<CapSet>)> {
        let seat = self.crowds.get(&who.owner)?.runners.get(&who.runner)?;
        let (id, caps) = seat.waiting.first_key_value()?;
        Some((*id, who.clone(), *caps))
    }

    /// A call that can run a pool job with these needs, of the runner whose turn it is.
    pub(crate) fn of_owner(
        &self,
        owner: &Owner,
        needs: CapSet,
    ) -> Option<(WaiterId, Member, Option<CapSet>)> {
        let crowd = self.crowds.get(owner)?;
        crowd.order.iter().find_map(|(_, runner)| {
            let (id, caps) = crowd
                .runners
                .get(runner)?
                .waiting
                .iter()
                .find(|(_, caps)| caps.is_none_or(|caps| needs.missing_from(caps).is_empty()))?;
            let who = Member {
                owner: owner.clone(),
                runner: runner.clone(),
            };
            Some((*id, who, *caps))
        })
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, id: WaiterId) -> bool {
        self.members.contains_key(&id)
    }
}
