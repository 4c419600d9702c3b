//! Submitting and cancelling runs.

use std::sync::Arc;

use everdict_contracts::{
    BUILT_IN_HARNESSES, CaseJob, CorrelationId, ErrorCode, Fault, HarnessSpec, JobId, Placement, Priority,
    RunRequest, RuntimeTarget, Subject, WorkspaceId, decode, required_capabilities,
};
use everdict_store::{NewRun, Outcome, RunFinish, RunRow, RunStatus, Write};
use uuid::Uuid;

use crate::live::LiveRun;
use crate::peers::News;
use crate::queue::{CapSet, Class, Owner, Parked};
use crate::shared::{Hubbed, Shared};
use crate::targets::{Route, route};
use crate::{clock, report};

/// A name of a batch is read in a list; a longer one is a mistake.
const MAX_BATCH_NAME: usize = 200;

/// A failure of the store as the caller sees it: the details are for the log.
pub(crate) fn storage(error: everdict_store::StoreError) -> Fault {
    tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
    Fault::internal("the hub could not use its database; the reason is in its log").caused_by(error)
}

/// Takes a run in and queues its job, or stores why it was refused. Returns the run as it was taken in.
///
/// Not cancel safe; run it on the hub's task tracker.
pub(crate) async fn submit(
    shared: &Hubbed,
    submitter: &Subject,
    workspace: &WorkspaceId,
    request: RunRequest,
) -> Result<RunRow, Fault> {
    let target = match request.target().map(str::trim) {
        Some(target) if !target.is_empty() => target.to_owned(),
        _ => {
            return Err(Fault::bad_request(
                "runtime: name where to run, such as `self` or `self:<runner id>`",
            ));
        }
    };
    let case_spec = json(&request.case)?;
    let (batch, batch_label) = batch_of(&request)?;
    let id = Uuid::now_v7().to_string();
    let mut job = job(shared, submitter, workspace, request).await?;
    job.run_id = Some(CorrelationId::from(format!("evd-run-{id}")));
    let needs: CapSet = required_capabilities(&job).into_iter().collect();
    let routed = routed(shared, &target, &job, needs, (submitter, workspace)).await?;
    if let Ok(route) = &routed {
        let placement = job.eval_case.placement.get_or_insert_with(Placement::default);
        placement.target = Some(route.key.to_string());
    }
    let text: Arc<str> = json(&job)?.into();
    let run = NewRun {
        id,
        workspace: workspace.to_string(),
        submitted_by: submitter.to_string(),
        harness_id: job.harness.id.clone(),
        harness_version: job.harness.version.clone(),
        case_id: job.eval_case.id.to_string(),
        runtime: target,
        priority: priority_name(job.priority).to_owned(),
        fair_group: group(&job, submitter),
        case_spec,
        job: text.to_string(),
        owner: routed.as_ref().ok().map(|route| route.key.owner.to_string()),
        runner: routed.as_ref().ok().and_then(|route| route.key.place.runner()),
        required_caps: needs.iter().map(|capability| capability.to_string()).collect(),
        note: routed.as_ref().ok().and_then(|route| route.note.clone()),
        batch,
        batch_label,
        created_at: clock::now(),
    };
    take_in(shared, run, routed, needs, &text).await
}

/// Finds the queue for a job. What is refused for want of a runner is looked at once more where another hub may have paired
/// one, or heard of it, a moment ago.
async fn routed(
    shared: &Hubbed,
    target: &str,
    job: &CaseJob,
    needs: CapSet,
    whose: (&Subject, &WorkspaceId),
) -> Result<Result<Route, Fault>, Fault> {
    let target = RuntimeTarget::parse(target);
    let first = route(&shared.roster, &target, job, needs, whose);
    if first.is_ok() || !shared.store.is_shared() {
        return Ok(first);
    }
    let (submitter, workspace) = whose;
    for owner in [
        Owner::Personal(submitter.clone()),
        Owner::Workspace(workspace.clone()),
    ] {
        let rows = shared.store.runners_of(&owner.to_string()).await;
        for row in rows.map_err(storage)? {
            shared.roster.refresh(row);
        }
    }
    Ok(route(&shared.roster, &target, job, needs, whose))
}

