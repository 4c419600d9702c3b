//! One case on the process path, phase by phase.

mod collect;
mod container;
mod plan;
mod seed;

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{
    CaseJob, CaseResult, EnvSnapshot, EvalCase, Fault, InfraEvent, InfraScope, TraceEvent,
};
use everdict_exec::Scratch;
use everdict_graders::GradeInput;
use everdict_topology::case_container::CaseContainer;
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior};

use self::collect::Collected;
use self::plan::CasePlan;
pub(crate) use self::plan::agent_timeout;
use crate::context::CaseContext;
use crate::grading::{self, GraderCompute};
use crate::harness::{Drive, millis};
use crate::recorder::{Recorder, event_at};
use crate::sandbox::Sandbox;

/// How often the live trace is shown: each flush is one request, and a reader can't follow more.
const LIVE_TRACE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a case whose harness is a process, on this host or in a container of the case's image.
///
/// # Errors
/// See [`crate::run_leased_job`].
pub(crate) async fn run_case(job: &CaseJob, ctx: &CaseContext) -> Result<CaseResult, Fault> {
    let mut plan = CasePlan::new(job, ctx)?;
    ctx.still_wanted()?;
    say_what_is_missing(job, ctx);
    let recorder = Arc::new(Recorder::new(Arc::clone(&ctx.progress)));
    let scratch = Scratch::create(&ctx.work_root)?;
    let (container, worked) = match container::start(job, &plan, ctx).await {
        Ok(container) => {
            let sandbox = Sandbox::new(&scratch, container.as_ref(), ctx);
            let worked = work(job, &mut plan, &sandbox, &recorder).await;
            (container, worked)
        }
        Err(fault) => (None, Err(fault)),
    };
    if let Some(container) = &container {
        plan.manifest.image_provenance = Some(container.provenance().clone());
    }
    let released = release(container, scratch, ctx).await;
    recorder.flush();
    let snapshot = worked?;
    ctx.still_wanted()?;

    let mut trace = recorder.take();
    let collected = collect::collect(plan.harness.trace(), &plan.run_id, &mut trace);
    observe(&mut plan, &job.eval_case, &trace, &snapshot, &collected).await;
    ctx.still_wanted()?;
    trace.push(released);
    Ok(assemble(job, plan, trace, snapshot, collected))
}

/// Names what the job asks for, this runner does not do, and the result stands without.
fn say_what_is_missing(job: &CaseJob, ctx: &CaseContext) {
    if job.meter_usage == Some(true) {
        ctx.progress
            .log("[everdict] the job asks for metered model usage, which this runner does not meter");
    }
    let placement = job.eval_case.placement.as_ref();
    if job.eval_case.image.is_none()
        && let Some(isolation) = placement.and_then(|placement| placement.isolation.as_deref())
    {
        ctx.progress.log(&format!(
            "[everdict] the case asks for `{isolation}` isolation, which a host process has not"
        ));
    }
}

/// Everything that happens while the sandbox is there; the snapshot is what is left of it.
async fn work(
    job: &CaseJob,
    plan: &mut CasePlan,
    sandbox: &Sandbox<'_>,
    recorder: &Arc<Recorder>,
) -> Result<EnvSnapshot, Fault> {
    let case = &job.eval_case;
    let seeded = seed::seed(job, sandbox).await?;
    plan.harness.install(sandbox, plan.setup_limit).await?;
    drive(plan, case, sandbox, recorder).await?;
    let snapshot = seeded.snapshot(sandbox, recorder).await?;
    if plan.gradebook.needs_compute() {
        let events = recorder.copy();
        let input = GradeInput::new(case, &events, &snapshot);
        let compute = GraderCompute::new(sandbox, job);
        plan.gradebook
            .grade_compute(input, &compute, grading::budget(plan.timeout))
            .await;
    }
    Ok(snapshot)
}

/// Runs the agent, with the live trace beside it.
async fn drive(
    plan: &CasePlan,
    case: &EvalCase,
    sandbox: &Sandbox<'_>,
    recorder: &Arc<Recorder>,
) -> Result<(), Fault> {
    let drive = Drive {
        sandbox,
        recorder,
        task: &case.task,
        timeout: plan.timeout,
    };
    let mut run = std::pin::pin!(plan.harness.run(&drive));
    let mut live = tokio::time::interval_at(Instant::now() + LIVE_TRACE_INTERVAL, LIVE_TRACE_INTERVAL);
    live.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            ended = &mut run => {
                recorder.flush();
                return ended;
            }
            _ = live.tick() => recorder.flush(),
        }
    }
}

/// Removes the sandbox. What can't be removed is named in the log and in the mark, and changes nothing else.
async fn release(container: Option<CaseContainer>, scratch: Scratch, ctx: &CaseContext) -> TraceEvent {
    let started = Timestamp::now();
    let clock = Instant::now();
    let place = scratch.path().to_owned();
    let mut left: Vec<String> = Vec::new();
    if let Some(container) = container {
        let resisting = container.remove().await;
        left.extend(resisting.map(|debt| format!("{}: {}", debt.object, debt.why)));
    }
    let files = scratch.remove().await.err().unwrap_or_default();
    left.extend(files.iter().map(ToString::to_string));
    let took = millis(clock.elapsed());
    let message = match left.first() {
        None => format!("sandbox released in {took}ms"),
        Some(first) => format!(
            "sandbox {} not fully removed: {} left, first {first}",
            place.display(),
            left.len()
        ),
    };
    if !left.is_empty() {
        ctx.progress.log(&format!("[everdict] {message}"));
        tracing::warn!(left = left.len(), "{message}");
    }
    let event = Some("compute_released".to_owned());
    let mut mark = event_at(
        started,
        InfraEvent {
            event,
            ..InfraEvent::new(InfraScope::Placement, message)
        },
    );
    mark.duration_ms = Some(took.into());
    mark
}

/// Grades what was recorded, or says why it can't be graded.
async fn observe(
    plan: &mut CasePlan,
    case: &EvalCase,
    trace: &[TraceEvent],
    snapshot: &EnvSnapshot,
    collected: &Collected,
) {
    match collected {
        Collected::Sealed => {
            let input = GradeInput::new(case, trace, snapshot);
            plan.gradebook
                .grade_observations(input, grading::budget(plan.timeout))
                .await;
        }
        Collected::Failed { failure, .. } => {
            plan.gradebook
                .observations_missing(&format!("the trace could not be collected: {}", failure.message));
        }
        // The control plane collects the trace, and grades by it.
        Collected::Deferred { .. } => {}
    }
}

fn assemble(
    job: &CaseJob,
    plan: CasePlan,
    trace: Vec<TraceEvent>,
    snapshot: EnvSnapshot,
    collected: Collected,
) -> CaseResult {
    let mut result = CaseResult::new(job.eval_case.id.clone(), job.harness.to_string(), snapshot);
    result.execution = Some(plan.manifest);
    result.trace = trace;
    result.scores = plan.gradebook.into_scores();
    match collected {
        Collected::Sealed => result.trace_sealed = Some(true),
        Collected::Deferred { reference } => result.trace_ref = Some(reference),
        Collected::Failed { reference, failure } => {
            result.trace_ref = Some(reference);
            result.failure = Some(failure);
        }
    }
    result
}
