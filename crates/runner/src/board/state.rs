//! The types of the snapshot and the events, and how the visible state is derived.

use std::fmt;
use std::time::Duration;

use everdict_contracts::{CaseFailure, CaseId, CaseJob, CorrelationId, JobId};
use jiff::Timestamp;
use serde::Serialize;

use crate::attempt::{Outcome, StopReason};
use crate::capabilities::CapabilityReport;
use crate::session::{CallError, UnreachableCause};

/// Everything a view needs, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSnapshot {
    /// What the runner is doing.
    pub state: RunnerState,
    /// The jobs that are running now, oldest first.
    pub active: Vec<ActiveJob>,
    /// When the hub last answered, to the second.
    pub last_answer: Option<Timestamp>,
    /// Why the hub gives this machine no jobs, while it says so.
    pub hub_pause: Option<String>,
    /// What this machine offers, with reasons.
    pub capabilities: CapabilityReport,
    /// Counts since the start of this runner.
    pub counters: Counters,
    /// Why the last job failed, in one line, until one ends well. The hub's roster shows it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl RunnerSnapshot {
    pub(super) fn starting(capabilities: CapabilityReport) -> Self {
        Self {
            state: RunnerState::Connecting,
            active: Vec::new(),
            last_answer: None,
            hub_pause: None,
            capabilities,
            counters: Counters::default(),
            note: None,
        }
    }
}

/// What the runner is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunnerState {
    /// No answer yet since the start.
    Connecting,
    /// Waiting for a job.
    Idle,
    /// At least one job runs.
    Running,
    /// The hub does not answer; running jobs go on, and the runner keeps trying.
    Offline {
        /// The class, for a hint.
        cause: OfflineCause,
        /// One line for a person.
        detail: String,
    },
    /// The hub refuses the token. Pair again; the runner asks again rarely, in case it was a mistake.
    Revoked {
        /// What the hub said.
        reason: String,
    },
    /// The hub has removed this runner. Pair again; the runner asks again rarely, in case it was a mistake.
    Removed {
        /// What the hub said.
        reason: String,
    },
    /// The hub wants a newer protocol than this runner speaks.
    UpdateRequired {
        /// The protocol of the hub, when it said so.
        #[serde(rename = "serverProtocol")]
        server_protocol: Option<i64>,
    },
    /// No new jobs; the running ones finish and report.
    Draining,
    /// Over.
    Stopped,
}

/// Why the hub does not answer, by next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OfflineCause {
    /// Nothing listens at the address.
    Refused,
    /// The host name does not resolve.
    Dns,
    /// The TLS handshake failed.
    Tls,
    /// No answer in time.
    Timeout,
    /// The connection breaks.
    Reset,
    /// The hub, or a proxy before it, answers with an error status.
    Http,
    /// Something else answers: a network sign-in page, another web site.
    NotAHub,
    /// The hub refuses the call itself.
    CallRefused,
    /// The hub's replies can't be read.
    Malformed,
    /// None of the above.
    Network,
}

/// A running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveJob {
    /// The lease's job.
    pub job_id: JobId,
    /// The lease's epoch.
    pub lease_epoch: u64,
    /// The case.
    pub case_id: CaseId,
    /// `id@version` of the harness.
    pub harness: String,
    /// The run's correlation id, when the hub named one.
    pub run_id: Option<CorrelationId>,
    /// When it was leased.
    pub started: Timestamp,
    /// Set once it is being stopped.
    pub stopping: Option<StopReason>,
}

impl ActiveJob {
    pub(super) fn new(job_id: &JobId, lease_epoch: u64, job: &CaseJob) -> Self {
        Self {
            job_id: job_id.clone(),
            lease_epoch,
            case_id: job.eval_case.id.clone(),
            harness: crate::report::harness_label(job),
            run_id: job.run_id.clone(),
            started: Timestamp::now(),
            stopping: None,
        }
    }
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Jobs leased.
    pub leased: u64,
    /// Reports the hub took, failed results among them.
    pub accepted: u64,
    /// Jobs given back as failed without a result.
    pub failed_jobs: u64,
    /// Reports the hub dropped because another answer stands.
    pub superseded: u64,
    /// Jobs the hub cancelled.
    pub cancelled: u64,
    /// Jobs stopped because the lease was lost.
    pub lease_lost: u64,
    /// Reports that could not be delivered.
    pub undelivered: u64,
}

impl Counters {
    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Accepted(_) => self.accepted += 1,
            Outcome::FailedJob => self.failed_jobs += 1,
            Outcome::Superseded { .. } => self.superseded += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::LeaseLost => self.lease_lost += 1,
            Outcome::Undelivered => self.undelivered += 1,
        }
    }
}

