//! The lease desk: where calls wait for jobs, and where it is known whose word about a job counts.
//!
//! There are two. A hub that is alone on its database has its queue in memory ([`OwnDesk`]); hubs that share one keep it
//! there ([`SharedDesk`]). The rest of the hub does not know which it has.

mod look;
mod own;
mod shared;

use std::sync::Arc;

use everdict_contracts::JobId;
use everdict_store::{LeaseOf, SharedWrite, StoreError, Write};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub(crate) use self::own::OwnDesk;
pub(crate) use self::shared::SharedDesk;
use crate::clock;
use crate::queue::{Beat, CapSet, Effect, Member, Parked, Token, WaiterId};
use crate::shared::Hubbed;

/// A job that a caller gets.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) token: Token,
    /// The job's text where the lease is in the store already; otherwise the caller has to write it down.
    pub(crate) text: Option<Arc<str>>,
}

impl From<Token> for Granted {
    fn from(token: Token) -> Self {
        Self { token, text: None }
    }
}

/// Where a waiting call gets its job. The sender is dropped without a job when the runner is revoked, or when there is
/// none for a call that does not wait.
pub(crate) type Seat = oneshot::Receiver<Granted>;

/// Answer to a lease call.
#[derive(Debug)]
pub(crate) enum Turn {
    Granted(Granted),
    Waiting(WaiterId, Seat),
    Nothing,
}

/// One of the two desks.
#[derive(Debug)]
pub(crate) enum Desk {
    Own(Box<OwnDesk>),
    Shared(Arc<SharedDesk>),
}

impl Desk {
    /// Queues a job that is in the store.
    #[must_use = "the effects have to be carried out"]
    pub(crate) fn enqueue(&self, parked: Parked) -> Vec<Effect> {
        match self {
            Self::Own(desk) => desk.change(|queue, now| queue.enqueue(now, parked)),
            Self::Shared(desk) => {
                desk.wake(&parked.key.owner, parked.key.place.runner().as_deref());
                Vec::new()
            }
        }
    }

    /// Looks for a job, and takes a seat if there is none and the caller may wait. At a shared desk every caller takes a
    /// seat; one that may not wait is told after one look.
    pub(crate) fn lease(&self, who: &Member, caps: Option<CapSet>, wait: bool) -> (Turn, Vec<Effect>) {
        match self {
            Self::Own(desk) => desk.lease(who, caps, wait),
            Self::Shared(desk) => {
                let (waiter, seat) = desk.sit_down(who, caps, wait);
                (Turn::Waiting(waiter, seat), Vec::new())
            }
        }
    }

    /// Gives up a seat. A job that was granted to it in the meantime goes back.
    pub(crate) fn leave(&self, who: &Member, waiter: WaiterId, seat: &mut Seat) -> Vec<Effect> {
        match self {
            Self::Own(desk) => desk.leave(waiter, seat),
            Self::Shared(desk) => {
                desk.leave(who, waiter, seat);
                Vec::new()
            }
        }
    }

    /// Takes back a job whose answer never reached its runner.
    pub(crate) fn give_back(&self, who: &Member, token: &Token) -> Vec<Effect> {
        match self {
            Self::Own(desk) => desk.change(|queue, now| queue.give_back(now, token)),
            Self::Shared(desk) => {
                desk.give_back(who, token);
                Vec::new()
            }
        }
    }

    /// Ends every waiting call of a runner without a job.
    pub(crate) fn dismiss(&self, who: &Member) {
        match self {
            Self::Own(desk) => desk.dismiss(who),
            Self::Shared(desk) => desk.dismiss(who),
        }
    }

    /// Renews a lease, or says why not.
    pub(crate) async fn heartbeat(
        &self,
        who: &Member,
        token: &Token,
        caps: Option<CapSet>,
    ) -> Result<Beat, StoreError> {
        match self {
            Self::Own(desk) => Ok(desk.ask(|queue, now| queue.heartbeat(now, who, token, caps))),
            Self::Shared(desk) => desk.heartbeat(who, token, caps).await,
        }
    }

    /// Says whether the token's holder may write, and whether it should stop.
    pub(crate) async fn standing(&self, token: &Token) -> Result<Beat, StoreError> {
        match self {
            Self::Own(desk) => Ok(desk.ask(|queue, _| queue.standing(token))),
            Self::Shared(desk) => desk.standing(token).await,
        }
    }

    /// Reserves a job for the report of its holder. False when the token is not a writable lease; at a shared desk the
    /// report's own write decides that.
    pub(crate) fn begin_finish(&self, token: &Token) -> bool {
        match self {
            Self::Own(desk) => desk.ask(|queue, _| queue.begin_finish(token)),
            Self::Shared(_) => true,
        }
    }

    /// Drops a job that is over.
    pub(crate) fn finish(&self, job: &JobId) {
        if let Self::Own(desk) = self {
            desk.ask(|queue, _| queue.finish(job));
        }
    }

    /// Gives the lease back to its holder after a report that could not be written.
    pub(crate) fn resume(&self, job: &JobId) {
        if let Self::Own(desk) = self {
            desk.ask(|queue, now| queue.resume(now, job));
        }
    }

    /// Cancels a job whose run has been ended in the store.
    pub(crate) fn cancel(&self, job: &JobId) {
        if let Self::Own(desk) = self {
            desk.ask(|queue, now| queue.cancel(now, job));
        }
    }

    /// Ends what is due, until told to stop.
    pub(crate) async fn keep_time(&self, hub: &Hubbed, stop: &CancellationToken) {
        match self {
            Self::Own(desk) => desk.keep_time(stop, |effects| hub.carry_out(effects)).await,
            Self::Shared(desk) => desk.keep_time(hub, stop).await,
        }
    }
}

/// A lease as the store names it.
pub(crate) fn lease_of(token: &Token) -> LeaseOf {
    LeaseOf {
        run: token.job.to_string(),
        epoch: token.epoch,
        holder: token.runner.to_string(),
    }
}

fn returned(token: &Token) -> Write {
    Write::Shared(SharedWrite::Return {
        lease: lease_of(token),
        at: clock::now(),
    })
}
