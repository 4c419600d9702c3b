//! Leasing over a connection that may go away at any moment.

use std::time::Duration;

use axum::body::Bytes;
use everdict_contracts::Fault;
use everdict_store::{Outcome, Write};
use tokio::time::Instant;

use crate::clock;
use crate::desk::{Granted, Seat, Turn};
use crate::dispatch::storage;
use crate::live::LiveRun;
use crate::mcp::session::Open;
use crate::mcp::wire::{ToolReply, tool_frame};
use crate::queue::{CapSet, Member, Token, WaiterId};
use crate::shared::Hubbed;

/// How long a look into a shared queue may take for a call that does not wait: what a busy database needs, and less than
/// what clients wait for any answer.
const LOOK: Duration = Duration::from_secs(10);

/// What a lease call holds. Dropping it gives back whatever that is, so a job never stays with a call
/// whose client is gone.
#[derive(Debug)]
enum Hold {
    Nothing,
    Seat(WaiterId, Seat),
    Job(Granted),
}

/// One lease call, from the queue to the last byte of its answer.
#[derive(Debug)]
pub(crate) struct LeaseCall {
    shared: Hubbed,
    who: Member,
    caps: Option<CapSet>,
    until: Instant,
    hold: Hold,
    open: Open,
}

impl LeaseCall {
    /// Takes the job that is next, or a seat if there is none and `wait` allows it.
    pub(crate) fn start(
        shared: &Hubbed,
        who: Member,
        caps: Option<CapSet>,
        wait: Duration,
        open: Open,
    ) -> Self {
        let mut call = Self {
            shared: shared.clone(),
            who,
            caps,
            until: Instant::now() + patience(shared, wait),
            hold: Hold::Nothing,
            open,
        };
        call.sit_down(!wait.is_zero());
        call
    }

    /// Says whether the answer is yet to come; otherwise [`LeaseCall::answer`] is quick.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.hold, Hold::Seat(..))
    }

    /// Waits for the answer and frames it; `None` when the client called it off.
    ///
    /// The job stays with the call until [`LeaseCall::delivered`].
    pub(crate) async fn answer(mut self, id: &str) -> Option<(Bytes, Self)> {
        let reply = match self.acquire().await {
            Ok(Some(reply)) => ToolReply::Json(reply),
            Ok(None) if self.open.stop.is_cancelled() => return None,
            Ok(None) => ToolReply::Json(match self.shared.roster.paused(&self.who.runner) {
                Some(reason) => super::tools::paused(reason),
                None => "{\"job\":null}".to_owned(),
            }),
            Err(fault) => ToolReply::Refused(super::tools::refusal(&fault)),
        };
        Some((tool_frame(id, &reply), self))
    }

    /// Declares that the answer is on its way.
    pub(crate) fn delivered(mut self) {
        if let Hold::Job(_) = self.hold {
            self.shared.metrics.leased();
        }
        self.hold = Hold::Nothing;
    }

    async fn acquire(&mut self) -> Result<Option<String>, Fault> {
        loop {
            self.wait().await;
            let Hold::Job(granted) = &self.hold else {
                return Ok(None);
            };
            // The runner may have been revoked between its credential's check and its sitting down.
            if !self.shared.roster.knows(&self.who.runner) {
                self.release();
                return Ok(None);
            }
            let token = granted.token.clone();
            if let Some(text) = &granted.text {
                return Ok(Some(reply(text, &token, self.shared.config.lease_ttl)));
            }
            match self.write_down(&token).await {
                Ok(Some(reply)) => return Ok(Some(reply)),
                Ok(None) => {
                    // Cancelled while it was handed over.
                    self.shared.desk.finish(&token.job);
                    self.hold = Hold::Nothing;
                    self.sit_down(Instant::now() < self.until);
                }
                Err(fault) => {
                    self.release();
                    return Err(fault);
                }
            }
        }
    }

    fn sit_down(&mut self, wait: bool) {
        let (turn, effects) = self.shared.desk.lease(&self.who, self.caps, wait);
        self.hold = match turn {
            Turn::Granted(granted) => Hold::Job(granted),
            Turn::Waiting(waiter, seat) => Hold::Seat(waiter, seat),
            Turn::Nothing => Hold::Nothing,
        };
        self.shared.carry_out(effects);
    }

    /// Waits in the seat, if the call has one, for a job or for a reason to stop.
    async fn wait(&mut self) {
        let Hold::Seat(_, seat) = &mut self.hold else {
            return;
        };
        let granted = tokio::select! {
            biased;
            granted = seat => granted.ok(),
            () = self.open.stop.cancelled() => None,
            () = self.shared.closing.cancelled() => None,
            () = tokio::time::sleep_until(self.until) => None,
        };
        match granted {
            Some(granted) => self.hold = Hold::Job(granted),
            None => self.release(),
        }
    }

    /// Stores the lease and composes the reply. `None` when the run is over.
    async fn write_down(&self, token: &Token) -> Result<Option<String>, Fault> {
        let shared = &self.shared;
        let at = clock::now();
        let lease = Write::LeaseRun {
            id: token.job.to_string(),
            epoch: token.epoch,
            runner: token.runner.to_string(),
            at,
        };
        let (outcome, job) = tokio::join!(
            shared.store.write(lease),
            shared.jobs.take(&shared.store, &token.job)
        );
        let (Outcome::Applied, Some(job)) = (outcome.map_err(storage)?, job.map_err(storage)?) else {
            return Ok(None);
        };
        if let Some(live) = self.live(token).await? {
            live.started(at);
        }
        Ok(Some(reply(&job, token, shared.config.lease_ttl)))
    }

    async fn live(&self, token: &Token) -> Result<Option<std::sync::Arc<LiveRun>>, Fault> {
        let shared = &self.shared;
        shared
            .live
            .find(&shared.store, token.job.as_str())
            .await
            .map_err(storage)
    }

    fn release(&mut self) {
        let effects = match std::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Nothing => return,
            Hold::Seat(waiter, mut seat) => self.shared.desk.leave(&self.who, waiter, &mut seat),
            Hold::Job(Granted { token, .. }) => {
                tracing::debug!(job = %token.job, "a job goes back: its answer could not be delivered");
                self.shared.metrics.given_back();
                self.shared.desk.give_back(&self.who, &token)
            }
        };
        self.shared.carry_out(effects);
    }
}

