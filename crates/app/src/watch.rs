//! Following a run to its verdict.

use std::time::Duration;

use everdict_contracts::{CaseProvenance, RunId, RunRecord, Score};
use jiff::Timestamp;
use serde::Serialize;

use crate::hub_client::{HubClient, HubFault, LogEvent};
use everdict_contracts::{Verdict, judge};

/// The record may lag behind the last line of the log by a moment.
const RECORD_POLL: Duration = Duration::from_millis(100);

/// A finished run in one row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// The case.
    pub case_id: String,
    /// The run at the hub.
    pub run_id: String,
    /// `id@version` of the harness.
    pub harness: String,
    /// What it came to.
    pub verdict: Verdict,
    /// Why, where it isn't plain from the scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the dataset's author wants, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Verdict>,
    /// From submission to the end, in milliseconds of the hub's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Every score, as the hub keeps it.
    pub scores: Vec<Score>,
    /// Where it ran, in the hub's words; `null` when it never ran.
    pub provenance: Option<CaseProvenance>,
}

impl RunRow {
    /// Judges a finished run.
    #[must_use]
    pub fn new(run: &RunRecord, expected: Option<Verdict>) -> Self {
        let judged = judge(run);
        let result = run.result.as_ref();
        Self {
            case_id: run.case_id.to_string(),
            run_id: run.id.to_string(),
            harness: format!("{}@{}", run.harness.id, run.harness.version),
            verdict: judged.verdict,
            reason: judged.reason,
            expected,
            duration_ms: between(&run.created_at, &run.updated_at),
            scores: result.map(|result| result.scores.clone()).unwrap_or_default(),
            provenance: result.and_then(|result| result.provenance.clone()),
        }
    }

    /// Tells whether it is as wanted: as expected where that is said, else a pass.
    #[must_use]
    pub fn is_as_wanted(&self) -> bool {
        self.verdict == self.expected.unwrap_or(Verdict::Pass)
    }
}

/// Follows the log of `run` until it ends, hands each event to `on_event`, and returns the final record.
///
/// # Errors
/// Any [`HubFault`].
pub async fn follow_to_end(
    client: &HubClient,
    run: &RunId,
    mut on_event: impl FnMut(LogEvent),
) -> Result<RunRecord, HubFault> {
    let mut follow = client.follow(run);
    while let Some(event) = follow.next().await? {
        on_event(event);
    }
    loop {
        let record = client.run(run).await?;
        if record.status.is_final() {
            return Ok(record);
        }
        tokio::time::sleep(RECORD_POLL).await;
    }
}

fn between(from: &str, to: &str) -> Option<i64> {
    let from: Timestamp = from.parse().ok()?;
    let to: Timestamp = to.parse().ok()?;
    i64::try_from(to.duration_since(from).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_both_ends() {
        assert_eq!(
            between("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.250Z"),
            Some(1250)
        );
        assert_eq!(between("soon", "2026-01-01T00:00:01Z"), None);
    }
}
