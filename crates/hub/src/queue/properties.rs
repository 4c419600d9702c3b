//! The queue's invariants under random sequences of calls, checked against a bookkeeper that knows only
//! what was granted and what ended.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use everdict_contracts::{Capability, JobId, RunnerId, Subject};
use proptest::prelude::*;

use super::*;

const RUNNERS: [&str; 3] = ["r1", "r2", "r3"];

#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        pinned: Option<usize>,
        docker: bool,
        urgent: bool,
        group: u8,
    },
    Lease {
        runner: usize,
        docker: bool,
        wait: bool,
    },
    Leave {
        pick: usize,
    },
    GiveBack {
        pick: usize,
    },
    Heartbeat {
        pick: usize,
    },
    Submit {
        pick: usize,
        stale: bool,
        stranger: bool,
    },
    SubmitFails {
        pick: usize,
    },
    Cancel {
        pick: usize,
    },
    Pass {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let pick = 0..64_usize;
    prop_oneof![
        4 => (proptest::option::of(0..3_usize), any::<bool>(), any::<bool>(), 0..3_u8)
            .prop_map(|(pinned, docker, urgent, group)| Step::Enqueue { pinned, docker, urgent, group }),
        6 => (0..3_usize, any::<bool>(), any::<bool>())
            .prop_map(|(runner, docker, wait)| Step::Lease { runner, docker, wait }),
        2 => pick.clone().prop_map(|pick| Step::Leave { pick }),
        1 => pick.clone().prop_map(|pick| Step::GiveBack { pick }),
        2 => pick.clone().prop_map(|pick| Step::Heartbeat { pick }),
        3 => (pick.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(pick, stale, stranger)| Step::Submit { pick, stale, stranger }),
        1 => pick.clone().prop_map(|pick| Step::SubmitFails { pick }),
        1 => pick.prop_map(|pick| Step::Cancel { pick }),
        3 => (0..120_u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

/// What an outsider can know.
#[derive(Default)]
struct Books {
    submitted: Vec<JobId>,
    epochs: HashMap<JobId, u64>,
    grants: Vec<Token>,
    waiting: HashMap<WaiterId, RunnerId>,
    left: HashSet<WaiterId>,
    finished: HashSet<JobId>,
    ended: HashSet<JobId>,
}

impl Books {
    fn grant(&mut self, token: &Token) {
        let epoch = self.epochs.entry(token.job.clone()).or_default();
        assert!(token.epoch > *epoch, "epoch went back: {token:?}");
        *epoch = token.epoch;
        assert!(
            !self.finished.contains(&token.job),
            "granted after a result: {token:?}"
        );
        assert!(
            !self.ended.contains(&token.job),
            "granted after its end: {token:?}"
        );
        self.grants.push(token.clone());
    }

    fn effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Granted { waiter, token } => {
                    assert!(!self.left.contains(&waiter), "granted to a waiter that left");
                    let runner = self.waiting.remove(&waiter).expect("granted to nobody");
                    assert_eq!(runner, token.runner);
                    self.grant(&token);
                }
                Effect::NoRunner { job } | Effect::Mismatch { job, .. } => {
                    assert!(self.ended.insert(job), "ended twice");
                }
                Effect::Requeued { .. } => {}
            }
        }
    }

    fn pick(&self, pick: usize) -> Option<Token> {
        (!self.grants.is_empty()).then(|| self.grants[pick % self.grants.len()].clone())
    }

    fn writable(&self, queue: &Queue, job: &JobId) -> usize {
        self.grants
            .iter()
            .filter(|token| token.job == *job && queue.standing(token) == Beat::Extended)
            .count()
    }
}

fn caps(docker: bool) -> Option<CapSet> {
    Some(
        [Capability::Git]
            .into_iter()
            .chain(docker.then_some(Capability::Docker))
            .collect(),
    )
}

fn member(runner: usize) -> Member {
    Member {
        owner: Owner::Personal(Subject::from("ann")),
        runner: RunnerId::from(RUNNERS[runner]),
    }
}

struct World {
    queue: Queue,
    books: Books,
    now: Moment,
}

