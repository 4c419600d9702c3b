//! From the case's grader list to graders that are ready to run.

use std::collections::BTreeSet;

use everdict_contracts::{EvalCase, Fault, GraderSpec, Score, UnmeasuredReason};

use crate::builtin;
use crate::config::Config;
use crate::grader::{Grader, Needs};
use crate::state::StateQuery;

/// A grader with its config checked and its patterns compiled.
pub struct PlannedGrader {
    spec: GraderSpec,
    grader: Box<dyn Grader>,
}

impl PlannedGrader {
    /// The declaration it was planned from, with its authority, direction and metric declarations.
    pub fn spec(&self) -> &GraderSpec {
        &self.spec
    }

    /// The phase it runs in.
    pub fn needs(&self) -> Needs {
        self.grader.needs()
    }

    /// What it will ask a store.
    pub fn state_query(&self) -> Option<StateQuery<'_>> {
        self.grader.state_query()
    }

    pub(crate) fn grader(&self) -> &dyn Grader {
        self.grader.as_ref()
    }

    /// The score that says there is no measurement.
    pub(crate) fn unmeasured(&self, reason: UnmeasuredReason, retryable: bool, detail: String) -> Score {
        Score::unmeasured(self.grader.grader_id(), self.grader.metric(), reason, retryable)
            .with_detail(detail)
    }
}

impl std::fmt::Debug for PlannedGrader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlannedGrader")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

/// Plans every grader of a case, in order.
///
/// # Errors
/// `BAD_REQUEST` naming the JSON path of the first unknown id, bad config value, unusable pattern or metric
/// declaration without a name. Run it before the agent: nothing has been spent then.
pub fn plan(case: &EvalCase) -> Result<Vec<PlannedGrader>, Fault> {
    case.graders
        .iter()
        .enumerate()
        .map(|(position, spec)| {
            check_declared_metrics(position, spec)?;
            let config = Config::new(position, spec.config.as_ref());
            let grader = builtin::build(spec, &config, case)?.ok_or_else(|| unknown(position, spec))?;
            Ok(PlannedGrader {
                spec: spec.clone(),
                grader,
            })
        })
        .collect()
}

fn unknown(position: usize, spec: &GraderSpec) -> Fault {
    Fault::bad_request(format!(
        "evalCase.graders[{position}].id: no grader is named `{}`; known are {}",
        spec.id,
        builtin::KNOWN_IDS.join(", ")
    ))
}

fn check_declared_metrics(position: usize, spec: &GraderSpec) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for (index, metric) in spec.metrics.iter().flatten().enumerate() {
        let problem = match metric.id.as_str() {
            "" => "must not be empty".to_owned(),
            id if !seen.insert(id) => format!("`{id}` is declared twice"),
            _ => continue,
        };
        let message = format!("evalCase.graders[{position}].metrics[{index}].id: {problem}");
        return Err(Fault::bad_request(message));
    }
    Ok(())
}
