//! Backends with shapes of their own.

use everdict_contracts::{Cost, SecretText, TraceBackend, TraceEventKind};
use serde_json::{Value, json};

use crate::support::{Backend, Reply, kinds, source};

#[tokio::test]
async fn langfuse_observations_are_read() {
    let time = |second: u32| format!("2026-01-01T00:00:0{second}.000Z");
    let backend = Backend::json(json!({ "id": "t", "observations": [
        { "id": "1", "type": "SPAN", "name": "root", "startTime": time(0), "endTime": time(3), "output": "words" },
        { "id": "2", "parentObservationId": "1", "type": "GENERATION", "name": "g", "model": "m", "startTime": time(1),
          "endTime": time(2), "usageDetails": { "input": 5, "output": 2 }, "calculatedTotalCost": 0.1, "output": "said" },
        { "id": "3", "type": "TOOL", "name": "grep", "startTime": time(2), "level": "ERROR", "statusMessage": "bad",
          "input": { "q": 1 }, "output": { "hits": 0 } },
    ] }))
    .await;
    let mut config = backend.config(TraceBackend::Langfuse);
    config
        .headers
        .insert("Authorization".to_owned(), SecretText::new("Basic made-up"));
    config.headers.insert("x-other".to_owned(), SecretText::new("t"));
    let pull = source(&config).fetch("t/../1").await.unwrap();
    let asked = &backend.asked()[0];
    assert_eq!(asked.uri, "/api/public/traces/t%2F..%2F1");
    assert_eq!(asked.headers["authorization"], "Basic made-up");
    assert!(!asked.headers.contains_key("x-other"));
    let kinds = kinds(&pull);
    assert!(
        matches!(&kinds[0], TraceEventKind::Span(span) if span.name == "root"),
        "{kinds:?}"
    );
    assert!(
        matches!(&kinds[1], TraceEventKind::LlmCall(call)
        if call.cost == Some(Cost { input_tokens: 5, output_tokens: 2, usd: 0.1 })),
        "{kinds:?}"
    );
    let call = kinds.iter().find_map(|kind| match kind {
        TraceEventKind::ToolCall(call) => Some(call),
        _ => None,
    });
    assert_eq!(call.unwrap().args, Some(json!({ "q": 1 })));
    assert!(
        kinds
            .iter()
            .any(|kind| matches!(kind, TraceEventKind::ToolResult(result)
        if !result.ok && result.output == "{\"hits\":0}"))
    );
    assert!(
        pull.events
            .iter()
            .all(|event| event.at.is_some() && event.span_id.is_some())
    );
}

#[tokio::test]
async fn langsmith_runs_are_read_page_by_page() {
    let backend = Backend::start(|_, asked| {
        let run = |id: &str, kind: &str| {
            json!({ "id": id, "name": "model-x", "run_type": kind, "start_time": "2026-01-01T00:00:00.000001",
                    "end_time": "2026-01-01T00:00:01.5", "total_cost": "0.75", "prompt_tokens": 8, "completion_tokens": 1,
                    "inputs": { "q": 1 }, "error": if kind == "tool" { json!("denied") } else { Value::Null } })
        };
        Reply::Json(match asked.body["cursor"].as_str() {
            None => json!({ "runs": [run("1", "llm")], "cursors": { "next": "c2" } }),
            Some(_) => json!({ "runs": [run("2", "tool"), run("3", "chain")], "cursors": { "next": null } }),
        })
    })
    .await;
    let mut config = backend.config(TraceBackend::Langsmith);
    config.auth = Some(SecretText::new("made-up"));
    let pull = source(&config).fetch("t1").await.unwrap();
    let asked = backend.asked();
    assert_eq!(
        (
            asked.len(),
            asked[0].uri.as_str(),
            asked[0].body["trace"].as_str()
        ),
        (2, "/runs/query", Some("t1"))
    );
    assert_eq!(asked[0].headers["x-api-key"], "made-up");
    assert!(!asked[0].headers.contains_key("authorization"));
    let kinds = kinds(&pull);
    assert!(
        matches!(&kinds[0], TraceEventKind::LlmCall(call)
        if call.model == "model-x" && call.cost == Some(Cost { input_tokens: 8, output_tokens: 1, usd: 0.75 })),
        "{kinds:?}"
    );
    assert!(
        kinds
            .iter()
            .any(|kind| matches!(kind, TraceEventKind::ToolResult(result) if !result.ok))
    );
    assert!(
        kinds
            .iter()
            .any(|kind| matches!(kind, TraceEventKind::Error(error) if error.message == "denied"))
    );
    assert!(kinds.iter().any(|kind| matches!(kind, TraceEventKind::Span(_))));
}

#[tokio::test]
async fn phoenix_spans_are_read_page_by_page_with_nested_or_flat_attributes() {
    let backend = Backend::start(|_, asked| {
        let span = |id: &str, kind: &str, attributes: Value| {
            json!({ "id": "row", "name": "n", "context": { "trace_id": "t", "span_id": id }, "span_kind": kind,
                    "parent_id": null, "start_time": "2026-01-01T00:00:00+00:00", "end_time": "2026-01-01T00:00:01+00:00",
                    "status_code": if kind == "TOOL" { "ERROR" } else { "OK" }, "status_message": "", "attributes": attributes })
        };
        let nested = json!({ "llm": { "model_name": "m", "token_count": { "prompt": 3, "completion": 2 } } });
        let flat = json!({ "output.value": "out", "input.value": "{\"q\":1}", "tool.name": "t" });
        Reply::Json(if asked.uri.contains("cursor=") {
            json!({ "data": [span("2", "TOOL", flat), span("3", "CHAIN", json!({ "output.value": "x" }))], "next_cursor": null })
        } else {
            json!({ "data": [span("1", "LLM", nested)], "next_cursor": "n 2" })
        })
    })
    .await;
    let mut config = backend.config(TraceBackend::Phoenix);
    config.project = Some("my project".to_owned());
    let pull = source(&config).fetch("t1").await.unwrap();
    let asked = backend.asked();
    assert_eq!(
        asked[0].uri,
        "/v1/projects/my%20project/spans?trace_id=t1&limit=1000"
    );
    assert_eq!(
        asked[1].uri,
        "/v1/projects/my%20project/spans?trace_id=t1&limit=1000&cursor=n+2"
    );
    let kinds = kinds(&pull);
    assert!(
        matches!(&kinds[0], TraceEventKind::LlmCall(call)
        if call.cost == Some(Cost { input_tokens: 3, output_tokens: 2, usd: 0.0 })),
        "{kinds:?}"
    );
    assert!(
        kinds.iter().any(
            |kind| matches!(kind, TraceEventKind::ToolCall(call) if call.args == Some(json!({ "q": 1 })))
        )
    );
    assert!(kinds.iter().any(
        |kind| matches!(kind, TraceEventKind::ToolResult(result) if !result.ok && result.output == "out")
    ));
    assert!(kinds.iter().any(|kind| matches!(kind, TraceEventKind::Span(_))));
}