/// One step, for those who want every one. A lagging receiver learns how many it missed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunnerEvent {
    /// A job was leased and starts.
    JobStarted(ActiveJob),
    /// A job is over and its report settled.
    JobFinished(Box<JobSummary>),
    /// A line of a job's log.
    LogLine {
        /// Whose line.
        #[serde(rename = "jobId")]
        job_id: JobId,
        /// Which part of the case's surroundings printed it: a container's name, `browser`; `None` for the agent and the
        /// runner itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        part: Option<String>,
        /// The line, without its end.
        line: String,
    },
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSummary {
    /// The lease's job.
    pub job_id: JobId,
    /// The case.
    pub case_id: CaseId,
    /// The run's correlation id, when the hub named one.
    pub run_id: Option<CorrelationId>,
    /// How the hub took it.
    pub outcome: Outcome,
    /// From lease to settlement.
    #[serde(rename = "durationMs", serialize_with = "as_millis")]
    pub duration: Duration,
    /// The scores, without their evidence.
    pub scores: Vec<ScoreSummary>,
    /// The failure, when there was no proper result.
    pub failure: Option<CaseFailure>,
}

/// One score, as a view shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoreSummary {
    /// Which grader.
    pub grader_id: String,
    /// Which metric.
    pub metric: String,
    /// The value, when there is one.
    pub value: Option<f64>,
    /// Passed, failed, or not a question of passing.
    pub pass: Option<bool>,
}

fn as_millis<S: serde::Serializer>(duration: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// What the member asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    Draining,
    Stopped,
}

/// What the hub's last answer, or its absence, says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    Connecting,
    Online,
    Offline { cause: OfflineCause, detail: String },
    Revoked { reason: String },
    Removed { reason: String },
    UpdateRequired { server_protocol: Option<i64> },
}

impl Link {
    pub(super) fn from_error(error: &CallError) -> Self {
        let (cause, detail) = match error {
            CallError::Unauthorized { reason, removed } => {
                let reason = reason.clone();
                return if *removed {
                    Self::Removed { reason }
                } else {
                    Self::Revoked { reason }
                };
            }
            CallError::Unreachable { cause, detail } => (offline_cause(*cause), detail),
            CallError::NotAHub { detail } => (OfflineCause::NotAHub, detail),
            CallError::Refused { text } => (OfflineCause::CallRefused, text),
            CallError::Malformed { detail } => (OfflineCause::Malformed, detail),
            // A wish of this side says nothing about the hub.
            CallError::CalledOff => return Self::Connecting,
        };
        Self::Offline {
            cause,
            detail: detail.clone(),
        }
    }

    pub(super) fn state(&self, phase: Phase, active: usize) -> RunnerState {
        match (phase, self) {
            (Phase::Stopped, _) => RunnerState::Stopped,
            (Phase::Draining, _) => RunnerState::Draining,
            (Phase::Serving, Self::Connecting) => RunnerState::Connecting,
            (Phase::Serving, Self::Online) if active > 0 => RunnerState::Running,
            (Phase::Serving, Self::Online) => RunnerState::Idle,
            (Phase::Serving, Self::Offline { cause, detail }) => RunnerState::Offline {
                cause: *cause,
                detail: detail.clone(),
            },
            (Phase::Serving, Self::Revoked { reason }) => RunnerState::Revoked {
                reason: reason.clone(),
            },
            (Phase::Serving, Self::Removed { reason }) => RunnerState::Removed {
                reason: reason.clone(),
            },
            (Phase::Serving, Self::UpdateRequired { server_protocol }) => RunnerState::UpdateRequired {
                server_protocol: *server_protocol,
            },
        }
    }

    pub(super) fn kind(&self) -> (std::mem::Discriminant<Self>, Option<OfflineCause>) {
        let cause = match self {
            Self::Offline { cause, .. } => Some(*cause),
            _ => None,
        };
        (std::mem::discriminant(self), cause)
    }

    pub(super) fn is_trouble(&self) -> bool {
        !matches!(self, Self::Connecting | Self::Online)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Online => f.write_str("online"),
            Self::Offline { cause, detail } => write!(f, "offline ({cause:?}): {detail}"),
            Self::Revoked { reason } => write!(f, "access revoked: {reason}"),
            Self::Removed { reason } => write!(f, "removed by the hub: {reason}"),
            Self::UpdateRequired { .. } => f.write_str("the hub requires a newer runner"),
        }
    }
}

fn offline_cause(cause: UnreachableCause) -> OfflineCause {
    match cause {
        UnreachableCause::Refused => OfflineCause::Refused,
        UnreachableCause::Dns => OfflineCause::Dns,
        UnreachableCause::Tls => OfflineCause::Tls,
        UnreachableCause::Timeout => OfflineCause::Timeout,
        UnreachableCause::Reset => OfflineCause::Reset,
        UnreachableCause::Http(_) => OfflineCause::Http,
        UnreachableCause::Other => OfflineCause::Network,
    }
}
