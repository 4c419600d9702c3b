//! What a grader is given and what it answers.

use everdict_contracts::{EnvSnapshot, EvalCase, Fault, Score, TraceEvent};
use futures_util::future::BoxFuture;

use crate::compute::Compute;

/// The finished work, as every grader sees it.
#[derive(Debug, Clone, Copy)]
pub struct GradeInput<'a> {
    /// The case that was run.
    pub case: &'a EvalCase,
    /// Everything recorded so far, in order.
    pub trace: &'a [TraceEvent],
    /// The environment after the agent stopped and before any grader ran.
    pub snapshot: &'a EnvSnapshot,
}

/// What has to be there before a grader can run; it decides the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// The sandbox: runs before the compute is released.
    Compute,
    /// Only the recorded evidence: runs after the release and after the trace is collected.
    Observation,
}

/// Why a grader has no score to give.
#[derive(Debug, thiserror::Error)]
pub enum GradeError {
    /// The grader itself failed; the work may be fine.
    #[error("{0}")]
    Failed(String),
    /// The sandbox answered with a fault.
    #[error("run the grader's command")]
    Compute(#[from] Fault),
}

/// One way to judge a case.
pub trait Grader: Send + Sync {
    /// The `graderId` of its scores.
    fn grader_id(&self) -> &str;

    /// The metric it measures, named in its place when there is no measurement.
    fn metric(&self) -> &str;

    /// The phase it runs in.
    fn needs(&self) -> Needs;

    /// Judges. Cancel safe: dropping the future stops what it started.
    ///
    /// # Errors
    /// [`GradeError`] when nothing could be measured. It becomes an `unmeasured` score, never a failed case.
    fn grade<'a>(
        &'a self,
        input: GradeInput<'a>,
        compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>>;
}
