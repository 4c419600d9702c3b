//! The command harness: a shell command with a template, and where its trace comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mapping::SpanAttrMapping;
use super::{EnvMap, ModelBinding};
use crate::case::ResourceRequest;
use crate::decode::fields::{non_empty, opt, positive};
use crate::decode::tagged;
use crate::ids::SecretText;

/// Where a command leaves its trace when its spec names no file; set by the protocol.
pub const DEFAULT_TRACE_FILE: &str = "everdict-trace.json";

/// Time between two screen captures when a spec names none, in milliseconds; set by the protocol.
pub const DEFAULT_SCREEN_INTERVAL_MS: u64 = 2000;

fn default_screen_interval() -> u64 {
    DEFAULT_SCREEN_INTERVAL_MS
}

fn default_trace_file() -> String {
    DEFAULT_TRACE_FILE.to_owned()
}

/// A harness that is one shell command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandHarness {
    pub id: String,
    #[serde(deserialize_with = "non_empty")]
    pub version: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
    /// Relative to the case's folder; `work` when absent.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// Run in order before the command; the first that fails ends the case.
    #[serde(default)]
    pub setup: Vec<String>,
    /// A template over `{{task}}`, `{{model}}`, `{{run_id}}` and the names of [`Self::params`].
    pub command: String,
    #[serde(default)]
    pub env: EnvMap,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelBinding>,
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    #[serde(default)]
    pub trace: CommandTraceSpec,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub live_screen: Option<LiveScreenSpec>,
}

/// How to picture the screen while a command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveScreenSpec {
    /// Prints a PNG in base64.
    pub capture_cmd: String,
    #[serde(default = "default_screen_interval", deserialize_with = "positive")]
    pub interval_ms: u64,
}

/// Where the trace of a command is found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CommandTraceSpec {
    None(NoTrace),
    File(FileTrace),
    Otel(OtelTrace),
    Mlflow(MlflowTrace),
    Langfuse(PlainTrace),
    Langsmith(PlainTrace),
    Phoenix(PhoenixTrace),
}

tagged!(CommandTraceSpec by "kind" {
    "none" => None,
    "file" => File,
    "otel" => Otel,
    "mlflow" => Mlflow,
    "langfuse" => Langfuse,
    "langsmith" => Langsmith,
    "phoenix" => Phoenix,
});

impl Default for CommandTraceSpec {
    fn default() -> Self {
        Self::None(NoTrace {})
    }
}

/// No trace but what the command prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoTrace {}

/// A file of trace events: a JSON array or one event per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTrace {
    /// Relative to the work folder unless absolute.
    #[serde(default = "default_trace_file")]
    pub path: String,
}

/// Credentials for a trace backend, and who collects. Flattened by hand into each backend's spec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collect {
    /// The runner pulls the trace before it submits.
    #[default]
    Job,
    ControlPlane,
}

/// How a trace is found in its backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Correlate {
    #[default]
    Id,
    Tag,
}

/// An OpenTelemetry backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtelTrace {
    pub endpoint: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth_secret: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth: Option<SecretText>,
    #[serde(default)]
    pub collect: Collect,
    #[serde(default)]
    pub correlate: Correlate,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub mapping: Option<SpanAttrMapping>,
}

/// An MLflow backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MlflowTrace {
    pub endpoint: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth_secret: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth: Option<SecretText>,
    #[serde(default)]
    pub collect: Collect,
    #[serde(default)]
    pub correlate: Correlate,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub mapping: Option<SpanAttrMapping>,
}

/// A backend that needs nothing but an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlainTrace {
    pub endpoint: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth_secret: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth: Option<SecretText>,
    #[serde(default)]
    pub collect: Collect,
}

/// A Phoenix backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhoenixTrace {
    pub endpoint: String,
    pub project: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth_secret: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth: Option<SecretText>,
    #[serde(default)]
    pub collect: Collect,
}
