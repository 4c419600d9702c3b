//! Runs at the embedded hub: listing them, submitting files as batches, comparing and cancelling those.

mod compare;

use everdict_contracts::{BatchRecord, HarnessRef, RunRecord, RunStatus, Verdict, judge, mean_score};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::Control;
use super::room::Room;
use super::view::{
    BatchDetail, BatchView, CompareView, FileKind, FileProblem, JobOutcome, PreviewCase, PreviewView,
    RunState, RunView, RunsView, SubmittedView,
};
use crate::dataset::{self, Contents, Defaults, FoundCase, HarnessChoice, Submission};
use crate::hub_client::HubClient;
use crate::problem::{Problem, ProblemClass, Result};
use crate::registrations::Registration;
use crate::secrets::SecretName;

/// The hub's own limit of a page.
const MAX_PAGE: usize = 200;

/// Batches that a list shows.
const MAX_BATCHES: usize = 100;

/// A file of cases beyond this is submitted by the command line.
const MAX_FILE: usize = 16 * 1024 * 1024;

/// Runs of one batch that are shown; more is no list that anybody reads.
const MAX_ROWS: usize = 10_000;

/// Harnesses of one file that the hub is asked about: a file of cases is for one or two.
const MAX_HARNESSES: usize = 20;

/// The target of what doesn't say where it is to run: any runner of this person.
const ANY_RUNNER: &str = "self";

/// A client of the embedded hub, kept for the pairing that it is for: asking the keyring each time would be slow.
pub(super) type OwnHub = tokio::sync::Mutex<Option<(Registration, HubClient)>>;

impl Room {
    /// The embedded hub with the person's key for it.
    pub(super) async fn own_hub(&self) -> Result<HubClient> {
        let known = self.registrations.list()?;
        let own = known
            .into_iter()
            .find(|known| self.is_embedded(known))
            .ok_or_else(no_own_hub)?;
        let mut kept = self.own_hub.lock().await;
        if let Some((registration, client)) = &*kept
            && *registration == own
        {
            return Ok(client.clone());
        }
        let hub = own.hub()?;
        let key: SecretString = self
            .open_store(own.store)
            .get(&SecretName::api_key(&hub))
            .await
            .map_err(Problem::from)?;
        let client = HubClient::new(hub, Some(key))?;
        *kept = Some((own, client.clone()));
        Ok(client)
    }

    fn run_view(&self, run: RunRecord, labels: &[Registration]) -> RunView {
        let over = run.status.is_final();
        let runner = run.leased_by.as_ref().map(|id| {
            let known = labels.iter().find(|known| known.runner_id.as_str() == id);
            known.map_or_else(|| id.clone(), |known| known.label.clone())
        });
        RunView {
            outcome: over.then(|| outcome(&run)),
            score: run
                .score
                .or_else(|| run.result.as_ref().and_then(mean_score))
                .filter(|score| score.is_finite()),
            id: run.id.to_string(),
            batch: run.batch_id,
            case_id: run.case_id.to_string(),
            harness: format!("{}@{}", run.harness.id, run.harness.version),
            runtime: run.runtime.unwrap_or_default(),
            status: match run.status {
                RunStatus::Queued => RunState::Queued,
                RunStatus::Running => RunState::Running,
                RunStatus::Succeeded | RunStatus::Failed => RunState::Ended,
            },
            submitted_at: run.created_at,
            started_at: run.started_at,
            ended_at: over.then_some(run.updated_at),
            runner,
        }
    }

    /// Shows runs; one that ended before the hub kept verdicts is read in full.
    async fn rows(&self, hub: &HubClient, runs: Vec<RunRecord>) -> Result<Vec<RunView>> {
        let labels = self.registrations.list()?;
        let mut rows = Vec::with_capacity(runs.len());
        for run in runs {
            let untold = run.status.is_final() && run.verdict.is_none() && run.error.is_none();
            let run = if untold { hub.run(&run.id).await? } else { run };
            rows.push(self.run_view(run, &labels));
        }
        Ok(rows)
    }

