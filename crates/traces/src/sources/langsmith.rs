//! LangSmith: the runs of a trace, page by page.

use std::collections::HashSet;

use everdict_contracts::Fault;
use serde_json::{Value, json};

use super::Spans;
use crate::fetch::{Budget, Client, failed};
use crate::span::{DeclaredKind, SpanRecord, SpanStatus};
use crate::value::{iso, list, text_field};

/// The most that the backend gives at once.
const PAGE: u32 = 100;

const SELECT: [&str; 13] = [
    "id",
    "parent_run_id",
    "name",
    "run_type",
    "start_time",
    "end_time",
    "inputs",
    "outputs",
    "error",
    "extra",
    "prompt_tokens",
    "completion_tokens",
    "total_cost",
];

pub(crate) async fn fetch(client: &Client, budget: &mut Budget, key: &str) -> Result<Spans, Fault> {
    let url = client.url(&["runs", "query"], &[]);
    let mut spans = Vec::new();
    let mut cursor: Option<String> = None;
    let mut seen = HashSet::new();
    for _ in 0..client.limits().pages {
        let mut body = json!({ "trace": key, "select": SELECT, "limit": PAGE });
        if let Some(cursor) = &cursor {
            body["cursor"] = json!(cursor);
        }
        let Some(answer) = client.post(budget, url.clone(), &body).await? else {
            return Ok(Spans::absent());
        };
        if !answer.is_object() {
            return Err(failed("LangSmith answered what isn't a list of runs"));
        }
        spans.extend(list(&answer, &["runs"]).iter().filter_map(span));
        cursor = answer
            .pointer("/cursors/next")
            .and_then(Value::as_str)
            .map(str::to_owned);
        match &cursor {
            None => return Ok(Spans::found(spans)),
            Some(next) if !seen.insert(next.clone()) => {
                return Err(failed("LangSmith gives the same page over and over"));
            }
            Some(_) => {}
        }
    }
    Err(failed("the trace has more pages than are read"))
}

fn span(raw: &Value) -> Option<SpanRecord> {
    let start = iso(raw.get("start_time")?)?;
    let end = raw.get("end_time").and_then(iso).unwrap_or(start);
    let name = text_field(raw, &["name"]).unwrap_or_default();
    let mut span = SpanRecord::new(text_field(raw, &["id"])?, name.clone(), start, end);
    span.parent = text_field(raw, &["parent_run_id"]);
    if let Some(error) = text_field(raw, &["error"]) {
        span.status = SpanStatus::Error(Some(error));
    }
    let value = |name: &str| raw.get(name).cloned().unwrap_or(Value::Null);
    span.declared = Some(match text_field(raw, &["run_type"]).as_deref() {
        Some("llm") => DeclaredKind::Model,
        Some("tool") => DeclaredKind::Tool,
        _ => DeclaredKind::Plain,
    });
    if span.declared == Some(DeclaredKind::Model) {
        let model = raw
            .pointer("/extra/metadata/ls_model_name")
            .and_then(Value::as_str);
        span.fill("gen_ai.request.model", json!(model.unwrap_or(&name)));
        span.fill("gen_ai.usage.input_tokens", value("prompt_tokens"));
        span.fill("gen_ai.usage.output_tokens", value("completion_tokens"));
        span.fill("gen_ai.usage.cost", value("total_cost"));
    }
    span.fill("input.value", value("inputs"));
    span.fill("output.value", value("outputs"));
    Some(span)
}