async fn take_in(
    shared: &Hubbed,
    run: NewRun,
    routed: Result<Route, Fault>,
    needs: CapSet,
    text: &Arc<str>,
) -> Result<RunRow, Fault> {
    let row = as_row(&run);
    let job = JobId::from(run.id.as_str());
    let class = class_of(&run.priority);
    let group = run.fair_group.clone();
    // Where several hubs lease, only followers need it, and they fetch it.
    if !shared.store.is_shared() {
        let live = LiveRun::new(run.runtime.clone(), run.created_at, run.note.clone());
        shared.live.open(&run.id, live);
    }
    let lane = run
        .owner
        .clone()
        .map(|owner| News::Work(owner, run.runner.clone().unwrap_or_default()));
    let news = shared.news(lane.as_slice());
    let stored = shared
        .store
        .write_telling(Write::InsertRun(Box::new(run)), news)
        .await;
    shared.metrics.submitted();
    if let Err(error) = stored {
        shared.live.end(&row.id, RunStatus::Failed);
        return Err(storage(error));
    }
    match routed {
        Ok(route) => {
            if !shared.store.is_shared() {
                shared.jobs.keep(&job, text);
            }
            let parked = Parked {
                job,
                key: route.key,
                class,
                group,
                needs,
                epoch: 0,
                requeues: 0,
            };
            let effects = shared.desk.enqueue(parked);
            shared.carry_out(effects);
        }
        Err(fault) => report::reject(shared, &job, fault).await.map_err(storage)?,
    }
    Ok(row)
}

async fn job(
    shared: &Hubbed,
    submitter: &Subject,
    workspace: &WorkspaceId,
    request: RunRequest,
) -> Result<CaseJob, Fault> {
    let spec = match request.harness_spec {
        Some(spec) => Some(checked(spec, &request.harness)?),
        None => registered(shared, workspace, &request.harness).await?,
    };
    let mut job = CaseJob::new(request.case, request.harness);
    job.harness_spec = spec;
    job.tenant = Some(workspace.clone());
    job.submitted_by = Some(submitter.clone());
    job.meter_usage = Some(false);
    job.priority = Some(request.priority.unwrap_or(Priority::Interactive));
    job.batch_id = request.batch_id;
    Ok(job)
}

fn checked(spec: HarnessSpec, named: &everdict_contracts::HarnessRef) -> Result<HarnessSpec, Fault> {
    if spec.id() == named.id && spec.version() == named.version {
        return Ok(spec);
    }
    Err(Fault::bad_request(format!(
        "harnessSpec: is {}@{}, but the run names {named}",
        spec.id(),
        spec.version()
    )))
}

async fn registered(
    shared: &Hubbed,
    workspace: &WorkspaceId,
    named: &everdict_contracts::HarnessRef,
) -> Result<Option<HarnessSpec>, Fault> {
    let found = shared
        .store
        .harness(workspace.as_str(), &named.id, &named.version);
    match found.await.map_err(storage)? {
        Some(row) => Ok(Some(decode(&row.spec)?)),
        None if BUILT_IN_HARNESSES.contains(&named.id.as_str()) => Ok(None),
        // No runner could do more than fail it, which would look like a verdict.
        None => Err(Fault::bad_request(format!(
            "harness: {named} is not registered in this workspace, and `{}` is no built-in harness ({}); register it \
             first, or send its spec with the run (harnessSpec)",
            named.id,
            BUILT_IN_HARNESSES.join(", ")
        ))),
    }
}

