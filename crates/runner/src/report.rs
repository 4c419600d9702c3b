//! What goes to the hub at the end of an attempt, beside what the case itself produced.

mod fit;

use everdict_contracts::{
    CaseFailure, CaseJob, CaseResult, EnvSnapshot, InfraEvent, InfraScope, Score, TraceEvent,
    UnmeasuredReason,
};
use jiff::Timestamp;

use crate::board::ScoreSummary;
pub(crate) use fit::{MAX_RESULT_BYTES, fit};

/// Times above this are epoch milliseconds (September 2001 or later); below it, offsets from the lease. A trace keeps
/// to one of the two.
const EPOCH_FLOOR_MS: f64 = 1e12;

/// `id@version` of the job's harness, as results carry it.
pub(crate) fn harness_label(job: &CaseJob) -> String {
    format!("{}@{}", job.harness.id, job.harness.version)
}

/// Where this runner is, for the placement events.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) hostname: String,
}

/// When a lease began and ended, for its two placement events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) leased: Timestamp,
    pub(crate) finished: Timestamp,
}

impl Span {
    /// Whole milliseconds, as every other time on the wire.
    fn elapsed_ms(&self) -> f64 {
        epoch_ms(self.finished) - epoch_ms(self.leased)
    }
}

/// Puts the placement events around the trace: leased first, finished last.
pub(crate) fn frame(result: &mut CaseResult, place: &Place, span: Span) {
    let epoch = result.trace.iter().any(|event| event.t >= EPOCH_FLOOR_MS);
    let (start, end) = if epoch {
        let start = epoch_ms(span.leased);
        (start, start + span.elapsed_ms())
    } else {
        (0.0, span.elapsed_ms())
    };
    result.trace.insert(0, leased_event(place, span, start));
    result.trace.push(
        placement(place, end, "finished", "case finished on this runner".to_owned()).at(iso(span.finished)),
    );
}

fn leased_event(place: &Place, span: Span, t: f64) -> TraceEvent {
    let message = format!(
        "self-hosted runner picked the job: host {} ({}/{})",
        place.hostname,
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    placement(place, t, "leased", message).at(iso(span.leased))
}

fn placement(place: &Place, t: f64, event: &str, message: String) -> TraceEvent {
    TraceEvent::new(
        t,
        InfraEvent {
            event: Some(event.to_owned()),
            node: Some(place.hostname.clone()),
            ..InfraEvent::new(InfraScope::Placement, message)
        },
    )
}

/// ISO 8601 with three decimals, as JavaScript writes it: peers compare these as text.
fn iso(at: Timestamp) -> String {
    format!("{at:.3}")
}

fn epoch_ms(at: Timestamp) -> f64 {
    at.as_millisecond() as f64
}

/// The result of a case that has none: classified, unmeasured, never a zero.
pub(crate) fn failed_result(job: &CaseJob, failure: CaseFailure, place: &Place, span: Span) -> CaseResult {
    let mut result = CaseResult::new(
        job.eval_case.id.clone(),
        harness_label(job),
        EnvSnapshot::prompt(""),
    );
    result.trial = job.trial;
    result.trace = vec![
        leased_event(place, span, 0.0),
        TraceEvent::error(span.elapsed_ms().max(1.0), failure.message.clone()).at(iso(span.finished)),
    ];
    result.scores = vec![
        Score::unmeasured(
            failure.stage.as_str(),
            "error",
            UnmeasuredReason::MissingEvidence,
            failure.retryable,
        )
        .with_detail(format!("[{}] {}", failure.class.as_str(), failure.message)),
    ];
    result.failure = Some(failure);
    result
}

/// The result without what the hub's schema may have refused: the verdict stays, the trace says what is missing.
pub(crate) fn trimmed(result: &CaseResult, refusal: &str) -> CaseResult {
    let left_out = result.trace.len();
    let mut scores = result.scores.clone();
    for score in &mut scores {
        match score {
            Score::Measured(score) => score.trace_events = None,
            Score::Unmeasured(score) => score.trace_events = None,
            Score::Invalid(score) => score.trace_events = None,
        }
    }
    let t = result.trace.last().map_or(0.0, |event| event.t);
    let note = TraceEvent::error(
        if t.is_finite() { t } else { 0.0 },
        format!("the hub refused the full result; {left_out} trace events left out: {refusal}"),
    )
    .at(iso(Timestamp::now()));
    CaseResult {
        trace: vec![note],
        // A trace that is not whole must not be vouched for.
        trace_sealed: None,
        judgments_sealed: None,
        env_deltas: None,
        evidence: None,
        scores,
        ..result.clone()
    }
}

/// The last line of a job's log.
pub(crate) fn closing_line(result: &CaseResult) -> String {
    if let Some(failure) = &result.failure {
        return format!(
            "✗ Failed [{} / {}]: {}",
            failure.class.as_str(),
            failure.stage.as_str(),
            failure.message
        );
    }
    let scores = summarise(&result.scores);
    let passed = scores.iter().filter(|score| score.pass == Some(true)).count();
    let judged = scores.iter().filter(|score| score.pass.is_some()).count();
    let unmeasured = scores.iter().filter(|score| score.value.is_none()).count();
    let mut line = format!("✓ Completed: {passed} of {judged} verdicts passed");
    if unmeasured > 0 {
        line.push_str(&format!(", {unmeasured} unmeasured"));
    }
    line
}

/// The scores without their evidence.
pub(crate) fn summarise(scores: &[Score]) -> Vec<ScoreSummary> {
    scores
        .iter()
        .map(|score| {
            let (grader_id, metric, value, pass) = match score {
                Score::Measured(s) => (&s.grader_id, &s.metric, Some(s.value), s.pass),
                Score::Unmeasured(s) => (&s.grader_id, &s.metric, None, None),
                Score::Invalid(s) => (&s.grader_id, &s.metric, None, None),
            };
            ScoreSummary {
                grader_id: grader_id.clone(),
                metric: metric.clone(),
                value,
                pass,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
