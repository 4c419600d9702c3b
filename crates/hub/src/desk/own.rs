//! The desk of a hub that is alone on its database: the queue in memory, with a clock, and the calls that wait at it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Granted, Seat, Turn};
use crate::queue::{CapSet, Effect, Leased, Limits, Member, Moment, Queue, WaiterId};

#[derive(Debug)]
struct Inner {
    queue: Queue,
    seats: HashMap<WaiterId, oneshot::Sender<Granted>>,
    armed: Option<Moment>,
}

/// The queue behind a lock that is never held across an await.
#[derive(Debug)]
pub(crate) struct OwnDesk {
    origin: Instant,
    inner: Mutex<Inner>,
    sooner: Notify,
}

impl OwnDesk {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            origin: Instant::now(),
            inner: Mutex::new(Inner {
                queue: Queue::new(limits),
                seats: HashMap::new(),
                armed: None,
            }),
            sooner: Notify::new(),
        }
    }

    /// Runs a change of the queue, hands out the jobs it grants, and returns the effects that are left
    /// for the caller to carry out.
    #[must_use = "the effects have to be carried out"]
    pub(crate) fn change(&self, change: impl FnOnce(&mut Queue, Moment) -> Vec<Effect>) -> Vec<Effect> {
        let now = self.origin.elapsed();
        let mut inner = self.inner();
        let effects = change(&mut inner.queue, now);
        self.deliver(&mut inner, now, effects)
    }

    /// Asks the queue something, or changes it in a way that has no effects.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&mut Queue, Moment) -> T) -> T {
        let now = self.origin.elapsed();
        let mut inner = self.inner();
        let answer = ask(&mut inner.queue, now);
        self.rearm(&mut inner);
        answer
    }

    /// Looks for a job, and takes a seat if there is none and the caller may wait.
    pub(crate) fn lease(&self, who: &Member, caps: Option<CapSet>, wait: bool) -> (Turn, Vec<Effect>) {
        let now = self.origin.elapsed();
        let mut inner = self.inner();
        let (leased, effects) = inner.queue.lease(now, who, caps, wait);
        let turn = match leased {
            Leased::Granted(token) => Turn::Granted(token.into()),
            Leased::Nothing => Turn::Nothing,
            Leased::Waiting(waiter) => {
                let (sender, seat) = oneshot::channel();
                inner.seats.insert(waiter, sender);
                Turn::Waiting(waiter, seat)
            }
        };
        let rest = self.deliver(&mut inner, now, effects);
        (turn, rest)
    }

    /// Gives up a seat. A job that was granted to it in the meantime goes back.
    pub(crate) fn leave(&self, waiter: WaiterId, seat: &mut Seat) -> Vec<Effect> {
        let now = self.origin.elapsed();
        let mut inner = self.inner();
        inner.seats.remove(&waiter);
        if inner.queue.leave(waiter) {
            return Vec::new();
        }
        match seat.try_recv() {
            Ok(granted) => {
                let effects = inner.queue.give_back(now, &granted.token);
                self.deliver(&mut inner, now, effects)
            }
            Err(_) => Vec::new(),
        }
    }

    /// Ends every waiting call of a runner without a job.
    pub(crate) fn dismiss(&self, who: &Member) {
        let mut inner = self.inner();
        for waiter in inner.queue.dismiss(who) {
            inner.seats.remove(&waiter);
        }
    }

    /// Sleeps from deadline to deadline and hands over what is due, until told to stop.
    pub(crate) async fn keep_time(&self, stop: &CancellationToken, carry_out: impl Fn(Vec<Effect>)) {
        loop {
            let next = self.inner().queue.next_deadline();
            let due = async {
                match next {
                    Some(next) => tokio::time::sleep_until(self.origin + next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.sooner.notified() => {}
                () = due => carry_out(self.change(Queue::tick)),
            }
        }
    }

    fn deliver(&self, inner: &mut Inner, now: Moment, effects: Vec<Effect>) -> Vec<Effect> {
        let mut rest = Vec::new();
        let mut pending = effects;
        while !pending.is_empty() {
            let mut returned = Vec::new();
            for effect in pending {
                let Effect::Granted { waiter, token } = effect else {
                    rest.push(effect);
                    continue;
                };
                let refused = match inner.seats.remove(&waiter) {
                    Some(seat) => seat.send(token.into()).err().map(|granted| granted.token),
                    None => Some(token),
                };
                if let Some(token) = refused {
                    returned.extend(inner.queue.give_back(now, &token));
                }
            }
            pending = returned;
        }
        self.rearm(inner);
        rest
    }

    /// Wakes the time keeper when it would sleep too long.
    fn rearm(&self, inner: &mut Inner) {
        let next = inner.queue.next_deadline();
        if next != inner.armed {
            let sooner = match (next, inner.armed) {
                (Some(next), Some(armed)) => next < armed,
                (Some(_), None) => true,
                (None, _) => false,
            };
            inner.armed = next;
            if sooner {
                self.sooner.notify_one();
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use everdict_contracts::{JobId, RunnerId};

    use super::*;
    use crate::queue::{Class, Owner, Parked, QueueKey};

    const TTL: Duration = Duration::from_millis(50);

    fn desk() -> OwnDesk {
        OwnDesk::new(Limits {
            lease_ttl: TTL,
            idle_timeout: Duration::from_secs(300),
        })
    }

    fn member(runner: &str) -> Member {
        Member {
            owner: Owner::parse("ann"),
            runner: RunnerId::from(runner),
        }
    }

    fn park(desk: &OwnDesk, job: &str) -> Vec<Effect> {
        let parked = Parked {
            job: JobId::from(job),
            key: QueueKey::pool(&Owner::parse("ann")),
            class: Class::Batch,
            group: String::new(),
            needs: CapSet::default(),
            epoch: 0,
            requeues: 0,
        };
        desk.change(|queue, now| queue.enqueue(now, parked))
    }

    fn sit(desk: &OwnDesk, runner: &str) -> (WaiterId, Seat) {
        match desk.lease(&member(runner), None, true).0 {
            Turn::Waiting(waiter, seat) => (waiter, seat),
            other => panic!("expected a seat, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_job_goes_past_a_call_that_was_dropped_to_one_that_lives() {
        let desk = desk();
        let (_, dead) = sit(&desk, "r1");
        let (_, alive) = sit(&desk, "r2");
        drop(dead);
        assert!(
            park(&desk, "j")
                .iter()
                .any(|effect| matches!(effect, Effect::Requeued { .. }))
        );
        assert_eq!(alive.await.unwrap().token.job, JobId::from("j"));
    }

    #[tokio::test]
    async fn leaving_a_seat_that_was_just_granted_a_job_returns_it() {
        let desk = desk();
        let (waiter, mut seat) = sit(&desk, "r1");
        assert_eq!(park(&desk, "j"), []);
        assert_eq!(desk.leave(waiter, &mut seat).len(), 1);
        assert!(matches!(
            desk.lease(&member("r2"), None, false).0,
            Turn::Granted(_)
        ));
    }

    #[tokio::test]
    async fn a_lost_lease_is_handed_on_by_the_clock_alone() {
        let desk = desk();
        park(&desk, "j");
        let before = Instant::now();
        assert!(matches!(
            desk.lease(&member("r1"), None, false).0,
            Turn::Granted(_)
        ));
        let (_, seat) = sit(&desk, "r2");
        let stop = CancellationToken::new();
        tokio::select! {
            () = desk.keep_time(&stop, |_| {}) => panic!("the clock stopped"),
            granted = seat => assert_eq!(granted.unwrap().token.epoch, 2),
        }
        let waited = before.elapsed();
        assert!(waited >= TTL && waited < Duration::from_secs(10), "{waited:?}");
    }
}
