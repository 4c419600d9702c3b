//! How a case is handed to a topology and how its end is noticed.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::decode::fields::{opt, opt_min1, positive};
use crate::decode::{DecodeError, checked, tagged};

/// The service that takes a case, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct FrontDoorSpec {
    pub service: String,
    /// Method and path, like `POST /runs`.
    pub submit: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub request: Option<FrontDoorRequest>,
    /// Synchronous when absent.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
    /// Injected when absent.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub correlate: Option<FrontDoorCorrelate>,
    /// Template over the variables of a run, used as the key of its trace.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub trace_inline: Option<TraceInline>,
}

checked!(FrontDoorSpec);

impl FrontDoorSpec {
    fn check(&self) -> Result<(), DecodeError> {
        if matches!(self.completion, Some(Completion::Trace(_))) {
            if matches!(self.correlate, Some(FrontDoorCorrelate::Returned(_))) {
                return Err(DecodeError::invalid(
                    "correlate",
                    "completion by trace needs an injected id",
                ));
            }
            if self.trace_inline.is_some() {
                return Err(DecodeError::invalid(
                    "traceInline",
                    "completion by trace has no inline trace",
                ));
            }
        }
        Ok(())
    }
}

/// The request that hands over a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontDoorRequest {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub body_template: Option<Map<String, Value>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub encoding: Option<BodyEncoding>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<RequestFile>>,
}

/// How the body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyEncoding {
    Json,
    Form,
}

/// A file part of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestFile {
    pub field: String,
    pub from: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
}

/// The trace that comes with the answer itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceInline {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// How a run is told apart from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum FrontDoorCorrelate {
    Injected(Injected),
    Returned(Returned),
}

tagged!(FrontDoorCorrelate by "mode" { "injected" => Injected, "returned" => Returned });

/// The caller's id is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injected {}

/// The answer names the id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    pub path: String,
}

/// How the end of a run is noticed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Completion {
    Sync(SyncCompletion),
    Poll(PollCompletion),
    Stream(StreamCompletion),
    Callback(CallbackCompletion),
    Trace(TraceCompletion),
}

tagged!(Completion by "mode" {
    "sync" => Sync, "poll" => Poll, "stream" => Stream, "callback" => Callback, "trace" => Trace,
});

fn two_minutes() -> u64 {
    120_000
}

fn two_seconds() -> u64 {
    2_000
}

fn second() -> u64 {
    1_000
}

/// The answer is the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncCompletion {
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A status is asked for until it says done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollCompletion {
    pub status_path: String,
    pub done: StatusMatch,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub failed: Option<StatusMatch>,
    #[serde(default = "second", deserialize_with = "positive")]
    pub interval_ms: u64,
    #[serde(default = "two_minutes", deserialize_with = "positive")]
    pub timeout_ms: u64,
}

/// Events are read until one says done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamCompletion {
    pub done: StatusMatch,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub failed: Option<StatusMatch>,
    #[serde(default = "two_minutes", deserialize_with = "positive")]
    pub timeout_ms: u64,
}

/// The topology calls back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallbackCompletion {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub done: Option<StatusMatch>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub failed: Option<StatusMatch>,
    #[serde(default = "two_minutes", deserialize_with = "positive")]
    pub timeout_ms: u64,
}

/// The trace is asked for until its root span has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceCompletion {
    #[serde(default = "two_seconds", deserialize_with = "positive")]
    pub interval_ms: u64,
    #[serde(default = "two_minutes", deserialize_with = "positive")]
    pub timeout_ms: u64,
}

/// A condition on one field of a status; at least one of the two tests is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct StatusMatch {
    pub field: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub equals: Option<Scalar>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Scalar>>,
}

checked!(StatusMatch);

impl StatusMatch {
    fn check(&self) -> Result<(), DecodeError> {
        if self.equals.is_none() && self.one_of.is_none() {
            return Err(DecodeError::invalid(
                "",
                "expected at least one of `equals` and `oneOf`",
            ));
        }
        Ok(())
    }
}

/// Text, a number or a truth value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    Text(String),
    Number(serde_json::Number),
    Bool(bool),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Number(number) => Ok(Self::Number(number)),
            Value::Bool(truth) => Ok(Self::Bool(truth)),
            other => Err(D::Error::invalid_type(
                crate::decode::unexpected(&other),
                &"text, a number or a truth value",
            )),
        }
    }
}
