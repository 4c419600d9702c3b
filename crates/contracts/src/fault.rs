//! The error that every part of the product speaks, and how it becomes a classified failure of a case.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::{CaseFailure, FailureClass, FailurePlacement, FailureStage};

/// The error codes of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    BadRequest,
    NotFound,
    Conflict,
    Cancelled,
    DriverProvisionFailed,
    ComputeExecFailed,
    DriverSnapshotFailed,
    HarnessInstallFailed,
    HarnessRunFailed,
    GraderFailed,
    TraceCollectFailed,
    UpstreamMisconfigured,
    UpstreamError,
    RateLimited,
    BudgetExceeded,
    Unauthenticated,
    Forbidden,
    NotConfigured,
    /// Anything that no other code covers.
    Internal,
}

impl ErrorCode {
    /// Every code, in the order of the protocol.
    pub const ALL: [Self; 19] = [
        Self::BadRequest,
        Self::NotFound,
        Self::Conflict,
        Self::Cancelled,
        Self::DriverProvisionFailed,
        Self::ComputeExecFailed,
        Self::DriverSnapshotFailed,
        Self::HarnessInstallFailed,
        Self::HarnessRunFailed,
        Self::GraderFailed,
        Self::TraceCollectFailed,
        Self::UpstreamMisconfigured,
        Self::UpstreamError,
        Self::RateLimited,
        Self::BudgetExceeded,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotConfigured,
        Self::Internal,
    ];

