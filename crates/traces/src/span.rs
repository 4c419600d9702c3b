//! A span, whichever backend it came from.

use serde_json::{Map, Value};

/// One span. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanRecord {
    /// As the backend names it.
    pub id: String,
    /// The parent as the backend names it, which may not be part of the trace.
    pub parent: Option<String>,
    /// The name.
    pub name: String,
    /// When it began.
    pub start_ms: f64,
    /// When it ended; the beginning when it hasn't.
    pub end_ms: f64,
    /// By dotted key.
    pub attributes: Map<String, Value>,
    /// How it ended.
    pub status: SpanStatus,
    /// What happened within.
    pub points: Vec<SpanPoint>,
    /// What the backend itself says the span is, where it says so.
    pub declared: Option<DeclaredKind>,
}

/// How a span ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SpanStatus {
    /// Nobody said.
    #[default]
    Unset,
    /// Well.
    Ok,
    /// Badly, and perhaps why.
    Error(Option<String>),
}

/// Something that happened within a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanPoint {
    /// Milliseconds since 1970.
    pub at_ms: f64,
    /// The name.
    pub name: String,
    /// By dotted key.
    pub attributes: Map<String, Value>,
}

/// What a backend with a taxonomy of its own says that a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclaredKind {
    /// A call of a model.
    Model,
    /// A call of a tool.
    Tool,
    /// Neither.
    Plain,
}

impl SpanRecord {
    /// Makes a span without attributes.
    pub fn new(id: impl Into<String>, name: impl Into<String>, start_ms: f64, end_ms: f64) -> Self {
        Self {
            id: id.into(),
            parent: None,
            name: name.into(),
            start_ms,
            end_ms: end_ms.max(start_ms),
            attributes: Map::new(),
            status: SpanStatus::Unset,
            points: Vec::new(),
            declared: None,
        }
    }

    /// Sets an attribute unless the value is `null` or the attribute is there already.
    pub(crate) fn fill(&mut self, key: &str, value: Value) {
        if !value.is_null() {
            self.attributes.entry(key).or_insert(value);
        }
    }
}
