//! Spans to events: what a span meant to the run.

mod keys;

use everdict_contracts::{
    Artifact, EnvAction, ErrorEvent, InfraEvent, InfraScope, LlmCall, LogEvent, Message, OutputStream, Role,
    Span, SpanAttrMapping, ToolCall, ToolResult, TraceEvent, TraceEventKind,
};
use serde_json::Value;

use crate::ids::span_id;
use crate::span::{DeclaredKind, SpanPoint, SpanRecord, SpanStatus};
use crate::value::{show, to_iso, unwrapped};
use keys::Keys;

/// Reads spans, sorted by their beginning, as events in order of time.
///
/// `t` is in milliseconds from the beginning of the first span. Every event carries the time of day, the id of its span, its
/// parent and its duration; ids are derived, so that they have one form whatever the backend's.
pub fn project(spans: &[SpanRecord], mapping: &SpanAttrMapping) -> Vec<TraceEvent> {
    let keys = Keys::new(mapping);
    let first = spans
        .iter()
        .map(|span| span.start_ms)
        .min_by(f64::total_cmp)
        .unwrap_or(0.0);
    let is_counted = |span: &SpanRecord| keys.operation(span) == Some("chat") && keys.has_tokens(span);
    let chats_counted = spans.iter().any(is_counted);
    let mut events: Vec<_> = spans
        .iter()
        .flat_map(|span| {
            Projection {
                keys: &keys,
                span,
                first,
                chats_counted,
                events: Vec::new(),
            }
            .run()
        })
        .collect();
    events.sort_by(|a, b| a.t.total_cmp(&b.t));
    events
}

/// One span on its way to events.
struct Projection<'a> {
    keys: &'a Keys<'a>,
    span: &'a SpanRecord,
    /// When the trace began.
    first: f64,
    /// Whether the calls of models below an agent count their own tokens.
    chats_counted: bool,
    events: Vec<TraceEvent>,
}

