//! What a grader is given and what it answers.

use everdict_contracts::{EnvSnapshot, EvalCase, Fault, Score, TraceEvent};
use futures_util::future::BoxFuture;

use crate::compute::Compute;
use crate::state::{StateQuery, StateReader};

/// The finished work, as every grader sees it.
#[derive(Clone, Copy)]
pub struct GradeInput<'a> {
    /// The case that was run.
    pub case: &'a EvalCase,
    /// Everything recorded so far, in order.
    pub trace: &'a [TraceEvent],
    /// The environment after the agent stopped and before any grader ran.
    pub snapshot: &'a EnvSnapshot,
    /// The stores of the case's topology, where it has one that still stands.
    pub state: Option<&'a dyn StateReader>,
}

impl<'a> GradeInput<'a> {
    /// The input of a case without stores.
    pub fn new(case: &'a EvalCase, trace: &'a [TraceEvent], snapshot: &'a EnvSnapshot) -> Self {
        Self {
            case,
            trace,
            snapshot,
            state: None,
        }
    }

    /// Lets graders ask the stores.
    #[must_use]
    pub fn with_state(mut self, stores: &'a dyn StateReader) -> Self {
        self.state = Some(stores);
        self
    }
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
    /// A store answered with a fault.
    #[error("ask the store")]
    State(#[source] Fault),
}

/// One way to judge a case.
pub trait Grader: Send + Sync {
    /// The `graderId` of its scores.
    fn grader_id(&self) -> &str;

    /// The metric it measures, named in its place when there is no measurement.
    fn metric(&self) -> &str;

    /// The phase it runs in.
    fn needs(&self) -> Needs;

    /// What it will ask a store, so that a question that no store can answer is refused before the agent runs.
    fn state_query(&self) -> Option<StateQuery<'_>> {
        None
    }

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