    /// Every run of a batch, in the order of submission.
    async fn batch_rows(&self, hub: &HubClient, batch: &str) -> Result<Vec<RunView>> {
        let mut rows = Vec::new();
        let mut cursor = None;
        loop {
            let page = hub.runs_page(MAX_PAGE, cursor.as_deref(), Some(batch)).await?;
            rows.extend(self.rows(hub, page.runs).await?);
            cursor = page.next_cursor;
            if cursor.is_none() || rows.len() >= MAX_ROWS {
                break;
            }
        }
        rows.reverse();
        Ok(rows)
    }
}

impl Control {
    /// Lists runs of the embedded hub, newest first; `cursor` is what the page before gave.
    ///
    /// # Errors
    /// Not paired when there is no embedded hub, else the hub's fault.
    pub async fn runs(&self, limit: usize, cursor: Option<&str>) -> Result<RunsView> {
        let hub = self.room.own_hub().await?;
        let page = hub.runs_page(limit.clamp(1, MAX_PAGE), cursor, None).await?;
        Ok(RunsView {
            runs: self.room.rows(&hub, page.runs).await?,
            next_cursor: page.next_cursor,
        })
    }

    /// Says what a file holds, and what of it could not be run; submits nothing. Without an embedded hub nobody is asked
    /// whether the harnesses that it names are registered.
    ///
    /// # Errors
    /// Input when the file is too large for a window.
    pub async fn preview_file(&self, name: &str, text: &str) -> Result<PreviewView> {
        check_size(text)?;
        let found = dataset::preview(name, text);
        let mut problems = found.problems;
        if let Ok(hub) = self.room.own_hub().await {
            problems.extend(unregistered(&hub, &found.cases).await);
        }
        let case = |case: FoundCase| PreviewCase {
            id: case.id,
            env: case.env,
            graders: case.graders,
            harness: case.harness,
        };
        let problem = |(place, message)| FileProblem { place, message };
        Ok(PreviewView {
            kind: match found.contents {
                Contents::Case => FileKind::Case,
                Contents::Dataset => FileKind::Dataset,
                Contents::Harness => FileKind::Harness,
            },
            cases: found.cases.into_iter().map(case).collect(),
            problems: problems.into_iter().map(problem).collect(),
        })
    }

