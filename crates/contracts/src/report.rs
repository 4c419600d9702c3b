//! Arguments and replies of the tools by which a runner shows a job while it runs.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::decode::fields::{non_empty, num, opt, opt_min1, opt_text, positive};
use crate::decode::tagged;
use crate::ids::JobId;
use crate::lease::{AttemptToken, attempt_of};
use crate::trace::TraceEvent;
use crate::track::TrackEntry;

/// In the data of a refused session (401): the runner of this token was removed from the hub, and is not just unknown.
pub const REASON_REMOVED: &str = "runner_removed";

/// The reason given when a push quotes no token.
pub const REASON_NO_TOKEN: &str = "no attempt token (update the runner)";
/// The reason given when the token is not that of a lease one may write to.
pub const REASON_STALE: &str = "the attempt token is not a current lease";
/// The reason given when nothing ties the job to a run.
pub const REASON_NO_RUN: &str = "this job carries no run id";
/// The reason given when evidence is shown but not kept.
pub const REASON_NOT_RECORDING: &str = "this job opened no recording attempt";

/// The longest line `report_case_log` takes, in characters.
pub const MAX_LOG_LINE_CHARS: usize = 16_000;
/// The largest frame `report_case_screen` takes, in base64 characters.
pub const MAX_FRAME_CHARS: usize = 12_000_000;

macro_rules! report_args {
    ($(#[$doc:meta])* $name:ident { $(#[$fdoc:meta])* $field:ident: $type:ty }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            #[serde(default, with = "opt_text", skip_serializing_if = "Option::is_none")]
            pub job_id: Option<JobId>,
            #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
            pub lease_epoch: Option<u64>,
            $(#[$fdoc])*
            pub $field: $type,
        }

        impl $name {
            /// Makes the arguments for the holder of a lease.
            pub fn new(attempt: &AttemptToken, $field: $type) -> Self {
                Self {
                    job_id: Some(attempt.job_id.clone()),
                    lease_epoch: Some(attempt.lease_epoch),
                    $field,
                }
            }

            /// Returns the token, when both halves are there.
            pub fn attempt(&self) -> Option<AttemptToken> {
                attempt_of(self.job_id.as_ref(), self.lease_epoch)
            }
        }
    };
}

report_args!(
    /// Arguments of `report_case_screen`.
    ReportScreenArgs {
        /// PNG in base64.
        #[serde(deserialize_with = "frame")]
        frame: String
    }
);
report_args!(
    /// Arguments of `report_case_log`.
    ReportLogArgs {
        /// One line or several, without the last line break.
        #[serde(deserialize_with = "log_line")]
        line: String
    }
);
report_args!(
    /// Arguments of `report_case_trace`.
    ReportTraceArgs {
        /// 1 to [`crate::MAX_TRACE_BATCH`] events.
        #[serde(deserialize_with = "trace_batch")]
        events: Vec<TraceEvent>
    }
);
report_args!(
    /// Arguments of `report_case_track`.
    ReportTrackArgs {
        /// One entry of a recording.
        item: TrackEntry
    }
);

fn frame<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text: String = non_empty(deserializer)?;
    if text.len() > MAX_FRAME_CHARS {
        return Err(D::Error::invalid_length(
            text.len(),
            &"at most 12000000 characters",
        ));
    }
    Ok(text)
}

fn log_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let length = text.encode_utf16().count();
    if length > MAX_LOG_LINE_CHARS {
        return Err(D::Error::invalid_length(length, &"at most 16000 characters"));
    }
    Ok(text)
}

fn trace_batch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TraceEvent>, D::Error> {
    let events = Vec::deserialize(deserializer)?;
    if events.is_empty() || events.len() > crate::MAX_TRACE_BATCH {
        return Err(D::Error::invalid_length(events.len(), &"1 to 500 events"));
    }
    Ok(events)
}

/// Reply of the four report tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushReply {
    pub ok: bool,
    /// Whether it was kept beyond the run; `report_case_trace` doesn't say.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Arguments of `poll_case_fs_requests`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsPollArgs {
    #[serde(deserialize_with = "non_empty")]
    pub job_id: JobId,
    #[serde(deserialize_with = "positive")]
    pub lease_epoch: u64,
}

/// Reply of `poll_case_fs_requests`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsPollReply {
    pub requests: Vec<FsRequest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A look into a running case's folder that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsRequest {
    pub id: String,
    pub kind: FsRequestKind,
    /// Relative to the working tree; there for a file only.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FsRequestKind {
    #[serde(rename = "fsTree")]
    Tree,
    #[serde(rename = "fsFile")]
    File,
}

/// Arguments of `answer_case_fs_request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FsAnswerArgs {
    #[serde(deserialize_with = "non_empty")]
    pub job_id: JobId,
    #[serde(deserialize_with = "positive")]
    pub lease_epoch: u64,
    #[serde(deserialize_with = "non_empty")]
    pub request_id: String,
    pub result: FsAnswer,
}

/// The answer; an absent payload says "not a repository" or "no such file".
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind")]
pub enum FsAnswer {
    #[serde(rename = "fsTree")]
    Tree(FsTreeAnswer),
    #[serde(rename = "fsFile")]
    File(FsFileAnswer),
}

tagged!(FsAnswer by "kind" { "fsTree" => Tree, "fsFile" => File });

/// The changed files, where there is a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsTreeAnswer {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub tree: Option<FsTree>,
}

/// The files of a working tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsTree {
    pub files: Vec<FsTreeFile>,
    pub truncated: bool,
}

/// One file of a working tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsTreeFile {
    pub path: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub status: Option<FsFileStatus>,
}

/// How a file differs from the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsFileStatus {
    Modified,
    Added,
    Deleted,
}

/// The file, where there is one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FsFileAnswer {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub file: Option<FsFile>,
}

/// One file's content and change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FsFile {
    pub path: String,
    /// Bytes.
    #[serde(serialize_with = "num")]
    pub size: f64,
    pub binary: bool,
    pub truncated: bool,
    pub content: String,
    pub diff: String,
}

/// Reply of `answer_case_fs_request`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsAnswerReply {
    pub ok: bool,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
