//! `steps`, `cost` and `latency`: numbers read off the trace.

use everdict_contracts::{Score, TraceEvent, TraceEventKind};
use futures_util::future::{BoxFuture, FutureExt as _, ready};

use super::measured;
use crate::compute::Compute;
use crate::grader::{GradeError, GradeInput, Grader, Needs};

/// A number that is there whenever a trace is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Observed {
    /// How many tools were called.
    Steps,
    /// What the model calls cost, in US dollars.
    Cost,
    /// From the first event to the last, in the trace's own unit (milliseconds).
    Latency,
}

impl Observed {
    fn value(self, trace: &[TraceEvent]) -> f64 {
        match self {
            Self::Steps => {
                let calls = trace
                    .iter()
                    .filter(|event| matches!(event.kind, TraceEventKind::ToolCall(_)));
                u32::try_from(calls.count()).map_or(f64::from(u32::MAX), f64::from)
            }
            // `+ 0.0`: an empty float sum is negative zero, which would show as "-0".
            Self::Cost => trace.iter().filter_map(usd).sum::<f64>() + 0.0,
            Self::Latency => match (trace.first(), trace.last()) {
                (Some(first), Some(last)) => last.t - first.t,
                _ => 0.0,
            },
        }
    }
}

fn usd(event: &TraceEvent) -> Option<f64> {
    match &event.kind {
        TraceEventKind::LlmCall(call) => call.cost.as_ref().map(|cost| cost.usd),
        _ => None,
    }
}

impl Grader for Observed {
    fn grader_id(&self) -> &str {
        match self {
            Self::Steps => "steps",
            Self::Cost => "cost",
            Self::Latency => "latency",
        }
    }

    fn metric(&self) -> &str {
        match self {
            Self::Steps => "tool_calls",
            Self::Cost => "usd",
            Self::Latency => "span",
        }
    }

    fn needs(&self) -> Needs {
        Needs::Observation
    }

    fn grade<'a>(
        &'a self,
        input: GradeInput<'a>,
        _compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        let score = measured(
            self.grader_id(),
            self.metric(),
            self.value(input.trace),
            None,
            None,
        );
        ready(Ok(vec![score])).boxed()
    }
}