/// Stops a run: it is over at once, and its holder hears of it with the next heartbeat or report.
///
/// A run that was cancelled before stays as it is; one that is over otherwise is a conflict. Not cancel
/// safe; run it on the hub's task tracker.
pub(crate) async fn cancel(shared: &Shared, run: RunRow) -> Result<RunRow, Fault> {
    let finish = RunFinish {
        id: run.id.clone(),
        status: RunStatus::Failed,
        lease_epoch: None,
        holder: None,
        only_waiting: false,
        result: None,
        usage: None,
        error: Some((
            ErrorCode::Cancelled.as_str().to_owned(),
            format!("Run {} was stopped.", run.id),
        )),
        verdict: None,
        score: None,
        at: clock::now(),
    };
    let outcome = report::end(shared, finish).await.map_err(storage)?;
    let row = shared.store.run(&run.id).await.map_err(storage)?.unwrap_or(run);
    let job = JobId::from(row.id.as_str());
    match outcome {
        Outcome::Applied => {
            shared.desk.cancel(&job);
            shared.jobs.drop_text(&job);
            shared.live.end(&row.id, RunStatus::Failed);
            Ok(row)
        }
        Outcome::Refused if row.error.as_ref().is_some_and(|(code, _)| code == "CANCELLED") => Ok(row),
        _ => {
            let status = row.status.as_str();
            let text = format!("the run is {status} already, there is nothing to cancel");
            Err(Fault::new(ErrorCode::Conflict, text)
                .with_data("run", row.id.as_str())
                .with_data("status", status))
        }
    }
}

/// Stops every run of a batch that is not over; returns how many that were. One that ends meanwhile by itself is fine.
///
/// Not cancel safe; run it on the hub's task tracker.
pub(crate) async fn cancel_batch(shared: &Shared, workspace: &str, batch: &str) -> Result<u64, Fault> {
    let open = shared
        .store
        .open_in_batch(workspace, batch)
        .await
        .map_err(storage)?;
    let mut cancelled = 0;
    for id in open {
        let Some(run) = shared.store.run(&id).await.map_err(storage)? else {
            continue;
        };
        match cancel(shared, run).await {
            Ok(_) => cancelled += 1,
            Err(fault) if fault.code == ErrorCode::Conflict => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(cancelled)
}

/// The batch of a request and its label, neither of them empty or of unreasonable length.
fn batch_of(request: &RunRequest) -> Result<(Option<String>, Option<String>), Fault> {
    let checked = |field: &str, text: Option<&String>| match text.map(|text| text.trim()) {
        None | Some("") => Ok(None),
        Some(text) if text.len() > MAX_BATCH_NAME => Err(Fault::bad_request(format!(
            "{field}: longer than {MAX_BATCH_NAME} bytes"
        ))),
        Some(text) => Ok(Some(text.to_owned())),
    };
    let batch = checked("batchId", request.batch_id.as_ref())?;
    let label = checked("batchLabel", request.batch_label.as_ref())?;
    Ok((batch.clone(), label.filter(|_| batch.is_some())))
}

/// Jobs of one batch, or else of one submitter, take turns with the others.
fn group(job: &CaseJob, submitter: &Subject) -> String {
    match &job.batch_id {
        Some(batch) => format!("b:{batch}"),
        None => format!("u:{submitter}"),
    }
}

fn priority_name(priority: Option<Priority>) -> &'static str {
    match priority {
        Some(Priority::Interactive) => "interactive",
        Some(Priority::Batch) | None => "batch",
    }
}

/// Reads a stored priority.
pub(crate) fn class_of(priority: &str) -> Class {
    match priority {
        "interactive" => Class::Interactive,
        _ => Class::Batch,
    }
}

fn as_row(run: &NewRun) -> RunRow {
    RunRow {
        id: run.id.clone(),
        workspace: run.workspace.clone(),
        submitted_by: run.submitted_by.clone(),
        status: RunStatus::Queued,
        harness_id: run.harness_id.clone(),
        harness_version: run.harness_version.clone(),
        case_id: run.case_id.clone(),
        runtime: run.runtime.clone(),
        priority: run.priority.clone(),
        case_spec: run.case_spec.clone(),
        lease_epoch: 0,
        leased_by: None,
        requeues: 0,
        note: run.note.clone(),
        result: None,
        usage: None,
        error: None,
        created_at: run.created_at,
        updated_at: run.created_at,
        started_at: None,
        batch: run.batch.clone(),
        verdict: None,
        score: None,
    }
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value)
        .map_err(|error| Fault::internal("the job could not be written as JSON").caused_by(error))
}