impl Drop for LeaseCall {
    fn drop(&mut self) {
        self.release();
    }
}

/// How long a call may take: as long as its caller waits, or one look where that takes time.
fn patience(shared: &Hubbed, wait: Duration) -> Duration {
    if wait.is_zero() && shared.store.is_shared() {
        LOOK
    } else {
        wait
    }
}

/// Composes the reply around the stored job text, which is the JSON of an object.
fn reply(job: &str, token: &Token, ttl: Duration) -> String {
    let id = serde_json::Value::from(token.job.as_str());
    let run = serde_json::Value::from(format!("evd-run-{}#g{}", token.job, token.epoch));
    let epoch = token.epoch;
    let job = job.strip_suffix('}').unwrap_or(job);
    format!(
        "{{\"jobId\":{id},\"job\":{job},\"recordingGeneration\":{epoch},\"attemptId\":{run}}},\
         \"attempt\":{{\"jobId\":{id},\"leaseEpoch\":{epoch}}},\"leaseTtlMs\":{}}}",
        ttl.as_millis()
    )
}

#[cfg(test)]
mod tests {
    use everdict_contracts::{JobId, LeaseReply, RunnerId, decode};

    use super::*;

    #[test]
    fn the_reply_reads_back_as_a_lease() {
        let job = r#"{"evalCase":{"id":"c","env":{"kind":"prompt"},"task":"t"},"harness":{"id":"h","version":"1"}}"#;
        let token = Token {
            job: JobId::from("j"),
            epoch: 3,
            runner: RunnerId::from("r"),
        };
        let text = reply(job, &token, Duration::from_secs(45));
        let LeaseReply::Leased(lease) = decode(&text).unwrap() else {
            panic!("not a lease: {text}");
        };
        assert_eq!(lease.ttl_ms(), 45_000);
        let job = lease.case_job().unwrap();
        assert_eq!(job.recording_generation, Some(3));
        assert_eq!(job.attempt_id.as_deref(), Some("evd-run-j#g3"));
        assert_eq!(lease.attempt.unwrap().lease_epoch, 3);
    }
}
