//! Grades a case while its stores still stand, and writes its result.

use everdict_contracts::{CaseResult, ErrorCode, Fault, TraceEvent};
use everdict_graders::{GradeInput, StateQuery, StateReader};
use everdict_topology::runtime::CaseScope;
use futures_util::future::{BoxFuture, FutureExt as _};

use super::marks::Marks;
use super::patience::Patience;
use super::plan::ServicePlan;
use super::port::TopologyUse;
use super::run::Work;
use super::until;
use crate::context::CaseContext;
use crate::grading;

/// The topology's stores, as graders ask them.
struct Stores<'a> {
    topology: &'a dyn TopologyUse,
    scope: CaseScope,
}

impl StateReader for Stores<'_> {
    fn read<'a>(&'a self, query: StateQuery<'a>) -> BoxFuture<'a, Result<String, Fault>> {
        async move { self.topology.read_state(&self.scope, query).await }.boxed()
    }
}

/// Runs the graders over what the case left; what the machinery did is none of their business.
pub(crate) async fn grade(
    plan: &mut ServicePlan,
    topology: &dyn TopologyUse,
    scope: &CaseScope,
    ctx: &CaseContext,
    work: Work,
) -> Result<Work, Fault> {
    let budget = grading::budget(plan.timeout);
    // The gradebook keeps the time; the rest is for a grader that is just being stopped.
    let patience = Patience::new(&ctx.cancel, budget + grading::STOP_GRACE);
    let stores = Stores {
        topology,
        scope: until(scope, &patience),
    };
    let input = GradeInput::new(&plan.case, &work.evidence.events, &work.snapshot).with_state(&stores);
    let graded = patience
        .wait(plan.gradebook.grade_observations(input, budget))
        .await;
    graded.map_err(|stop| stop.fault("grading", ErrorCode::GraderFailed))?;
    Ok(work)
}

/// Writes the result: the agent's trace, then the marks of the machinery, then what its members say.
pub(crate) fn assemble(plan: ServicePlan, work: Work, marks: Marks, late: Vec<TraceEvent>) -> CaseResult {
    let harness = plan.harness();
    let mut result = CaseResult::new(plan.case.id.clone(), harness, work.snapshot);
    result.execution = Some(plan.manifest);
    result.trace = work.evidence.events;
    result.trace.extend(marks.into_events());
    result.trace.extend(work.notes);
    result.trace.extend(late);
    result.scores = plan.gradebook.into_scores();
    result.evidence = work.evidence.extracted;
    result.source_trace_id = work.evidence.source_trace_id;
    result.trace_t0 = Some(format!("{:.3}", work.t0));
    result
}
