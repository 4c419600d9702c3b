//! How a run ends: a result from its holder, a failure from its holder, or a refusal by the hub.

use everdict_contracts::{
    Attestation, CaseProvenance, CaseResult, EnvSnapshot, ErrorCode, FailurePlacement, FailureStage, Fault,
    InfraEvent, InfraScope, JobId, RunUsage, Score, TraceEvent, TraceEventKind, UnmeasuredReason,
    judge_result, mean_score,
};
use everdict_store::{Millis, Outcome, RunFinish, RunStatus, StoreError, Write};

use crate::clock;
use crate::metrics::Report;
use crate::peers::News;
use crate::queue::{Member, Token};
use crate::shared::Shared;

/// What the hub knows about the way of a run to its runner.
struct Way {
    runtime: String,
    created_at: Millis,
    started_at: Option<Millis>,
    note: Option<String>,
}

impl Way {
    async fn of(shared: &Shared, job: &JobId) -> Result<Self, StoreError> {
        // Where several hubs lease, only the database knows the whole way.
        let live = shared
            .live
            .get(job.as_str())
            .filter(|_| !shared.store.is_shared());
        if let Some(live) = live {
            return Ok(Self {
                runtime: live.runtime.clone(),
                created_at: live.created_at,
                started_at: live.started_at(),
                note: live.note.clone(),
            });
        }
        if let Some(row) = shared.store.run(job.as_str()).await? {
            return Ok(Self {
                runtime: row.runtime,
                created_at: row.created_at,
                started_at: row.started_at,
                note: row.note,
            });
        }
        let now = clock::now();
        Ok(Self {
            runtime: String::new(),
            created_at: now,
            started_at: None,
            note: None,
        })
    }

    /// How long the run waited, and how long it took after that.
    fn times(&self, ended: Millis) -> (Millis, Millis) {
        let started = self.started_at.unwrap_or(self.created_at);
        (started - self.created_at, ended - started)
    }

    fn steps(&self) -> Vec<(&'static str, String, Millis)> {
        let mut steps = vec![(
            "accepted",
            format!("case accepted by the hub, target {}", self.runtime),
            self.created_at,
        )];
        if let Some(note) = &self.note {
            steps.push(("waiting", note.clone(), self.created_at));
        }
        if let Some(started) = self.started_at {
            let waited = started - self.created_at;
            steps.push(("started", format!("left the queue after {waited} ms"), started));
        }
        steps
    }

    fn events(&self) -> Vec<TraceEvent> {
        self.steps()
            .into_iter()
            .map(|(event, message, at)| {
                let t = (at - self.created_at) as f64;
                TraceEvent::placement(t, event, message).at(clock::iso(at))
            })
            .collect()
    }
}

/// Takes the result of the holder of a lease. Returns false when the lease is not current any more.
///
/// Not cancel safe; run it on the hub's task tracker.
pub(crate) async fn accept(
    shared: &Shared,
    who: &Member,
    token: &Token,
    mut result: CaseResult,
) -> Result<bool, Fault> {
    if !shared.desk.begin_finish(token) {
        shared.metrics.reported(Report::Refused);
        return Ok(false);
    }
    let finished = async {
        let way = Way::of(shared, &token.job).await?;
        result.trace.splice(0..0, way.events());
        result.provenance = Some(CaseProvenance {
            ran_on: "self-hosted".to_owned(),
            runner: Some(who.runner.to_string()),
            by: Some(who.owner.to_string()),
            attestation: Some(Attestation::SelfReported),
            billed_models: None,
        });
        let finish = RunFinish {
            id: token.job.to_string(),
            status: RunStatus::Succeeded,
            lease_epoch: Some(token.epoch),
            holder: Some(who.runner.to_string()),
            only_waiting: false,
            usage: text(&usage(&result)),
            verdict: Some(judge_result(&result).verdict.as_str().to_owned()),
            score: mean_score(&result).map(|score| score.to_string()),
            result: text(&result),
            error: None,
            at: clock::now(),
        };
        let (waited, ran) = way.times(finish.at);
        let outcome = end(shared, finish).await?;
        if outcome == Outcome::Applied {
            shared.metrics.timed(waited, ran);
        }
        Ok(outcome)
    };
    conclude(shared, token, RunStatus::Succeeded, finished.await)
}

/// Takes the word of the holder of a lease that the job cannot be done.
///
/// Not cancel safe; run it on the hub's task tracker.
pub(crate) async fn give_up(
    shared: &Shared,
    who: &Member,
    token: &Token,
    message: String,
) -> Result<bool, Fault> {
    if !shared.desk.begin_finish(token) {
        shared.metrics.reported(Report::Refused);
        return Ok(false);
    }
    let mut fault = Fault::new(ErrorCode::UpstreamError, message)
        .with_data("runnerId", who.runner.as_str())
        .with_data("jobId", token.job.as_str());
    fault.extra.runner_id = Some(who.runner.to_string());
    let lease = Some((token.epoch, who.runner.to_string()));
    let failed = fail(shared, &token.job, lease, fault).await;
    conclude(shared, token, RunStatus::Failed, failed)
}

