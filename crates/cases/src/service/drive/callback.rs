//! Waits until the topology calls back.

use std::time::Duration;

use everdict_contracts::CallbackCompletion;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::poll::clipped;
use super::{Drive, End, Halt, Outcome};
use crate::service::rendezvous::Rendezvous;
use crate::service::select::meets;

impl Drive<'_> {
    /// The submit and the call back may come in any order: a front door may hold its answer until it has called.
    pub(super) async fn callback(
        &self,
        mode: &CallbackCompletion,
        mut rendezvous: Rendezvous,
    ) -> Result<Outcome, Halt> {
        let limit = Duration::from_millis(mode.timeout_ms);
        let mut submit = std::pin::pin!(self.submit(None));
        let mut submitted: Option<Option<Value>> = None;
        let mut called: Option<(End, Value)> = None;
        let mut last = "no call came".to_owned();
        // The time for the call begins when the case has been taken.
        let mut until: Option<Instant> = None;
        loop {
            if let Some(answer) = &submitted
                && let Some((end, body)) = called.take()
            {
                let correlation = self.correlate(answer.as_ref())?;
                return Ok(Outcome {
                    end,
                    response: Some(body),
                    correlation,
                });
            }
            let waits = called.is_none();
            tokio::select! {
                biased;
                answer = &mut submit, if submitted.is_none() => {
                    submitted = Some(answer?);
                    until = Some(Instant::now() + limit);
                }
                body = rendezvous.next(), if waits => match ending(mode, &body) {
                    Some(end) if !self.needs_answer() => {
                        return Ok(Outcome { end, response: Some(body), correlation: self.run_id.to_owned() });
                    }
                    Some(end) => called = Some((end, body)),
                    None => last = format!("the last call said {}", clipped(&body.to_string())),
                },
                stopped = self.patience.wait(std::future::pending::<()>()) => {
                    stopped?;
                }
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() && waits => {
                    let correlation = self.correlate(submitted.as_ref().and_then(Option::as_ref))?;
                    return self.out_of_time(limit, last, &correlation);
                }
            }
        }
    }

    fn needs_answer(&self) -> bool {
        matches!(
            self.door.spec.correlate,
            Some(everdict_contracts::FrontDoorCorrelate::Returned(_))
        )
    }
}

/// How a call ends the run, if it does; without a condition every call does.
fn ending(mode: &CallbackCompletion, body: &Value) -> Option<End> {
    if mode.failed.as_ref().is_some_and(|failed| meets(failed, body)) {
        return Some(End::Failed);
    }
    match &mode.done {
        None => Some(End::Done),
        Some(done) => meets(done, body).then_some(End::Done),
    }
}
