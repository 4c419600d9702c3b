//! The events of a trace.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::decode::fields::{non_negative, num, opt, opt_num};
use crate::decode::{carry, from_value, tagged};

/// One event of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEvent {
    /// Wall clock or offset in milliseconds, by the producer; prefer [`Self::at`] for ordering.
    #[serde(serialize_with = "num")]
    pub t: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    #[serde(
        serialize_with = "opt_num::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_ms: Option<f64>,
    /// ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(flatten)]
    pub kind: TraceEventKind,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Common {
    t: f64,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

impl<'de> Deserialize<'de> for TraceEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let common = serde_path_to_error::deserialize::<_, Common>(&value)
            .map_err(|error| carry(&crate::decode::tracked(&error)))?;
        let kind = from_value(value).map_err(|error| carry(&error))?;
        let Common {
            t,
            span_id,
            parent_id,
            duration_ms,
            at,
        } = common;
        Ok(Self {
            t,
            span_id,
            parent_id,
            duration_ms,
            at,
            kind,
        })
    }
}

impl TraceEvent {
    /// Makes an event at `t` without structure.
    pub fn new(t: f64, kind: impl Into<TraceEventKind>) -> Self {
        Self {
            t,
            span_id: None,
            parent_id: None,
            duration_ms: None,
            at: None,
            kind: kind.into(),
        }
    }

    /// Makes a message of the assistant or the user.
    pub fn message(t: f64, role: Role, text: impl Into<String>) -> Self {
        Self::new(
            t,
            Message {
                role,
                text: text.into(),
            },
        )
    }

    /// Makes an error event.
    pub fn error(t: f64, message: impl Into<String>) -> Self {
        Self::new(
            t,
            ErrorEvent {
                message: message.into(),
            },
        )
    }

    /// Makes an output line.
    pub fn log(t: f64, stream: OutputStream, text: impl Into<String>) -> Self {
        Self::new(
            t,
            LogEvent {
                stream,
                text: text.into(),
            },
        )
    }

    /// Makes an event about the placement of the job.
    pub fn placement(t: f64, event: impl Into<String>, message: impl Into<String>) -> Self {
        let infra = InfraEvent {
            event: Some(event.into()),
            ..InfraEvent::new(InfraScope::Placement, message)
        };
        Self::new(t, infra)
    }

    /// Sets the wall-clock time, ISO 8601.
    #[must_use]
    pub fn at(mut self, at: impl Into<String>) -> Self {
        self.at = Some(at.into());
        self
    }
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TraceEventKind {
    Message(Message),
    LlmCall(LlmCall),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    EnvAction(EnvAction),
    Error(ErrorEvent),
    Log(LogEvent),
    Artifact(Artifact),
    Span(Span),
    Infra(InfraEvent),
}

tagged!(TraceEventKind by "kind" {
    "message" => Message,
    "llm_call" => LlmCall,
    "tool_call" => ToolCall,
    "tool_result" => ToolResult,
    "env_action" => EnvAction,
    "error" => Error,
    "log" => Log,
    "artifact" => Artifact,
    "span" => Span,
    "infra" => Infra,
});

macro_rules! kind_from {
    ($($variant:ident($inner:ident)),+ $(,)?) => {
        $(impl From<$inner> for TraceEventKind {
            fn from(inner: $inner) -> Self {
                Self::$variant(inner)
            }
        })+
    };
}

kind_from!(
    Message(Message),
    LlmCall(LlmCall),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    EnvAction(EnvAction),
    Error(ErrorEvent),
    Log(LogEvent),
    Artifact(Artifact),
    Span(Span),
    Infra(InfraEvent),
);

/// Something said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub text: String,
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
}

/// A call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmCall {
    pub model: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(default, with = "opt_num", skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
}

/// What a call cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    #[serde(deserialize_with = "crate::decode::fields::count")]
    pub input_tokens: u64,
    #[serde(deserialize_with = "crate::decode::fields::count")]
    pub output_tokens: u64,
    #[serde(deserialize_with = "non_negative", serialize_with = "num")]
    pub usd: f64,
}

/// A tool asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
}

/// A tool's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub id: String,
    pub ok: bool,
    pub output: String,
}

/// Something done to the environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvAction {
    pub action: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorEvent {
    pub message: String,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEvent {
    pub stream: OutputStream,
    pub text: String,
}

/// Which output it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// A file that a run left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub name: String,
    pub r#ref: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// A stretch of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub name: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Map<String, Value>>,
}

/// Something about the machinery beneath the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InfraEvent {
    pub scope: InfraScope,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    pub message: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

impl InfraEvent {
    /// Makes an event with only the required parts.
    pub fn new(scope: InfraScope, message: impl Into<String>) -> Self {
        Self {
            scope,
            event: None,
            message: message.into(),
            unit: None,
            node: None,
            service: None,
        }
    }
}

/// Which part of the machinery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InfraScope {
    Placement,
    Service,
}
