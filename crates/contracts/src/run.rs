//! Runs: what is submitted to a hub and what it keeps.

use serde::{Deserialize, Serialize};

use crate::case::EvalCase;
use crate::decode::fields::{num, opt, opt_count, positive};
use crate::harness::HarnessSpec;
use crate::ids::{CaseId, RunId, Subject, WorkspaceId};
use crate::job::{HarnessRef, Priority};
use crate::result::{CaseResult, TraceRef};
use crate::verdict::Verdict;

/// Body of `POST /runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    pub harness: HarnessRef,
    /// A harness that isn't registered, in full.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub harness_spec: Option<HarnessSpec>,
    pub case: EvalCase,
    /// Where to run; stands above the case's own `placement.target`.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    /// What people call the batch; an addition of this project's hub.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub batch_label: Option<String>,
}

impl RunRequest {
    /// Returns the runtime that is asked for, by the request or by its case.
    pub fn target(&self) -> Option<&str> {
        self.runtime
            .as_deref()
            .or_else(|| self.case.placement.as_ref()?.target.as_deref())
    }
}

/// One run as a hub keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    pub id: RunId,
    pub tenant: WorkspaceId,
    pub harness: HarnessRef,
    pub case_id: CaseId,
    pub status: RunStatus,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Subject>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub case_spec: Option<EvalCase>,
    /// `eval` for what this crate knows.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub class: Option<Priority>,
    /// `task` for what this crate knows.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub origin: Option<RunOrigin>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub placement: Option<RunPlacement>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub attach: Option<Vec<String>>,
    /// ISO 8601, as is [`Self::updated_at`].
    pub created_at: String,
    pub updated_at: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub result: Option<CaseResult>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub usage: Option<RunUsage>,
    /// Why the run failed, when the dispatch itself did; a failed case is a result.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub live_trace: Option<TraceRef>,
    /// When a runner first took it, ISO 8601.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// The runner of the latest lease.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub leased_by: Option<String>,
    /// The batch that it was submitted in; this and the rest are additions of this project's hub.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    /// What it came to, so that a list need not carry results.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// As [`crate::mean_score`].
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// How far a run has come. `Failed` means that no result came; a graded failure is `Succeeded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    Queued,
    Running,
    Succeeded,
    Failed,
}

impl RunStatus {
    /// Tells whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// Returns the literal of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// Who asked for a run, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrigin {
    pub cause: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub actor: Option<Subject>,
}

/// Where a run was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlacement {
    pub r#where: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What a run used of models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunUsage {
    #[serde(deserialize_with = "crate::decode::fields::count")]
    pub prompt_tokens: u64,
    #[serde(deserialize_with = "crate::decode::fields::count")]
    pub completion_tokens: u64,
    #[serde(deserialize_with = "crate::decode::fields::count")]
    pub total_tokens: u64,
    #[serde(serialize_with = "num")]
    pub usd: f64,
    #[serde(deserialize_with = "crate::decode::fields::count")]
    pub calls: u64,
}

/// Why no result came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// Usually an [`crate::ErrorCode`].
    pub code: String,
    pub message: String,
}

/// Reply of `GET /runs`: one page, newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunList {
    pub runs: Vec<RunRecord>,
    /// Gives the next page as `cursor`; absent on the last one.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Runs that were submitted together, counted by what they came to. An addition of this project's hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchRecord {
    pub id: String,
    /// The id again where nobody gave it a name.
    pub label: String,
    /// When the first run of it came, ISO 8601.
    pub submitted_at: String,
    pub total: u64,
    /// Those that have ended.
    pub done: u64,
    pub passed: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub unmeasured: u64,
    /// Cancelled ones too.
    pub infra: u64,
}

/// Reply of `GET /batches`, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchList {
    pub batches: Vec<BatchRecord>,
}

/// Reply of `POST /batches/:id/cancel`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchCancelled {
    /// Runs that were stopped by this call.
    pub cancelled: u64,
}

/// Reply of `GET /runs/:id/logs`. A control plane that has no line numbers leaves out `lines` and `last`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLogs {
    pub status: RunStatus,
    pub found: bool,
    /// The lines, joined by newlines.
    pub text: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<LogLine>>,
    /// Pass this as `after` to get what comes next.
    #[serde(default, with = "opt_count", skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

/// One line of a run's log; also the data of a `line` event of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Counts from 1 within the run.
    #[serde(deserialize_with = "positive")]
    pub seq: u64,
    /// ISO 8601.
    pub at: String,
    pub line: String,
}
