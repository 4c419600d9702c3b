//! The shapes of the embedded hub's runs: submitting files, batches, comparing two.

use serde::Serialize;

use super::JobOutcome;

/// A page of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RunsView {
    /// Newest first.
    pub runs: Vec<RunView>,
    /// What gives the next page; `null` on the last one.
    pub next_cursor: Option<String>,
}

/// One run at the embedded hub.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// Its id, which is that of its job too.
    pub id: String,
    /// The batch it was submitted in.
    pub batch: Option<String>,
    /// The case.
    pub case_id: String,
    /// `id@version`.
    pub harness: String,
    /// Where it was to run, in the submitter's words.
    pub runtime: String,
    /// How far it has come.
    pub status: RunState,
    /// What it came to; `null` until it has ended.
    pub outcome: Option<JobOutcome>,
    /// The mean of the scores that have a value; `null` where none has.
    pub score: Option<f64>,
    /// When it was submitted.
    pub submitted_at: String,
    /// When a runner first took it.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// The runner that has it or had it last, by its label where that is known here.
    pub runner: Option<String>,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Waits for a runner.
    Queued,
    /// A runner has it.
    Running,
    /// Over; the outcome says how.
    Ended,
}

/// What a file holds, before anything is submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct PreviewView {
    /// What it is.
    pub kind: FileKind,
    /// The cases that could be read, the first thousand of them.
    pub cases: Vec<PreviewCase>,
    /// What keeps it from being submitted.
    pub problems: Vec<FileProblem>,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// One case.
    Case,
    /// Several cases.
    Dataset,
    /// A harness.
    Harness,
}

/// One case of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct PreviewCase {
    /// Its id.
    pub id: String,
    /// The kind of its environment.
    pub env: String,
    /// The ids of its graders.
    pub graders: Vec<String>,
    /// `id@version` where it names a harness itself.
    pub harness: Option<String>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct FileProblem {
    /// `file:line`, or `file[index]` in an array.
    pub place: String,
    /// What is wrong there, with the path of the field.
    pub message: String,
}

/// What was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SubmittedView {
    /// The batch.
    pub batch: String,
    /// Its runs, in the order of the file.
    pub runs: Vec<String>,
}

/// Runs that were submitted together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct BatchView {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// When the first of it was submitted.
    pub submitted_at: String,
    /// How many runs.
    pub total: usize,
    /// How many of them have ended.
    pub done: usize,
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Timed out.
    pub timed_out: usize,
    /// Infra, not counted; cancelled ones too.
    pub infra: usize,
    /// Unmeasured.
    pub unmeasured: usize,
}

/// A batch with its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct BatchDetail {
    /// The batch.
    pub batch: BatchView,
    /// Its runs, in the order in which they were submitted.
    pub rows: Vec<RunView>,
}

/// Two batches side by side, by the ids of their cases.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct CompareView {
    /// Passed now and didn't before.
    pub fixed: Vec<String>,
    /// Passed before and doesn't now.
    pub broken: Vec<String>,
    /// Came to something else, and passed neither time.
    pub changed: Vec<String>,
    /// How many came to the same.
    pub same: usize,
    /// In one of the two only, or not over yet in one.
    pub missing: Vec<String>,
}

/// What a job's browser shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct FrameView {
    /// Grows with every frame of the job; those that nobody could see in time are left out.
    pub seq: u64,
    /// When it was seen here.
    pub at: String,
    /// The address of the page, where it is known.
    pub url: Option<String>,
    /// Such as `image/png`.
    pub mime: String,
    /// The picture, base64.
    pub data: String,
}
