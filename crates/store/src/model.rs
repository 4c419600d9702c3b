//! Rows as the rest of the program sees them: plain values, no database types.

use crate::StoreError;

/// A moment as Unix milliseconds.
pub type Millis = i64;

/// An API key; the key itself is never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// Lower-case hex SHA-256 of the whole key.
    pub hash: String,
    /// Workspace the key acts in.
    pub workspace: String,
    /// `admin`, `member` or `viewer`.
    pub role: String,
    /// Whom the key acts as; owner of what it pairs and submits.
    pub subject: String,
    /// Name for people.
    pub label: String,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last seen, to within the hub's write interval.
    pub last_used_at: Option<Millis>,
    /// When it stops working; `None` for a key that lives until it is deleted.
    pub expires_at: Option<Millis>,
}

/// A paired runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerRow {
    /// Subject that paired it, or `ws:<workspace>` for a shared one.
    pub owner: String,
    /// UUID.
    pub id: String,
    /// Workspace it was paired in.
    pub workspace: String,
    /// Name for people.
    pub label: String,
    /// `linux`, `darwin` or `win32`, as reported.
    pub os: Option<String>,
    /// Capability names.
    pub capabilities: Vec<String>,
    /// Lower-case hex SHA-256 of the pairing token.
    pub token_hash: String,
    /// When it was paired.
    pub paired_at: Millis,
    /// When it last called, to within the hub's write interval.
    pub last_seen_at: Option<Millis>,
    /// Program version, as reported.
    pub version: Option<String>,
    /// Lease protocol version, as reported.
    pub protocol: Option<i64>,
    /// Why it gets no jobs, where somebody paused it.
    pub paused: Option<String>,
}

/// What a runner reported about itself; absent fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunnerTouch {
    /// The runner.
    pub id: String,
    /// When it called.
    pub last_seen_at: Millis,
    /// New operating system name.
    pub os: Option<String>,
    /// New capability names.
    pub capabilities: Option<Vec<String>>,
    /// New version and protocol, always reported together.
    pub version: Option<(String, i64)>,
}

/// One immutable version of a registered harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarnessRow {
    /// Workspace it belongs to.
    pub workspace: String,
    /// Harness id.
    pub id: String,
    /// Version.
    pub version: String,
    /// The spec as JSON text.
    pub spec: String,
    /// Subject that registered it.
    pub created_by: String,
    /// When.
    pub created_at: Millis,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// Waiting for a runner.
    Queued,
    /// A runner holds its lease.
    Running,
    /// A runner sent a result, whatever the result says.
    Succeeded,
    /// No result: refused, cancelled or given up.
    Failed,
}

impl RunStatus {
    /// Returns the name used on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }

    /// Returns whether nothing can happen to the run any more.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// Reads the name; `None` when it is none.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        match text {
            "queued" => Some(Self::Queued),
            "running" => Some(Self::Running),
            "succeeded" => Some(Self::Succeeded),
            "failed" => Some(Self::Failed),
            _ => None,
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        Self::from_name(text).ok_or_else(|| StoreError::Corrupt {
            what: format!("status `{text}`"),
        })
    }
}