impl World {
    #[expect(clippy::too_many_lines, reason = "one arm per step of the model")]
    fn apply(&mut self, step: Step) {
        match step {
            Step::Enqueue {
                pinned,
                docker,
                urgent,
                group,
            } => {
                self.enqueue(pinned, docker, urgent, group);
            }
            Step::Lease { runner, docker, wait } => {
                let who = member(runner);
                let (leased, effects) = self.queue.lease(self.now, &who, caps(docker), wait);
                self.books.effects(effects);
                match leased {
                    Leased::Granted(token) => self.books.grant(&token),
                    Leased::Waiting(id) => {
                        assert!(wait);
                        self.books.waiting.insert(id, who.runner);
                    }
                    Leased::Nothing => assert!(!wait),
                }
            }
            Step::Leave { pick } => {
                let mut ids: Vec<_> = self.books.waiting.keys().copied().collect();
                ids.sort_unstable();
                if !ids.is_empty() {
                    let id = ids[pick % ids.len()];
                    assert!(self.queue.leave(id));
                    self.books.waiting.remove(&id);
                    self.books.left.insert(id);
                }
            }
            Step::GiveBack { pick } => {
                if let Some(token) = self.books.pick(pick) {
                    let effects = self.queue.give_back(self.now, &token);
                    self.books.effects(effects);
                }
            }
            Step::Heartbeat { pick } => {
                if let Some(token) = self.books.pick(pick) {
                    let who = Member {
                        runner: token.runner.clone(),
                        ..member(0)
                    };
                    let writable = self.queue.standing(&token) == Beat::Extended;
                    let beat = self.queue.heartbeat(self.now, &who, &token, caps(true));
                    assert_eq!(beat == Beat::Extended, writable);
                }
            }
            Step::Submit {
                pick,
                stale,
                stranger,
            } => self.submit(pick, stale, stranger),
            Step::SubmitFails { pick } => {
                if let Some(token) = self.books.pick(pick)
                    && self.queue.begin_finish(&token)
                {
                    self.queue.resume(self.now, &token.job);
                    assert_eq!(self.queue.standing(&token), Beat::Extended);
                }
            }
            Step::Cancel { pick } => {
                if !self.books.submitted.is_empty() {
                    let job = self.books.submitted[pick % self.books.submitted.len()].clone();
                    self.queue.cancel(self.now, &job);
                    self.books.ended.insert(job.clone());
                    assert_eq!(self.books.writable(&self.queue, &job), 0);
                }
            }
            Step::Pass { seconds } => {
                self.now += Duration::from_secs(seconds);
                let effects = self.queue.tick(self.now);
                self.books.effects(effects);
            }
        }
        self.check();
    }

    fn enqueue(&mut self, pinned: Option<usize>, docker: bool, urgent: bool, group: u8) {
        let job = JobId::from(format!("j{}", self.books.submitted.len()));
        self.books.submitted.push(job.clone());
        let key = match pinned {
            Some(runner) => QueueKey::runner(&member(runner)),
            None => QueueKey::pool(&member(0).owner),
        };
        let parked = Parked {
            job,
            key,
            class: if urgent { Class::Interactive } else { Class::Batch },
            group: group.to_string(),
            needs: docker.then_some(Capability::Docker).into_iter().collect(),
            epoch: 0,
            requeues: 0,
        };
        let effects = self.queue.enqueue(self.now, parked);
        self.books.effects(effects);
    }

    fn submit(&mut self, pick: usize, stale: bool, stranger: bool) {
        let Some(mut token) = self.books.pick(pick) else {
            return;
        };
        let writable = self.queue.standing(&token) == Beat::Extended;
        if stale {
            token.epoch -= 1;
        }
        if stranger {
            token.runner = RunnerId::from("somebody-else");
        }
        let taken = self.queue.begin_finish(&token);
        assert_eq!(taken, writable && !stale && !stranger, "{token:?}");
        if taken {
            self.queue.finish(&token.job);
            assert!(self.books.finished.insert(token.job), "two results");
        }
    }

    fn check(&self) {
        for job in &self.books.submitted {
            let writable = self.books.writable(&self.queue, job);
            assert!(writable <= 1, "{job} has {writable} writable leases");
            let known = self.queue.ids.contains_key(job);
            let over = self.books.finished.contains(job) || self.books.ended.contains(job);
            assert!(known || over, "{job} is lost");
        }
        for id in self.books.waiting.keys() {
            assert!(self.queue.waiters.contains(*id), "a live waiter was forgotten");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_calls_breaks_the_queue(steps in proptest::collection::vec(step(), 1..80)) {
        let limits = Limits { lease_ttl: Duration::from_secs(45), idle_timeout: Duration::from_secs(300) };
        let mut world = World { queue: Queue::new(limits), books: Books::default(), now: Moment::ZERO };
        for step in steps {
            world.apply(step);
        }
        // With nobody calling any more, every job ends by itself.
        while !world.books.waiting.is_empty() {
            world.apply(Step::Leave { pick: 0 });
        }
        for _ in 0..3 {
            world.apply(Step::Pass { seconds: 100_000 });
        }
        prop_assert!(world.queue.ids.is_empty());
        prop_assert!(world.queue.entries.is_empty());
        prop_assert!(world.queue.lanes.is_empty());
        prop_assert!(world.queue.deadlines.is_empty());
    }
}
