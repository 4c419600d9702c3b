//! How a job changes hands: granted, lost, taken back, given up.

use super::{CapSet, Effect, Member, Moment, Place, Queue, QueueKey, State, Token};

impl Queue {
    pub(super) fn expire(&mut self, now: Moment, seq: u64, effects: &mut Vec<Effect>) {
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

    pub(super) fn requeue(&mut self, now: Moment, seq: u64, lost: bool, effects: &mut Vec<Effect>) {
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
    pub(super) fn offer(&mut self, now: Moment, seq: u64, effects: &mut Vec<Effect>) {
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

    pub(super) fn take(
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
    pub(super) fn refresh(&mut self, now: Moment, who: &Member, caps: Option<CapSet>) {
        for key in [QueueKey::runner(who), QueueKey::pool(&who.owner)] {
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.asked(caps, now);
            }
        }
    }
}