    /// Submits every case of a file as one batch, or none. A file that holds a harness registers it instead, and comes
    /// back without a batch. `harness` (`id@version`) and `runtime` are for cases that name none; `label` is what people
    /// call the batch, the file's name unless given.
    ///
    /// # Errors
    /// Input that lists each bad record; not paired when there is no embedded hub; the hub's fault, after which nothing
    /// of the batch goes on.
    pub async fn submit_file(
        &self,
        file: (&str, &str),
        harness: Option<&str>,
        runtime: Option<&str>,
        label: Option<&str>,
    ) -> Result<SubmittedView> {
        let (name, text) = file;
        check_size(text)?;
        let hub = self.room.own_hub().await?;
        if dataset::preview(name, text).contents == Contents::Harness {
            return register(&hub, text).await;
        }
        let given = |text: Option<&str>| {
            text.map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let defaults = Defaults {
            harness: given(harness)
                .map(|harness| HarnessChoice::registered(&harness))
                .transpose()?,
            runtime: Some(given(runtime).unwrap_or_else(|| ANY_RUNNER.to_owned())),
        };
        let all = dataset::parse(name, text, &defaults)?;
        let batch = uuid::Uuid::now_v7().to_string();
        let label = given(label).unwrap_or_else(|| name.to_owned());
        submit(&hub, all, batch, &label).await
    }

    /// Lists the latest batches of the embedded hub.
    ///
    /// # Errors
    /// As [`Control::runs`].
    pub async fn batches(&self) -> Result<Vec<BatchView>> {
        let hub = self.room.own_hub().await?;
        let batches = hub.batches(MAX_BATCHES).await?;
        Ok(batches.into_iter().map(batch_view).collect())
    }

    /// Returns a batch with its runs.
    ///
    /// # Errors
    /// As [`Control::runs`]; input when there is no such batch.
    pub async fn batch(&self, id: &str) -> Result<BatchDetail> {
        let hub = self.room.own_hub().await?;
        let batch = hub.batch(id).await?;
        Ok(BatchDetail {
            batch: batch_view(batch),
            rows: self.room.batch_rows(&hub, id).await?,
        })
    }

    /// Compares what the cases of two batches came to.
    ///
    /// # Errors
    /// As [`Control::batch`].
    pub async fn compare(&self, base: &str, candidate: &str) -> Result<CompareView> {
        let (base, candidate) = (self.batch(base).await?, self.batch(candidate).await?);
        Ok(compare::compare(&base.rows, &candidate.rows))
    }

    /// Stops what of a batch has not ended.
    ///
    /// # Errors
    /// As [`Control::batch`].
    pub async fn cancel_batch(&self, id: &str) -> Result<()> {
        self.room.own_hub().await?.cancel_batch(id).await?;
        Ok(())
    }
}

/// The harnesses that cases name and the hub doesn't know, each at the first case that does.
async fn unregistered(hub: &HubClient, cases: &[FoundCase]) -> Vec<(String, String)> {
    let mut named: Vec<(&HarnessRef, &str)> = Vec::new();
    for case in cases {
        if let Some(harness) = &case.registered
            && !named.iter().any(|(known, _)| *known == harness)
        {
            named.push((harness, &case.place));
        }
    }
    let mut problems = Vec::new();
    for (harness, place) in named.into_iter().take(MAX_HARNESSES) {
        // What can't be asked is told by the hub with the submission.
        if let Ok(false) = hub.knows_harness(&harness.id, &harness.version).await {
            let what =
                format!("harness: {harness} is not registered on this computer's hub; add its file first");
            problems.push((place.to_owned(), what));
        }
    }
    problems
}

async fn register(hub: &HubClient, text: &str) -> Result<SubmittedView> {
    let harness: Value =
        serde_json::from_str(text).map_err(|error| Problem::input("the file is not JSON").because(error))?;
    hub.push_harness(&harness).await?;
    Ok(SubmittedView {
        batch: String::new(),
        runs: Vec::new(),
    })
}

/// All of it or nothing: whatever fails stops what went before.
async fn submit(hub: &HubClient, all: Vec<Submission>, batch: String, label: &str) -> Result<SubmittedView> {
    let several = all.len() > 1;
    let mut runs = Vec::with_capacity(all.len());
    for one in all {
        let mut body = one.body;
        body["batchId"] = json!(batch);
        body["batchLabel"] = json!(label.chars().take(100).collect::<String>());
        if several && body.get("priority").is_none() {
            // A case that somebody waits for passes a dataset by.
            body["priority"] = json!("batch");
        }
        match hub.submit(&body).await {
            Ok(run) => runs.push(run.id.to_string()),
            Err(fault) => {
                if !runs.is_empty()
                    && let Err(left) = hub.cancel_batch(&batch).await
                {
                    tracing::warn!(%left, batch, "a part of a batch that could not be submitted goes on");
                }
                return Err(Problem::from(fault));
            }
        }
    }
    Ok(SubmittedView { batch, runs })
}

fn check_size(text: &str) -> Result<()> {
    if text.len() <= MAX_FILE {
        return Ok(());
    }
    Err(
        Problem::input(format!("the file is larger than {} MiB", MAX_FILE >> 20))
            .fix("submit it with `everdict-runner submit`")
            .coded("file_too_large"),
    )
}

fn batch_view(batch: BatchRecord) -> BatchView {
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    BatchView {
        id: batch.id,
        label: batch.label,
        submitted_at: batch.submitted_at,
        total: count(batch.total),
        done: count(batch.done),
        passed: count(batch.passed),
        failed: count(batch.failed),
        timed_out: count(batch.timed_out),
        infra: count(batch.infra),
        unmeasured: count(batch.unmeasured),
    }
}

fn outcome(run: &RunRecord) -> JobOutcome {
    if run.error.as_ref().is_some_and(|error| error.code == "CANCELLED") {
        return JobOutcome::Cancelled;
    }
    match run.verdict.unwrap_or_else(|| judge(run).verdict) {
        Verdict::Pass => JobOutcome::Passed,
        Verdict::Fail => JobOutcome::Failed,
        Verdict::Timeout => JobOutcome::TimedOut,
        Verdict::Unmeasured => JobOutcome::Unmeasured,
        Verdict::Infra => JobOutcome::Infra,
    }
}

pub(super) fn no_own_hub() -> Problem {
    Problem::new(
        ProblemClass::NotPaired,
        "this computer is not paired with a hub of its own",
    )
    .fix("choose \"Use this computer\" first")
    .coded("no_own_hub")
}
