//! Waiting until a trace is complete: agents export it in batches, some seconds after they are done.

use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, InfraEvent, InfraScope, TraceEvent};
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::source::{TracePull, TraceSource, TraceState};

/// The `event` of the one warning in a trace that never came.
pub const TRACE_EMPTY: &str = "trace-empty";

/// How a trace is waited for.
#[derive(Debug, Clone, Copy)]
pub struct SettlePolicy {
    /// Time between two looks.
    pub interval: Duration,
    /// Rounds in which the count of events must not change.
    pub stable_rounds: u32,
    /// Failures in a row after which the backend is given up.
    pub failures: u32,
    /// Time for all of it.
    pub cap: Duration,
}

impl Default for SettlePolicy {
    fn default() -> Self {
        Self {
            // Shorter rounds would take the pause between two batches for the end.
            interval: Duration::from_secs(1),
            stable_rounds: 2,
            // A backend that restarts is back by then; a dead one must not cost each case the whole cap.
            failures: 3,
            // Exporters flush every 5 s by default, three times over.
            cap: Duration::from_secs(15),
        }
    }
}

/// Fetches a trace until its count of events stands still or the backend says that it has ended.
///
/// When time runs out, the last that came counts; a trace that never came is one warning, not an error. Cancel safe.
///
/// # Errors
/// The backend's last fault, when nothing came before it: at once when trying again can't help, else after some failures in
/// a row.
pub async fn settle(source: &dyn TraceSource, key: &str, policy: &SettlePolicy) -> Result<TracePull, Fault> {
    let end = Instant::now() + policy.cap;
    let mut best: Option<TracePull> = None;
    let mut stable = 0;
    let mut failures = 0;
    let mut last_fault = None;
    loop {
        let round = Instant::now();
        match timeout_at(end, source.fetch(key)).await {
            Err(_) => break,
            Ok(Ok(pull)) => {
                failures = 0;
                last_fault = None;
                let before = best.as_ref().map_or(0, |best| best.events.len());
                let growing = pull.events.is_empty()
                    || pull.events.len() != before
                    || pull.state == TraceState::Running;
                stable = if growing { 0 } else { stable + 1 };
                let ended = pull.state == TraceState::Ended;
                // A backend that loses sight of a trace for a moment doesn't take back what it gave.
                if !pull.events.is_empty() || best.is_none() {
                    best = Some(pull);
                }
                if ended || stable >= policy.stable_rounds {
                    break;
                }
            }
            Ok(Err(fault)) => {
                failures += 1;
                stable = 0;
                let hopeless = matches!(
                    fault.code,
                    ErrorCode::UpstreamMisconfigured | ErrorCode::BadRequest
                );
                last_fault = Some(fault);
                if hopeless || failures >= policy.failures {
                    break;
                }
            }
        }
        let next = round + policy.interval;
        if next >= end {
            break;
        }
        sleep_until(next).await;
    }
    finish(best, last_fault, source, key, policy)
}

fn finish(
    best: Option<TracePull>,
    last_fault: Option<Fault>,
    source: &dyn TraceSource,
    key: &str,
    policy: &SettlePolicy,
) -> Result<TracePull, Fault> {
    match (best, last_fault) {
        (Some(pull), _) if !pull.events.is_empty() => Ok(pull),
        (_, Some(fault)) => Err(fault),
        (Some(mut pull), None) => {
            pull.events.push(nothing_came(source, key));
            Ok(pull)
        }
        (None, None) => {
            let waited = policy.cap.as_millis();
            Err(Fault::new(
                ErrorCode::TraceCollectFailed,
                format!("the trace backend didn't answer within {waited} ms"),
            ))
        }
    }
}

fn nothing_came(source: &dyn TraceSource, key: &str) -> TraceEvent {
    let kind = format!("{:?}", source.kind()).to_lowercase();
    let message = format!("no span of trace `{key}` arrived at the {kind} backend");
    let warning = InfraEvent {
        event: Some(TRACE_EMPTY.to_owned()),
        ..InfraEvent::new(InfraScope::Service, message)
    };
    TraceEvent::new(0.0, warning).at(format!("{:.3}", Timestamp::now()))
}
