//! Runs: what is submitted to a hub and what it keeps.

use serde::{Deserialize, Serialize};

use crate::case::EvalCase;
use crate::decode::fields::{num, opt, opt_count, positive};
use crate::harness::HarnessSpec;
use crate::ids::{CaseId, RunId, Subject, WorkspaceId};
use crate::job::{HarnessRef, Priority};
use crate::result::{CaseResult, TraceRef};

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
    /// Pass this as `cursor` to get the next page; absent on the last one.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
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