/// A run as it is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Time-ordered UUID; also the job id of its lease.
    pub id: String,
    /// Workspace it belongs to.
    pub workspace: String,
    /// Subject that submitted it.
    pub submitted_by: String,
    /// Harness id.
    pub harness_id: String,
    /// Harness version.
    pub harness_version: String,
    /// Case id.
    pub case_id: String,
    /// Target as the submitter wrote it.
    pub runtime: String,
    /// `interactive` or `batch`.
    pub priority: String,
    /// Fairness group.
    pub fair_group: String,
    /// The case as submitted, JSON text.
    pub case_spec: String,
    /// The job as a runner gets it, JSON text without the fields that change with each lease.
    pub job: String,
    /// Queue owner; absent when the run was refused at dispatch.
    pub owner: Option<String>,
    /// Pinned runner; absent for the owner's pool.
    pub runner: Option<String>,
    /// Capabilities that gate the lease.
    pub required_caps: Vec<String>,
    /// A remark on its way to a runner, such as nobody being online.
    pub note: Option<String>,
    /// The batch it belongs to, and what people call that.
    pub batch: Option<String>,
    /// See [`Self::batch`].
    pub batch_label: Option<String>,
    /// When.
    pub created_at: Millis,
}

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Time-ordered UUID.
    pub id: String,
    /// Workspace it belongs to.
    pub workspace: String,
    /// Subject that submitted it.
    pub submitted_by: String,
    /// Where it stands.
    pub status: RunStatus,
    /// Harness id.
    pub harness_id: String,
    /// Harness version.
    pub harness_version: String,
    /// Case id.
    pub case_id: String,
    /// Target as the submitter wrote it.
    pub runtime: String,
    /// `interactive` or `batch`.
    pub priority: String,
    /// The case as submitted, JSON text.
    pub case_spec: String,
    /// How often it was handed out.
    pub lease_epoch: i64,
    /// Runner of the latest lease.
    pub leased_by: Option<String>,
    /// How often a holder was lost.
    pub requeues: i64,
    /// A remark on its way to a runner.
    pub note: Option<String>,
    /// The result, JSON text.
    pub result: Option<String>,
    /// Model usage, JSON text.
    pub usage: Option<String>,
    /// Error code and message of a failed run.
    pub error: Option<(String, String)>,
    /// When it was submitted.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
    /// When it was first handed out.
    pub started_at: Option<Millis>,
    /// The batch it belongs to.
    pub batch: Option<String>,
    /// What it came to; absent until it has ended, and when it was cancelled.
    pub verdict: Option<String>,
    /// A number as text: the mean of its judging scores.
    pub score: Option<String>,
}

/// What the lease queue needs to know of a run that is not over, or was cancelled a moment ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    /// The run.
    pub id: String,
    /// Queue owner.
    pub owner: String,
    /// Pinned runner; absent for the pool.
    pub runner: Option<String>,
    /// Where it stands; `Failed` here means cancelled while leased.
    pub status: RunStatus,
    /// `interactive` or `batch`.
    pub priority: String,
    /// Fairness group.
    pub fair_group: String,
    /// Capabilities that gate the lease.
    pub required_caps: Vec<String>,
    /// How often it was handed out.
    pub lease_epoch: u64,
    /// Runner of the latest lease.
    pub leased_by: Option<String>,
    /// How often a holder was lost.
    pub requeues: u32,
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFinish {
    /// The run.
    pub id: String,
    /// `Succeeded` or `Failed`.
    pub status: RunStatus,
    /// When set, the run must still be under this lease; otherwise any open run will do.
    pub lease_epoch: Option<u64>,
    /// When set, that lease must be this runner's.
    pub holder: Option<String>,
    /// Whether the run must still wait: somebody else may hand it out at the same time.
    pub only_waiting: bool,
    /// The result, JSON text.
    pub result: Option<String>,
    /// Model usage, JSON text.
    pub usage: Option<String>,
    /// Error code and message.
    pub error: Option<(String, String)>,
    /// What it came to, where it was tried.
    pub verdict: Option<String>,
    /// A number as text: the mean of its judging scores.
    pub score: Option<String>,
    /// When.
    pub at: Millis,
}

/// A page of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunPage {
    /// Newest first.
    pub runs: Vec<RunRow>,
    /// Pass this to get the next page; absent on the last one.
    pub next: Option<String>,
}

/// Runs that were submitted together, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRow {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub label: Option<String>,
    /// When the first run of it came.
    pub created_at: Millis,
    /// How many runs.
    pub total: u64,
    /// How many of them are over.
    pub done: u64,
    /// How many came to each verdict; those that are over without one are in no count.
    pub verdicts: Vec<(String, u64)>,
}

/// One line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// Position, counted from one, without gaps.
    pub seq: u64,
    /// When the hub got it.
    pub at: Millis,
    /// The text, without its line break.
    pub line: String,
}

/// One piece of evidence pushed while a run was going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Position, counted from one.
    pub seq: u64,
    /// When the hub got it.
    pub at: Millis,
    /// `trace` (body: array of trace events) or `track` (body: one track entry).
    pub kind: String,
    /// JSON text.
    pub body: String,
}
