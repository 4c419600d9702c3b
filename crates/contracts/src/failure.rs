//! How a case failed, in the words of the protocol.

use serde::{Deserialize, Serialize};

use crate::decode::fields::opt;

/// A classified failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseFailure {
    pub stage: FailureStage,
    pub class: FailureClass,
    /// An [`crate::ErrorCode`], or the signal that ended the work.
    pub code: String,
    pub message: String,
    pub retryable: bool,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub placement: Option<FailurePlacement>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub log_tail: Option<String>,
}

/// Where the work was when it failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailurePlacement {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
}

/// How far the case had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureStage {
    Dispatch,
    Install,
    Run,
    Collect,
    Grade,
}

impl FailureStage {
    /// Returns the literal of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Install => "install",
            Self::Run => "run",
            Self::Collect => "collect",
            Self::Grade => "grade",
        }
    }
}

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureClass {
    Infra,
    Config,
    Harness,
    Agent,
}

impl FailureClass {
    /// Returns the literal of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Infra => "infra",
            Self::Config => "config",
            Self::Harness => "harness",
            Self::Agent => "agent",
        }
    }
}
