//! Phoenix: the spans of a trace within a project, page by page.

use std::collections::HashSet;

use everdict_contracts::Fault;
use serde_json::Value;

use super::Spans;
use crate::config::TraceConfig;
use crate::fetch::{Budget, Client, failed};
use crate::span::{DeclaredKind, SpanPoint, SpanRecord, SpanStatus};
use crate::value::{flatten, iso, list, text_field};

/// The most that the backend gives at once.
const PAGE: &str = "1000";

/// The project that a configuration names.
pub(crate) fn project(config: &TraceConfig) -> Result<String, Fault> {
    config
        .project
        .clone()
        .filter(|project| !project.is_empty())
        .ok_or_else(|| {
            Fault::bad_request("`traceSource.project`: Phoenix keeps traces by project, and none is named")
        })
}

pub(crate) async fn fetch(
    client: &Client,
    budget: &mut Budget,
    project: &str,
    key: &str,
) -> Result<Spans, Fault> {
    let mut spans = Vec::new();
    let mut cursor: Option<String> = None;
    let mut seen = HashSet::new();
    for _ in 0..client.limits().pages {
        let mut query = vec![("trace_id", key), ("limit", PAGE)];
        if let Some(cursor) = &cursor {
            query.push(("cursor", cursor));
        }
        let url = client.url(&["v1", "projects", project, "spans"], &query);
        let Some(answer) = client.get(budget, url).await? else {
            return Ok(Spans::absent());
        };
        if !answer.is_object() {
            return Err(failed("Phoenix answered what isn't a list of spans"));
        }
        spans.extend(list(&answer, &["data"]).iter().filter_map(span));
        cursor = text_field(&answer, &["next_cursor"]);
        match &cursor {
            None => return Ok(Spans::found(spans)),
            Some(next) if !seen.insert(next.clone()) => {
                return Err(failed("Phoenix gives the same page over and over"));
            }
            Some(_) => {}
        }
    }
    Err(failed("the trace has more pages than are read"))
}

fn span(raw: &Value) -> Option<SpanRecord> {
    let start = iso(raw.get("start_time")?)?;
    let end = raw.get("end_time").and_then(iso).unwrap_or(start);
    let id = raw
        .pointer("/context/span_id")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let id = id.or_else(|| text_field(raw, &["id"]))?;
    let mut span = SpanRecord::new(id, text_field(raw, &["name"]).unwrap_or_default(), start, end);
    span.parent = text_field(raw, &["parent_id"]);
    span.status = match text_field(raw, &["status_code"]).as_deref() {
        Some("ERROR") => SpanStatus::Error(text_field(raw, &["status_message"])),
        Some("OK") => SpanStatus::Ok,
        _ => SpanStatus::Unset,
    };
    span.declared = Some(match text_field(raw, &["span_kind"]).as_deref() {
        Some("LLM") => DeclaredKind::Model,
        Some("TOOL") => DeclaredKind::Tool,
        _ => DeclaredKind::Plain,
    });
    let attributes = |raw: &Value| {
        raw.get("attributes")
            .and_then(Value::as_object)
            .map(flatten)
            .unwrap_or_default()
    };
    span.attributes = attributes(raw);
    span.points = list(raw, &["events"])
        .iter()
        .map(|event| SpanPoint {
            at_ms: event.get("timestamp").and_then(iso).unwrap_or(start),
            name: text_field(event, &["name"]).unwrap_or_default(),
            attributes: attributes(event),
        })
        .collect();
    Some(span)
}
