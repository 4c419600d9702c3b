//! `runs`: what the hub has run and is running.

use everdict_app::{HubClient, HubFault, Result, RunRow, Verdict};
use everdict_contracts::{RunRecord, RunStatus};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use crate::args::RunsArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Cell, Hue, age, duration};

/// A short list is filled in a moment, and the hub hardly notices.
const ASKED_AT_ONCE: usize = 4;

pub(crate) async fn run(context: &Context, args: &RunsArgs) -> Result<Exit> {
    let client = context.client(&args.access).await?;
    let runs = client.runs(args.limit).await?;
    let shown: Vec<RunRecord> = stream::iter(runs)
        .map(|run| detailed(&client, run))
        .buffered(ASKED_AT_ONCE)
        .try_collect()
        .await?;
    let document: Vec<Value> = shown.iter().map(summary).collect();
    context.out.document(&json!({"runs": document}));
    if shown.is_empty() {
        context
            .out
            .say("No runs yet. Submit one: everdict-runner submit <file>");
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<Cell>> = shown.iter().map(row).collect();
    context
        .out
        .table(&["RUN", "CASE", "HARNESS", "STATE", "TOOK", "SUBMITTED"], &rows);
    Ok(Exit::Ok)
}

/// A list leaves results out, and the verdict is in the result.
async fn detailed(client: &HubClient, run: RunRecord) -> Result<RunRecord, HubFault> {
    if run.status == RunStatus::Succeeded && run.result.is_none() {
        client.run(&run.id).await
    } else {
        Ok(run)
    }
}

/// The hue of a verdict, where colour repeats the word.
pub(crate) fn hue(verdict: Verdict) -> Hue {
    match verdict {
        Verdict::Pass => Hue::Good,
        Verdict::Fail => Hue::Bad,
        Verdict::Timeout => Hue::Warn,
        Verdict::Unmeasured => Hue::Plain,
        Verdict::Infra => Hue::Odd,
    }
}

fn row(run: &RunRecord) -> Vec<Cell> {
    let judged = RunRow::new(run, None);
    let state = if run.status.is_final() {
        Cell::new(judged.verdict.words(), hue(judged.verdict))
    } else {
        Cell::plain(run.status.as_str())
    };
    let took = judged
        .duration_ms
        .filter(|_| run.status.is_final())
        .and_then(|ms| u64::try_from(ms).ok())
        .map_or_else(
            || "–".to_owned(),
            |ms| duration(std::time::Duration::from_millis(ms)),
        );
    vec![
        Cell::plain(run.id.as_str()),
        Cell::plain(run.case_id.as_str()),
        Cell::plain(judged.harness),
        state,
        Cell::plain(took),
        Cell::plain(age(&run.created_at)),
    ]
}

fn summary(run: &RunRecord) -> Value {
    let judged = run.status.is_final().then(|| RunRow::new(run, None));
    json!({
        "runId": run.id,
        "caseId": run.case_id,
        "harness": format!("{}@{}", run.harness.id, run.harness.version),
        "status": run.status.as_str(),
        "runtime": run.runtime,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
        "result": judged,
    })
}