impl Projection<'_> {
    fn run(mut self) -> Vec<TraceEvent> {
        if let Some(reference) = self.text(keys::ARTIFACT_REF) {
            self.artifact(reference);
        }
        let is_placement = self.text(keys::PLANE).as_deref() == Some("placement");
        if is_placement {
            let message = self
                .text(keys::INFRA_MESSAGE)
                .unwrap_or_else(|| self.span.name.clone());
            let event = self
                .text(keys::INFRA_EVENT)
                .unwrap_or_else(|| self.span.name.clone());
            self.infra(self.span.start_ms, event, message);
        } else {
            self.work();
        }
        if let SpanStatus::Error(why) = &self.span.status {
            let message = why
                .clone()
                .unwrap_or_else(|| format!("{} failed", self.span.name));
            self.push(self.span.end_ms, ErrorEvent { message });
        }
        for point in &self.span.points {
            let text = point_text(point);
            if is_placement {
                self.infra(point.at_ms, point.name.clone(), text);
            } else {
                self.push(
                    point.at_ms,
                    LogEvent {
                        stream: stream(point),
                        text,
                    },
                );
            }
        }
        self.events
    }

    /// Tells what kind of work the span is; the order decides where several fit.
    fn work(&mut self) {
        let operation = self.keys.operation(self.span);
        match self.span.declared {
            Some(DeclaredKind::Model) => return self.model_call(),
            Some(DeclaredKind::Tool) => return self.tool_call(),
            Some(DeclaredKind::Plain) => return self.plain(),
            None => {}
        }
        if operation == Some("invoke_agent") {
            self.agent();
        } else if operation == Some("chat")
            || self.keys.model(self.span).is_some()
            || self.keys.has_tokens(self.span)
        {
            self.model_call();
        } else if operation == Some("execute_tool")
            || self.keys.tool_name(self.span).is_some()
            || self.keys.is_tool(self.span)
        {
            self.tool_call();
        } else if let Some(action) = self.text(keys::ENV_ACTION) {
            let detail = keys::first(self.span, keys::ENV_DETAIL).map(unwrapped);
            self.push(self.span.start_ms, EnvAction { action, detail });
        } else if let Some(text) = self.keys.message(self.span) {
            let user = self.text(keys::MESSAGE_ROLE).as_deref() == Some("user");
            self.push(
                self.span.start_ms,
                Message {
                    role: if user { Role::User } else { Role::Assistant },
                    text,
                },
            );
        } else {
            self.plain();
        }
    }

    fn plain(&mut self) {
        let attributes = Some(self.span.attributes.clone()).filter(|attributes| !attributes.is_empty());
        self.push(
            self.span.start_ms,
            Span {
                name: self.span.name.clone(),
                attributes,
            },
        );
    }

    fn agent(&mut self) {
        self.plain();
        if let Some(text) = keys::first(self.span, keys::AGENT_INPUT).map(show) {
            self.push(
                self.span.start_ms,
                Message {
                    role: Role::User,
                    text,
                },
            );
        }
        if !self.chats_counted && (self.keys.model(self.span).is_some() || self.keys.has_tokens(self.span)) {
            self.model_call();
        }
    }

    fn model_call(&mut self) {
        let span = self.span;
        let call = LlmCall {
            model: self.keys.model(span).unwrap_or_else(|| "unknown".to_owned()),
            cost: self.keys.cost(span),
            latency_ms: Some(self.duration()),
        };
        self.push(span.start_ms, call);
        if let Some(text) = self.keys.message(span) {
            self.push(
                span.end_ms,
                Message {
                    role: Role::Assistant,
                    text,
                },
            );
        }
    }

    fn tool_call(&mut self) {
        let span = self.span;
        let id = self.keys.tool_call_id(span).unwrap_or_else(|| span_id(&span.id));
        let name = self.keys.tool_name(span).unwrap_or_else(|| span.name.clone());
        self.push(
            span.start_ms,
            ToolCall {
                id: id.clone(),
                name,
                args: self.keys.tool_args(span),
            },
        );
        let ok = !matches!(span.status, SpanStatus::Error(_));
        let output = self.keys.tool_result(span).unwrap_or_default();
        self.push(span.end_ms, ToolResult { id, ok, output });
    }

    fn artifact(&mut self, reference: String) {
        let artifact = Artifact {
            name: self
                .text(keys::ARTIFACT_NAME)
                .unwrap_or_else(|| self.span.name.clone()),
            r#ref: reference,
            media_type: self.text(keys::ARTIFACT_TYPE),
            role: self.text(keys::ARTIFACT_ROLE),
        };
        self.push(self.span.start_ms, artifact);
    }

    fn infra(&mut self, at_ms: f64, event: String, message: String) {
        let infra = InfraEvent {
            event: Some(event),
            unit: self.text(keys::INFRA_UNIT),
            node: self.text(keys::INFRA_NODE),
            service: self.text(keys::INFRA_SERVICE),
            ..InfraEvent::new(InfraScope::Placement, message)
        };
        self.push(at_ms, infra);
    }

    fn text(&self, keys: &[&str]) -> Option<String> {
        keys::first(self.span, keys)
            .map(show)
            .filter(|text| !text.is_empty())
    }

    fn duration(&self) -> f64 {
        self.span.end_ms - self.span.start_ms
    }

    fn push(&mut self, at_ms: f64, kind: impl Into<TraceEventKind>) {
        self.events.push(TraceEvent {
            t: at_ms - self.first,
            span_id: Some(span_id(&self.span.id)),
            parent_id: self.span.parent.as_deref().map(span_id),
            duration_ms: Some(self.duration()),
            at: to_iso(at_ms),
            kind: kind.into(),
        });
    }
}

/// What happened, in words.
fn point_text(point: &SpanPoint) -> String {
    let attribute = |keys: &[&str]| {
        keys.iter()
            .filter_map(|key| point.attributes.get(*key))
            .find(|value| !matches!(value, Value::Null))
            .map(show)
            .filter(|text| !text.is_empty())
    };
    let words = attribute(&["message", "log.message", "exception.message", "body"]);
    match (attribute(&["exception.type"]), words) {
        (Some(kind), Some(words)) => format!("{kind}: {words}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => point.name.clone(),
    }
}

fn stream(point: &SpanPoint) -> OutputStream {
    let level = ["level", "severity", "log.severity"]
        .iter()
        .find_map(|key| point.attributes.get(*key)?.as_str());
    let bad = level.is_some_and(|level| {
        ["error", "warn", "warning", "fatal"]
            .iter()
            .any(|bad| level.eq_ignore_ascii_case(bad))
    });
    if bad || point.name == "exception" {
        OutputStream::Stderr
    } else {
        OutputStream::Stdout
    }
}

#[cfg(test)]
mod tests;
