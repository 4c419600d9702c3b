//! Langfuse: a trace with its observations in one answer.

use everdict_contracts::Fault;
use serde_json::{Value, json};

use super::Spans;
use crate::fetch::{Budget, Client, failed};
use crate::span::{DeclaredKind, SpanRecord, SpanStatus};
use crate::value::{field, iso, list, text_field};

pub(crate) async fn fetch(client: &Client, budget: &mut Budget, key: &str) -> Result<Spans, Fault> {
    let url = client.url(&["api", "public", "traces", key], &[]);
    let Some(body) = client.get(budget, url).await? else {
        return Ok(Spans::absent());
    };
    if !body.is_object() {
        return Err(failed("Langfuse answered what isn't a trace"));
    }
    Ok(Spans::found(
        list(&body, &["observations"]).iter().filter_map(span).collect(),
    ))
}

fn span(raw: &Value) -> Option<SpanRecord> {
    let start = iso(raw.get("startTime")?)?;
    let end = raw.get("endTime").and_then(iso).unwrap_or(start);
    let name = text_field(raw, &["name"]).unwrap_or_default();
    let mut span = SpanRecord::new(text_field(raw, &["id"])?, name, start, end);
    span.parent = text_field(raw, &["parentObservationId"]);
    if text_field(raw, &["level"]).as_deref() == Some("ERROR") {
        span.status = SpanStatus::Error(text_field(raw, &["statusMessage"]));
    }
    let model = text_field(raw, &["model"]);
    let is_tool = text_field(raw, &["type"]).is_some_and(|kind| kind.eq_ignore_ascii_case("tool"));
    span.declared = Some(match (&model, is_tool) {
        (Some(_), _) => DeclaredKind::Model,
        (None, true) => DeclaredKind::Tool,
        (None, false) => DeclaredKind::Plain,
    });
    let usage = field(raw, &["usageDetails", "usage"])
        .cloned()
        .unwrap_or(Value::Null);
    let cost = raw.pointer("/costDetails/total").filter(|cost| !cost.is_null());
    let cost = cost.or_else(|| raw.get("calculatedTotalCost")).cloned();
    let part = |name: &str| usage.get(name).cloned().unwrap_or(Value::Null);
    span.fill("gen_ai.request.model", json!(model));
    span.fill("gen_ai.usage.input_tokens", part("input"));
    span.fill("gen_ai.usage.output_tokens", part("output"));
    span.fill("gen_ai.usage.cost", cost.unwrap_or(Value::Null));
    span.fill("input.value", raw.get("input").cloned().unwrap_or(Value::Null));
    span.fill("output.value", raw.get("output").cloned().unwrap_or(Value::Null));
    span.fill("metadata", raw.get("metadata").cloned().unwrap_or(Value::Null));
    Some(span)
}