    /// Returns the literal of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BAD_REQUEST",
            Self::NotFound => "NOT_FOUND",
            Self::Conflict => "CONFLICT",
            Self::Cancelled => "CANCELLED",
            Self::DriverProvisionFailed => "DRIVER_PROVISION_FAILED",
            Self::ComputeExecFailed => "COMPUTE_EXEC_FAILED",
            Self::DriverSnapshotFailed => "DRIVER_SNAPSHOT_FAILED",
            Self::HarnessInstallFailed => "HARNESS_INSTALL_FAILED",
            Self::HarnessRunFailed => "HARNESS_RUN_FAILED",
            Self::GraderFailed => "GRADER_FAILED",
            Self::TraceCollectFailed => "TRACE_COLLECT_FAILED",
            Self::UpstreamMisconfigured => "UPSTREAM_MISCONFIGURED",
            Self::UpstreamError => "UPSTREAM_ERROR",
            Self::RateLimited => "RATE_LIMITED",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
            Self::NotConfigured => "NOT_CONFIGURED",
            Self::Internal => "INTERNAL",
        }
    }

    /// Returns the HTTP status that a hub answers with.
    pub fn http_status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthenticated => 401,
            Self::BudgetExceeded => 402,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict | Self::Cancelled => 409,
            Self::RateLimited => 429,
            Self::UpstreamError | Self::UpstreamMisconfigured => 502,
            Self::DriverProvisionFailed
            | Self::ComputeExecFailed
            | Self::DriverSnapshotFailed
            | Self::HarnessInstallFailed
            | Self::HarnessRunFailed
            | Self::GraderFailed
            | Self::TraceCollectFailed
            | Self::NotConfigured
            | Self::Internal => 500,
        }
    }

    /// Returns the part of a case in which such an error arises.
    pub fn stage(self) -> FailureStage {
        match self {
            Self::HarnessInstallFailed => FailureStage::Install,
            Self::GraderFailed => FailureStage::Grade,
            Self::DriverProvisionFailed => FailureStage::Dispatch,
            Self::TraceCollectFailed => FailureStage::Collect,
            _ => FailureStage::Run,
        }
    }

    /// Returns whose fault such an error is, and whether another attempt may help.
    pub fn class(self) -> (FailureClass, bool) {
        match self {
            Self::Cancelled | Self::UpstreamMisconfigured => (FailureClass::Infra, false),
            Self::UpstreamError
            | Self::RateLimited
            | Self::DriverProvisionFailed
            | Self::TraceCollectFailed
            | Self::DriverSnapshotFailed
            | Self::NotConfigured
            | Self::Internal => (FailureClass::Infra, true),
            Self::BadRequest
            | Self::NotFound
            | Self::Conflict
            | Self::BudgetExceeded
            | Self::Unauthenticated
            | Self::Forbidden => (FailureClass::Config, false),
            Self::HarnessInstallFailed
            | Self::HarnessRunFailed
            | Self::ComputeExecFailed
            | Self::GraderFailed => (FailureClass::Harness, false),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The signal name under which running out of memory is reported.
pub const SIGNAL_OOM: &str = "OOM_KILLED";

/// What is known about a fault beyond its words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FaultExtra {
    /// Names what ended the work, such as [`SIGNAL_OOM`]; takes the place of the code in a failure.
    pub signal: Option<String>,
    pub log_tail: Option<String>,
    pub placement: Option<FailurePlacement>,
    pub runner_id: Option<String>,
    /// The `data` of an error body.
    pub data: Option<Map<String, Value>>,
    /// Overrides the stage that follows from the code, where the code arises in several.
    pub stage: Option<FailureStage>,
}

/// A domain error: a code to act on, words for people, and evidence.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub code: ErrorCode,
    pub message: String,
    pub extra: Box<FaultExtra>,
    #[source]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Fault {
    /// Makes a fault without evidence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            extra: Box::default(),
            source: None,
        }
    }

    /// Makes a fault of the caller's input.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    /// Makes a fault for something that isn't there, or isn't the caller's.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// Makes a fault that no other code covers.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// Makes the fault of work that was told to stop.
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Cancelled, message)
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Adds the end of a log.
    #[must_use]
    pub fn with_log_tail(mut self, log_tail: impl Into<String>) -> Self {
        self.extra.log_tail = Some(log_tail.into());
        self
    }

    /// Adds one entry to the `data` of the error body.
    #[must_use]
    pub fn with_data(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra
            .data
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    /// Names what ended the work.
    #[must_use]
    pub fn with_signal(mut self, signal: impl Into<String>) -> Self {
        self.extra.signal = Some(signal.into());
        self
    }

    /// Says in which part of the case the fault arose.
    #[must_use]
    pub fn at_stage(mut self, stage: FailureStage) -> Self {
        self.extra.stage = Some(stage);
        self
    }

    /// Returns the message followed by those of the causes, for a reader who sees nothing else.
    pub fn full_message(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error.to_string();
            if !text.ends_with(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = error.source();
        }
        text
    }

    /// Classifies the fault as the failure of a case.
    pub fn failure(&self) -> CaseFailure {
        let (mut class, mut retryable) = self.code.class();
        if self.extra.signal.as_deref() == Some(SIGNAL_OOM) && self.code != ErrorCode::Cancelled {
            (class, retryable) = (FailureClass::Infra, false);
        }
        CaseFailure {
            stage: self.extra.stage.unwrap_or_else(|| self.code.stage()),
            class,
            code: self.extra.signal.clone().unwrap_or_else(|| self.code.to_string()),
            message: self.full_message(),
            retryable,
            runner_id: self
                .extra
                .runner_id
                .clone()
                .filter(|_| self.code != ErrorCode::Cancelled),
            placement: self.extra.placement.clone(),
            log_tail: self.extra.log_tail.clone(),
        }
    }

    /// Returns the body that a hub answers with.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            code: self.code.to_string(),
            message: self.full_message(),
            data: self.extra.data.clone(),
        }
    }
}

impl From<crate::DecodeError> for Fault {
    fn from(error: crate::DecodeError) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// The body of every HTTP error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Usually an [`ErrorCode`]; kept as text because peers may be newer.
    pub code: String,
    pub message: String,
    #[serde(
        default,
        with = "crate::decode::fields::opt",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Map<String, Value>>,
}

#[cfg(test)]
mod tests;
