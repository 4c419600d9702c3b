//! Watches the trace until it has ended.

use std::time::Duration;

use everdict_contracts::TraceCompletion;
use everdict_traces::{TraceSource, TraceState};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use super::{Drive, End, Halt, Outcome};

impl Drive<'_> {
    /// The submit is sent and not waited for; its refusal ends the run all the same.
    pub(super) async fn trace(&self, mode: &TraceCompletion) -> Result<Outcome, Halt> {
        let (source, key) = self
            .source
            .as_ref()
            .expect("BUG: a drive by trace has a trace source");
        let limit = Duration::from_millis(mode.timeout_ms);
        let end = Instant::now() + limit;
        let mut submit = std::pin::pin!(self.submit(None));
        let mut submitted: Option<Option<Value>> = None;
        let interval = Duration::from_millis(mode.interval_ms);
        let mut tick = tokio::time::interval_at(Instant::now() + interval, interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = "the trace backend was not asked yet".to_owned();
        loop {
            tokio::select! {
                biased;
                answer = &mut submit, if submitted.is_none() => submitted = Some(answer?),
                stopped = self.patience.wait(std::future::pending::<()>()) => {
                    stopped?;
                }
                () = sleep_until(end) => return self.out_of_time(limit, last, self.run_id),
                ended = async {
                    tick.tick().await;
                    probe(*source, key).await
                } => match ended {
                    Ok(()) => {
                        let response = submitted.flatten();
                        return Ok(Outcome { end: End::Done, response, correlation: self.run_id.to_owned() });
                    }
                    Err(why) => last = why,
                },
            }
        }
    }
}

/// Tells whether the trace has ended; where the backend can't say, that it is there.
async fn probe(source: &dyn TraceSource, key: &str) -> Result<(), String> {
    match source.fetch(key).await {
        Err(fault) => Err(format!("the trace backend failed: {}", fault.full_message())),
        Ok(pull) => match pull.state {
            TraceState::Ended => Ok(()),
            TraceState::Unknown if !pull.events.is_empty() => Ok(()),
            TraceState::Running => Err("the trace was still being written".to_owned()),
            TraceState::Absent | TraceState::Unknown => Err("there was no trace yet".to_owned()),
        },
    }
}
