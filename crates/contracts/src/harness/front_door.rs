//! How a case is handed to a topology and how its end is noticed.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::decode::fields::{opt, opt_min1, positive};
use crate::decode::tagged;

/// The service that takes a case, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontDoorSpec {
    pub service: String,
    /// Method and path, like `POST /runs`.
    pub submit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<FrontDoorRequest>,
    /// Synchronous when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
    /// Injected when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlate: Option<FrontDoorCorrelate>,
    /// Template over the variables of a run, used as the key of its trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_inline: Option<TraceInline>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrontDoorForm {
    service: String,
    submit: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    request: Option<FrontDoorRequest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    completion: Option<Completion>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    correlate: Option<FrontDoorCorrelate>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    context_id: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    trace_inline: Option<TraceInline>,
}

impl<'de> Deserialize<'de> for FrontDoorSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = FrontDoorForm::deserialize(deserializer)?;
        if matches!(form.completion, Some(Completion::Trace(_))) {
            if matches!(form.correlate, Some(FrontDoorCorrelate::Returned(_))) {
                return Err(D::Error::custom(
                    "at `correlate`: completion by trace needs an injected id",
                ));
            }
            if form.trace_inline.is_some() {
                return Err(D::Error::custom(
                    "at `traceInline`: completion by trace has no inline trace",
                ));
            }
        }
        Ok(Self {
            service: form.service,
            submit: form.submit,
            trace: form.trace,
            request: form.request,
            completion: form.completion,
            correlate: form.correlate,
            context_id: form.context_id,
            trace_inline: form.trace_inline,
        })
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusMatch {
    pub field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Scalar>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Scalar>>,
}

impl<'de> Deserialize<'de> for StatusMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Form {
            field: String,
            #[serde(default, with = "opt")]
            equals: Option<Scalar>,
            #[serde(default, with = "opt")]
            one_of: Option<Vec<Scalar>>,
        }
        let Form {
            field,
            equals,
            one_of,
        } = Form::deserialize(deserializer)?;
        if equals.is_none() && one_of.is_none() {
            return Err(D::Error::custom("expected at least one of `equals` and `oneOf`"));
        }
        Ok(Self {
            field,
            equals,
            one_of,
        })
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
