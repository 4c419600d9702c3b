//! Spans in OTLP/JSON, in camelCase as OpenTelemetry writes them or snake_case as MLflow does.

use serde_json::{Map, Value};

use crate::span::{SpanPoint, SpanRecord, SpanStatus};
use crate::value::{attributes, field, list, nanos, show, text_field};

/// Reads every span of a body: a plain list, or grouped by resource and scope.
pub(crate) fn spans(body: &Value) -> Vec<SpanRecord> {
    let body = field(body, &["trace", "result"]).unwrap_or(body);
    let plain = list(body, &["spans"])
        .iter()
        .filter_map(|raw| span(raw, &Map::new()));
    let groups = list(body, &["resourceSpans", "resource_spans", "batches"]);
    let grouped = groups.iter().flat_map(|group| {
        let resource = group.pointer("/resource/attributes").and_then(Value::as_array);
        let resource = attributes(resource.map_or(&[], Vec::as_slice));
        let scopes = list(
            group,
            &["scopeSpans", "scope_spans", "instrumentationLibrarySpans"],
        );
        let raw = scopes.iter().flat_map(|scope| list(scope, &["spans"]));
        raw.filter_map(|raw| span(raw, &resource)).collect::<Vec<_>>()
    });
    plain.chain(grouped).collect()
}

/// Reads one span; without an id or a beginning it is none.
fn span(raw: &Value, resource: &Map<String, Value>) -> Option<SpanRecord> {
    let id = text_field(raw, &["spanId", "span_id"])?;
    let start = nanos(field(raw, &["startTimeUnixNano", "start_time_unix_nano"])?)?;
    let end = field(raw, &["endTimeUnixNano", "end_time_unix_nano"])
        .and_then(nanos)
        .unwrap_or(start);
    let mut span = SpanRecord::new(id, text_field(raw, &["name"]).unwrap_or_default(), start, end);
    span.parent = text_field(raw, &["parentSpanId", "parent_span_id"]);
    span.attributes = resource.clone();
    span.attributes.extend(own_attributes(raw));
    span.status = status(raw.get("status"));
    span.points = list(raw, &["events"])
        .iter()
        .map(|raw| SpanPoint {
            at_ms: field(raw, &["timeUnixNano", "time_unix_nano"])
                .and_then(nanos)
                .unwrap_or(start),
            name: text_field(raw, &["name"]).unwrap_or_default(),
            attributes: own_attributes(raw),
        })
        .collect();
    Some(span)
}

fn own_attributes(raw: &Value) -> Map<String, Value> {
    match raw.get("attributes") {
        Some(Value::Array(list)) => attributes(list),
        Some(Value::Object(plain)) => plain.clone(),
        _ => Map::new(),
    }
}

fn status(raw: Option<&Value>) -> SpanStatus {
    let Some(raw) = raw else { return SpanStatus::Unset };
    let code = raw.get("code").map(show).unwrap_or_default();
    match code.trim_start_matches("STATUS_CODE_") {
        "1" | "OK" => SpanStatus::Ok,
        "2" | "ERROR" => SpanStatus::Error(text_field(raw, &["message"])),
        _ => SpanStatus::Unset,
    }
}
