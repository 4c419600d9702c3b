//! Pairing, the roster, and who a credential belongs to.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::MAX_STATUS_CHARS;
use crate::capability::Capability;
use crate::decode::fields::{opt, opt_int};
use crate::ids::{RunnerId, SecretText, Subject, WorkspaceId};
use crate::lease::StatusLevel;

/// The longest label of a runner, in characters.
pub const MAX_LABEL_CHARS: usize = 80;
/// The longest name of an operating system, in characters.
pub const MAX_OS_CHARS: usize = 40;

/// A runner as the roster shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerMeta {
    pub id: RunnerId,
    pub label: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// As advertised; words of a newer vocabulary are kept.
    pub capabilities: Vec<String>,
    /// ISO 8601.
    pub paired_at: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, with = "opt_int", skip_serializing_if = "Option::is_none")]
    pub protocol: Option<i64>,
    /// True or absent, never false.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub update_required: Option<bool>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub status: Option<RunnerStatus>,
    /// Why it gets no jobs, while it is paused.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

/// Body of a request to pause a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseBody {
    /// Shown where the runner is; at most 200 characters.
    #[serde(deserialize_with = "reason")]
    pub reason: String,
}

/// What a runner last said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerStatus {
    pub text: String,
    pub level: StatusLevel,
    /// The server's clock, ISO 8601.
    pub at: String,
}

/// Body of the pairing requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairBody {
    #[serde(deserialize_with = "label")]
    pub label: String,
    #[serde(
        default,
        deserialize_with = "os_name",
        skip_serializing_if = "Option::is_none"
    )]
    pub os: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Capability>>,
}

fn label<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    bounded(deserializer, MAX_LABEL_CHARS, "1 to 80 characters")
}

fn reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    bounded(deserializer, MAX_STATUS_CHARS, "1 to 200 characters")
}

fn os_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    bounded(deserializer, MAX_OS_CHARS, "1 to 40 characters").map(Some)
}

fn bounded<'de, D: Deserializer<'de>>(
    deserializer: D,
    max: usize,
    expected: &str,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let length = text.encode_utf16().count();
    if length == 0 || length > max {
        return Err(D::Error::invalid_length(length, &expected));
    }
    Ok(text)
}

/// Reply of the pairing requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairedRunner {
    pub runner: RunnerMeta,
    /// Shown once; only its hash is kept.
    pub token: SecretText,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub attach_command: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub install_command: Option<String>,
}

/// Reply of the roster requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerList {
    pub runners: Vec<RunnerMeta>,
}

/// Reply of the revoking tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedReply {
    pub id: RunnerId,
    pub revoked: bool,
}

/// Reply of `GET /me`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Me {
    pub subject: Subject,
    pub workspace: WorkspaceId,
    pub roles: Vec<String>,
    pub via: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// There when the credential is a runner's.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<RunnerId>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub teams: Option<Vec<Value>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<MeWorkspace>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub profile: Option<Map<String, Value>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub config: Option<MeConfig>,
}

/// A workspace the subject belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeWorkspace {
    pub id: WorkspaceId,
    pub name: String,
    pub role: String,
    /// Whatever else the control plane tells.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What the control plane allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeConfig {
    #[serde(default)]
    pub allow_member_public_publish: bool,
    #[serde(default)]
    pub file_execution: bool,
}
