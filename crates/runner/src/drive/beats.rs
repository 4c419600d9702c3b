//! The heartbeats of one attempt, on a task of their own.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{AttemptToken, HeartbeatArgs};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::jitter;
use crate::evidence::Evidence;
use crate::runner::Core;

/// After a beat without an answer the next one comes sooner than the interval: the hub may be back, and the lease's
/// time is running.
const RETRY: Duration = Duration::from_secs(5);
/// A beat that is in flight when its attempt ends may still be answered; cutting it would cost a cancel call.
const LEAVE: Duration = Duration::from_secs(2);

/// The answer to one beat. A beat without an answer is not reported: only time decides about it.
pub(super) struct Beat {
    pub(super) sent: Instant,
    pub(super) extended: bool,
    pub(super) cancelled: bool,
}

/// What the heartbeats of one attempt need.
pub(super) struct Beats {
    pub(super) core: Arc<Core>,
    pub(super) attempt: AttemptToken,
    pub(super) ttl: Duration,
    /// Ends the beating.
    pub(super) over: CancellationToken,
    pub(super) evidence: Evidence,
    pub(super) to: mpsc::Sender<Beat>,
}

impl Beats {
    /// Beats at once and then every third of the lease's time, until the attempt is over.
    pub(super) fn start(self) {
        let tasks = self.core.tasks.clone();
        tasks.spawn(async move {
            let leave = async {
                self.over.cancelled().await;
                tokio::time::sleep(LEAVE).await;
            };
            tokio::select! {
                biased;
                () = beat_on(&self) => {}
                () = leave => {}
            }
        });
    }
}

async fn beat_on(beats: &Beats) {
    let Beats {
        core,
        attempt,
        ttl,
        over,
        evidence,
        to,
    } = beats;
    let every = core.config.heartbeat_every(*ttl);
    let mut woken = core.woken.subscribe();
    loop {
        let sent = Instant::now();
        let (status, level) = core.board.status();
        let args = HeartbeatArgs {
            job_id: Some(attempt.job_id.clone()),
            lease_epoch: Some(attempt.lease_epoch),
            capabilities: Some(core.board.offered()),
            status: Some(status),
            status_level: Some(level),
        };
        let beaten = tokio::select! {
            biased;
            beaten = core.hub.heartbeat(&args) => beaten,
            // What was sent before a sleep may wait for an answer on a dead connection.
            Ok(()) = woken.changed() => continue,
        };
        let wait = match beaten {
            Ok(reply) => {
                let beat = Beat {
                    sent,
                    // A hub that renews without saying so is not one that took the lease away.
                    extended: reply.extended.unwrap_or(reply.ok),
                    cancelled: reply.cancelled.unwrap_or(false),
                };
                if to.send(beat).await.is_err() {
                    return;
                }
                every
            }
            Err(error) => {
                tracing::debug!(job = %attempt.job_id, %error, "heartbeat without an answer");
                jitter(RETRY.min(every))
            }
        };
        tokio::select! {
            biased;
            () = over.cancelled() => return,
            () = evidence.refused() => {}
            // The lease's time went on in the sleep.
            Ok(()) = woken.changed() => {}
            () = tokio::time::sleep_until(sent + wait) => {}
        }
    }
}