fn conclude(
    shared: &Shared,
    token: &Token,
    status: RunStatus,
    written: Result<Outcome, StoreError>,
) -> Result<bool, Fault> {
    match written {
        Ok(outcome) => {
            shared.desk.finish(&token.job);
            shared.metrics.reported(match (outcome, status) {
                (Outcome::Applied, RunStatus::Succeeded) => Report::Accepted,
                (Outcome::Applied, _) => Report::GivenUp,
                _ => Report::Refused,
            });
            if outcome == Outcome::Applied {
                shared.live.end(token.job.as_str(), status);
            }
            Ok(outcome == Outcome::Applied)
        }
        Err(error) => {
            // The holder keeps its lease, so that it can send the report again.
            shared.desk.resume(&token.job);
            Err(crate::dispatch::storage(error))
        }
    }
}

/// Ends a run that never got to a runner, or that its runner cannot take.
pub(crate) async fn reject(shared: &Shared, job: &JobId, fault: Fault) -> Result<(), StoreError> {
    shared.jobs.drop_text(job);
    if fail(shared, job, None, fault).await? == Outcome::Applied {
        shared.live.end(job.as_str(), RunStatus::Failed);
    }
    Ok(())
}

async fn fail(
    shared: &Shared,
    job: &JobId,
    lease: Option<(u64, String)>,
    fault: Fault,
) -> Result<Outcome, StoreError> {
    let Some(row) = shared.store.run(job.as_str()).await? else {
        return Ok(Outcome::Refused);
    };
    let way = Way::of(shared, job).await?;
    let harness = format!("{}@{}", row.harness_id, row.harness_version);
    let result = failed_result(row.case_id.into(), harness, &way, &fault);
    let finish = RunFinish {
        id: row.id,
        status: RunStatus::Failed,
        // Without a lease it is the hub that ends it, while another may just be handing it out.
        only_waiting: lease.is_none() && shared.store.is_shared(),
        lease_epoch: lease.as_ref().map(|(epoch, _)| *epoch),
        holder: lease.map(|(_, holder)| holder),
        usage: text(&RunUsage::default()),
        verdict: Some(judge_result(&result).verdict.as_str().to_owned()),
        score: None,
        result: text(&result),
        error: Some((fault.code.as_str().to_owned(), fault.message)),
        at: clock::now(),
    };
    end(shared, finish).await
}

/// Stores the end of a run and tells other hubs.
pub(crate) async fn end(shared: &Shared, finish: RunFinish) -> Result<Outcome, StoreError> {
    let over = News::Over(finish.id.clone(), finish.status.as_str().to_owned());
    let news = shared.news(&[over]);
    let finish = Write::FinishRun(Box::new(finish));
    shared.store.write_telling(finish, news).await
}

fn failed_result(
    case_id: everdict_contracts::CaseId,
    harness: String,
    way: &Way,
    fault: &Fault,
) -> CaseResult {
    let mut result = CaseResult::new(case_id, harness, EnvSnapshot::prompt(""));
    let steps = way.steps();
    let mut failure = fault.clone().at_stage(FailureStage::Dispatch).failure();
    failure.placement = Some(FailurePlacement {
        events: Some(steps.iter().map(|(_, message, _)| message.clone()).collect()),
        ..FailurePlacement::default()
    });
    result.trace = steps
        .into_iter()
        .zip(0_u32..)
        .map(|((_, message, _), t)| {
            TraceEvent::new(f64::from(t), InfraEvent::new(InfraScope::Placement, message))
        })
        .collect();
    let end = result.trace.len() as f64;
    result.trace.push(TraceEvent::error(end, fault.message.clone()));
    let detail = format!("[{}] {}", failure.class.as_str(), fault.message);
    let score = Score::unmeasured(
        "dispatch",
        "error",
        UnmeasuredReason::MissingEvidence,
        failure.retryable,
    );
    result.scores = vec![score.with_detail(detail)];
    result.failure = Some(failure);
    result
}

fn usage(result: &CaseResult) -> RunUsage {
    let mut usage = RunUsage::default();
    for event in &result.trace {
        if let TraceEventKind::LlmCall(call) = &event.kind {
            usage.calls += 1;
            if let Some(cost) = &call.cost {
                usage.prompt_tokens += cost.input_tokens;
                usage.completion_tokens += cost.output_tokens;
                usage.usd += cost.usd;
            }
        }
    }
    usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
    usage
}

fn text<T: serde::Serialize>(value: &T) -> Option<String> {
    // Everything here came off the wire or was made by the hub, so it has a JSON form.
    serde_json::to_string(value).ok()
}
