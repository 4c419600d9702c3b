//! Runs planned graders in two phases and keeps the declared order.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everdict_contracts::{Fault, InvalidReason, InvalidScore, Score, UnmeasuredReason};
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::time::Instant;

use crate::compute::{Compute, ComputeExec, ComputeOutput};
use crate::grader::{GradeError, GradeInput, Needs};
use crate::plan::PlannedGrader;
use crate::reserved::foreign_owner;

/// What a sandbox gets to stop a command whose time is up before its grader is given up: TERM, ten seconds of grace,
/// KILL, and a sweep on a busy machine.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// The graders of one case and the scores they have given so far.
///
/// The compute phase comes first, while the sandbox is there; the observation phase after it. Scores come out in the
/// order the graders were declared, whatever the phase.
#[derive(Debug)]
pub struct Gradebook {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    planned: PlannedGrader,
    scores: Vec<Score>,
}

impl Gradebook {
    /// Takes over what [`crate::plan`] made.
    pub fn new(planned: Vec<PlannedGrader>) -> Self {
        Self {
            entries: planned
                .into_iter()
                .map(|planned| Entry {
                    planned,
                    scores: Vec::new(),
                })
                .collect(),
        }
    }

    /// Whether any grader needs the sandbox.
    pub fn needs_compute(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.planned.needs() == Needs::Compute)
    }

    /// Runs the graders that need the sandbox, one after the other; `budget` is for all of them together.
    pub async fn grade_compute(&mut self, input: GradeInput<'_>, compute: &dyn Compute, budget: Duration) {
        let deadline = Instant::now() + budget;
        for entry in self.phase(Needs::Compute) {
            entry.scores = run(&entry.planned, input, Some(compute), deadline).await;
        }
    }

    /// Runs the graders that read the recorded evidence; `budget` is for all of them together.
    pub async fn grade_observations(&mut self, input: GradeInput<'_>, budget: Duration) {
        let deadline = Instant::now() + budget;
        for entry in self.phase(Needs::Observation) {
            entry.scores = run(&entry.planned, input, None, deadline).await;
        }
    }

    /// Marks every observation grader as lacking its evidence; worth a retry, since the trace may still come.
    pub fn observations_missing(&mut self, detail: &str) {
        for entry in self.phase(Needs::Observation) {
            let score = entry
                .planned
                .unmeasured(UnmeasuredReason::MissingEvidence, true, detail.to_owned());
            entry.scores = vec![score];
        }
    }

    /// Every score, in the order of the graders. A grader that was never run has none.
    pub fn into_scores(self) -> Vec<Score> {
        self.entries.into_iter().flat_map(|entry| entry.scores).collect()
    }

    fn phase(&mut self, needs: Needs) -> impl Iterator<Item = &mut Entry> {
        self.entries
            .iter_mut()
            .filter(move |entry| entry.planned.needs() == needs)
    }
}

async fn run(
    planned: &PlannedGrader,
    input: GradeInput<'_>,
    compute: Option<&dyn Compute>,
    deadline: Instant,
) -> Vec<Score> {
    let clamped = compute.map(|inner| Clamped {
        inner,
        deadline,
        cut: AtomicBool::new(false),
    });
    let view = clamped.as_ref().map(|clamped| clamped as &dyn Compute);
    let grading = AssertUnwindSafe(planned.grader().grade(input, view)).catch_unwind();
    let outcome = tokio::time::timeout_at(deadline + STOP_GRACE, grading).await;
    let out_of_time = clamped.is_some_and(|clamped| clamped.cut.load(Ordering::Relaxed));
    let scores = match outcome {
        Err(_) => return vec![timed_out(planned)],
        _ if out_of_time => return vec![timed_out(planned)],
        Ok(Err(_panic)) => return vec![failed(planned, "the grader panicked")],
        Ok(Ok(Err(error))) => return vec![failed(planned, &chain(&error))],
        Ok(Ok(Ok(scores))) => scores,
    };
    if scores.is_empty() {
        return vec![failed(planned, "the grader gave no score")];
    }
    scores.into_iter().map(|score| checked(planned, score)).collect()
}

fn timed_out(planned: &PlannedGrader) -> Score {
    let detail = "[grader-timeout] the time for grading ran out".to_owned();
    planned.unmeasured(UnmeasuredReason::GraderTimeout, true, detail)
}

fn failed(planned: &PlannedGrader, message: &str) -> Score {
    planned.unmeasured(
        UnmeasuredReason::GraderError,
        true,
        format!("[grader-error] {message}"),
    )
}

fn chain(error: &GradeError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Lets a score through only when it keeps the contract: names present, a finite value, no foreign metric.
fn checked(planned: &PlannedGrader, score: Score) -> Score {
    let broken = match &score {
        _ if score.grader_id().is_empty() => Some("a score needs a grader id".to_owned()),
        _ if score.metric().is_empty() => Some("a score needs a metric".to_owned()),
        Score::Measured(measured) if !measured.value.is_finite() => {
            Some("the value is not a finite number".to_owned())
        }
        _ => foreign_owner(planned.spec(), score.metric())
            .map(|owner| format!("metric `{}` belongs to the `{}` grader", score.metric(), owner.0)),
    };
    match broken {
        None => score,
        Some(detail) => Score::Invalid(InvalidScore {
            grader_id: score.grader_id().to_owned(),
            metric: score.metric().to_owned(),
            reason: InvalidReason::ContractViolation,
            detail: Some(detail.into()),
            trace_events: None,
        }),
    }
}

/// A sandbox that gives no command more time than the phase has left, and remembers when that cut one short.
///
/// The difference matters: a command stopped by its own limit has failed, one stopped by the phase was not measured.
struct Clamped<'a> {
    inner: &'a dyn Compute,
    deadline: Instant,
    cut: AtomicBool,
}

impl Compute for Clamped<'_> {
    fn exec(&self, mut exec: ComputeExec) -> BoxFuture<'_, Result<ComputeOutput, Fault>> {
        async move {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let clamped = left < exec.timeout;
            if clamped && left.is_zero() {
                self.cut.store(true, Ordering::Relaxed);
                return Ok(ComputeOutput {
                    exit_code: 124,
                    timed_out: true,
                    ..ComputeOutput::default()
                });
            }
            exec.timeout = exec.timeout.min(left);
            let output = self.inner.exec(exec).await?;
            if clamped && output.timed_out {
                self.cut.store(true, Ordering::Relaxed);
            }
            Ok(output)
        }
        .boxed()
    }
}
