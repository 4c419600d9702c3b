//! What goes into the queue and what comes out.

use std::time::Duration;

use everdict_contracts::{JobId, RunnerId};

use super::{CapSet, Class, QueueKey, WaiterId};

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
    Requeued { job: JobId, epoch: u64, requeues: u32 },
    /// Nobody who could run the job has asked for it in time; it is out of the queue.
    NoRunner { job: JobId },
    /// The pinned runner came and lacks these; the job is out of the queue.
    Mismatch {
        job: JobId,
        runner: RunnerId,
        missing: CapSet,
    },
}
