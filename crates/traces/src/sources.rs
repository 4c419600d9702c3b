//! The backends: each reads its own shape into spans.

pub(crate) mod langfuse;
pub(crate) mod langsmith;
pub(crate) mod mlflow;
pub(crate) mod otel;
pub(crate) mod otlp;
pub(crate) mod phoenix;

use crate::source::TraceState;
use crate::span::SpanRecord;

/// The spans of a trace.
pub(crate) struct Spans {
    pub(crate) spans: Vec<SpanRecord>,
    pub(crate) state: TraceState,
}

impl Spans {
    pub(crate) fn absent() -> Self {
        Self {
            spans: Vec::new(),
            state: TraceState::Absent,
        }
    }

    /// Spans from a backend that doesn't say whether a trace is complete.
    pub(crate) fn found(spans: Vec<SpanRecord>) -> Self {
        let state = if spans.is_empty() {
            TraceState::Absent
        } else {
            TraceState::Unknown
        };
        Self { spans, state }
    }
}
