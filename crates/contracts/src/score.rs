//! Scores, and the normaliser that makes a score of any object a peer may send.
//!
//! A grader that could not measure says so by type: there is no value to mistake for a zero.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::decode::fields::num;
use crate::decode::{DecodeError, carry, from_value};
use crate::trace::TraceEvent;

/// What a grader said about one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Score {
    Measured(MeasuredScore),
    Unmeasured(UnmeasuredScore),
    Invalid(InvalidScore),
}

/// A value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredScore {
    pub grader_id: String,
    pub metric: String,
    /// Always finite when it came off the wire.
    #[serde(serialize_with = "num")]
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_events: Option<Vec<TraceEvent>>,
}

/// No value, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnmeasuredScore {
    pub grader_id: String,
    pub metric: String,
    pub reason: UnmeasuredReason,
    pub retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_events: Option<Vec<TraceEvent>>,
}

/// A value that can't be one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvalidScore {
    pub grader_id: String,
    pub metric: String,
    pub reason: InvalidReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_events: Option<Vec<TraceEvent>>,
}

/// Why nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnmeasuredReason {
    GraderError,
    MissingEvidence,
    MissingSecret,
    Unsupported,
    PolicySkip,
    ContractViolation,
    GraderTimeout,
}

/// Why a score is invalid; there is one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidReason {
    #[default]
    ContractViolation,
}

impl Score {
    /// Makes a measured score.
    pub fn measured(grader_id: impl Into<String>, metric: impl Into<String>, value: f64) -> Self {
        Self::Measured(MeasuredScore {
            grader_id: grader_id.into(),
            metric: metric.into(),
            value,
            pass: None,
            label: None,
            detail: None,
            trace_events: None,
        })
    }

    /// Makes a pass or fail, worth 1 or 0.
    pub fn verdict(grader_id: impl Into<String>, metric: impl Into<String>, pass: bool) -> Self {
        let mut score = Self::measured(grader_id, metric, f64::from(u8::from(pass)));
        if let Self::Measured(measured) = &mut score {
            measured.pass = Some(pass);
        }
        score
    }

    /// Makes a score without a value.
    pub fn unmeasured(
        grader_id: impl Into<String>,
        metric: impl Into<String>,
        reason: UnmeasuredReason,
        retryable: bool,
    ) -> Self {
        Self::Unmeasured(UnmeasuredScore {
            grader_id: grader_id.into(),
            metric: metric.into(),
            reason,
            retryable,
            attempts: None,
            detail: None,
            trace_events: None,
        })
    }

    /// Adds what there is to say about the score.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Value>) -> Self {
        let slot = match &mut self {
            Self::Measured(score) => &mut score.detail,
            Self::Unmeasured(score) => &mut score.detail,
            Self::Invalid(score) => &mut score.detail,
        };
        *slot = Some(detail.into());
        self
    }

    /// Returns the id of the grader.
    pub fn grader_id(&self) -> &str {
        match self {
            Self::Measured(score) => &score.grader_id,
            Self::Unmeasured(score) => &score.grader_id,
            Self::Invalid(score) => &score.grader_id,
        }
    }

    /// Returns the name of the metric.
    pub fn metric(&self) -> &str {
        match self {
            Self::Measured(score) => &score.metric,
            Self::Unmeasured(score) => &score.metric,
            Self::Invalid(score) => &score.metric,
        }
    }

    /// Returns whether the metric passed, where that was measured.
    pub fn pass(&self) -> Option<bool> {
        match self {
            Self::Measured(score) => score.pass,
            Self::Unmeasured(_) | Self::Invalid(_) => None,
        }
    }
}

/// The start of a detail by which older graders report that they broke.
const GRADER_ERROR_PREFIX: &str = "[grader-error]";

/// The start of a detail by which older graders report that they did nothing.
const SKIPPED_PREFIX: &str = "skipped: ";

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(object) => normalise(object).map_err(|error| carry(&error)),
            other => Err(D::Error::invalid_type(
                crate::decode::unexpected(&other),
                &"an object",
            )),
        }
    }
}

/// Takes a named field as text; absent and mistyped both count as empty, which the rules turn into `invalid`.
fn text(object: &mut Map<String, Value>, name: &str) -> String {
    match object.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn trace_events(object: &mut Map<String, Value>) -> Result<Option<Vec<TraceEvent>>, DecodeError> {
    match object.remove("traceEvents") {
        Some(Value::Array(events)) if !events.is_empty() => from_value(Value::Array(events))
            .map(Some)
            .map_err(|error| error.under("traceEvents")),
        _ => Ok(None),
    }
}

/// The reason and retryability that apply when the score has no value, by its status or the words of its detail.
fn without_value(object: &Map<String, Value>) -> Option<(UnmeasuredReason, bool)> {
    if object.get("status").and_then(Value::as_str) == Some("unmeasured") {
        let reason = object
            .get("reason")
            .and_then(|reason| UnmeasuredReason::deserialize(reason).ok())
            .unwrap_or(UnmeasuredReason::Unsupported);
        return Some((
            reason,
            object.get("retryable").and_then(Value::as_bool).unwrap_or(false),
        ));
    }
    if object.contains_key("status") || object.contains_key("pass") {
        return None;
    }
    match object.get("detail").and_then(Value::as_str) {
        Some(detail) if detail.starts_with(GRADER_ERROR_PREFIX) => {
            Some((UnmeasuredReason::GraderError, true))
        }
        Some(detail) if detail.starts_with(SKIPPED_PREFIX) => Some((UnmeasuredReason::Unsupported, false)),
        _ => None,
    }
}

fn normalise(mut object: Map<String, Value>) -> Result<Score, DecodeError> {
    let invalid = object.get("status").and_then(Value::as_str) == Some("invalid");
    let unmeasured = if invalid { None } else { without_value(&object) };
    let grader_id = text(&mut object, "graderId");
    let metric = text(&mut object, "metric");
    let detail = object.remove("detail");
    let trace_events = trace_events(&mut object)?;
    if let Some((reason, retryable)) = unmeasured {
        let attempts = object.get("attempts").and_then(Value::as_u64);
        return Ok(Score::Unmeasured(UnmeasuredScore {
            grader_id,
            metric,
            reason,
            retryable,
            attempts,
            detail,
            trace_events,
        }));
    }
    let value = object
        .get("value")
        .and_then(Value::as_f64)
        .filter(|value| value.is_finite());
    match value {
        Some(value) if !invalid && !metric.is_empty() && !grader_id.is_empty() => {
            Ok(Score::Measured(MeasuredScore {
                grader_id,
                metric,
                value,
                pass: object.get("pass").and_then(Value::as_bool),
                label: object.get("label").and_then(Value::as_str).map(str::to_owned),
                detail,
                trace_events,
            }))
        }
        _ => Ok(Score::Invalid(InvalidScore {
            grader_id,
            metric,
            reason: InvalidReason::ContractViolation,
            detail,
            trace_events,
        })),
    }
}

#[cfg(test)]
mod tests;
