//! Each backend against a server that talks like it.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "backends/faults.rs"]
mod faults;
#[path = "backends/native.rs"]
mod native;
#[path = "backends/settling.rs"]
mod settling;
#[path = "backends/support.rs"]
mod support;

use everdict_contracts::{Correlate, Cost, ErrorCode, SecretText, TraceBackend, TraceEventKind};
use everdict_traces::{TraceConfig, TraceLimits, TraceState, source_for};
use serde_json::{Value, json};
use support::{Backend, Reply, kinds, source};

fn jaeger() -> Value {
    json!({ "data": [{
        "traceID": "t1",
        "processes": { "p1": { "serviceName": "agent", "tags": [{ "key": "host", "type": "string", "value": "h" }] } },
        "spans": [
            { "traceID": "t1", "spanID": "b", "operationName": "search", "processID": "p1",
              "startTime": 1_700_000_001_000_000_u64, "duration": 250_000,
              "references": [
                  { "refType": "FOLLOWS_FROM", "traceID": "t1", "spanID": "x" },
                  { "refType": "CHILD_OF", "traceID": "t1", "spanID": "a" },
              ],
              "tags": [
                  { "key": "tool.name", "value": "search" },
                  { "key": "otel.status_code", "value": "ERROR" },
                  { "key": "otel.status_description", "value": "no route" },
              ],
              "logs": [{ "timestamp": 1_700_000_001_100_000_u64, "fields": [{ "key": "event", "value": "retry" }] }] },
            { "traceID": "t1", "spanID": "a", "operationName": "run", "processID": "p1",
              "startTime": 1_700_000_000_000_000_u64, "duration": 2_000_000, "references": [], "tags": [] },
        ],
    }] })
}

#[tokio::test]
async fn jaeger_spans_keep_their_parents_their_status_and_their_process() {
    let backend = Backend::json(jaeger()).await;
    let mut config = backend.config(TraceBackend::Otel);
    config.auth = Some(SecretText::new("Bearer made-up"));
    config.headers.insert("x-tenant".to_owned(), SecretText::new("t"));
    let pull = source(&config).fetch("t1").await.unwrap();

    let asked = &backend.asked()[0];
    assert_eq!(
        (asked.method.as_str(), asked.uri.as_str()),
        ("GET", "/api/traces/t1")
    );
    assert_eq!(asked.headers["authorization"], "Bearer made-up");
    assert_eq!(asked.headers["x-tenant"], "t");

    assert_eq!(pull.state, TraceState::Unknown);
    let root = &pull.events[0];
    assert!(matches!(&root.kind, TraceEventKind::Span(span)
            if span.attributes.as_ref().unwrap()["service.name"] == "agent" && span.attributes.as_ref().unwrap()["host"] == "h"));
    let of_tool: Vec<_> = pull.events[1..].iter().collect();
    assert!(
        of_tool.iter().all(|event| event.parent_id == root.span_id),
        "{of_tool:?}"
    );
    assert!(
        of_tool
            .iter()
            .any(|event| matches!(&event.kind, TraceEventKind::ToolResult(result) if !result.ok))
    );
    assert!(
        of_tool
            .iter()
            .any(|event| matches!(&event.kind, TraceEventKind::Error(error) if error.message == "no route"))
    );
    assert!(
        of_tool
            .iter()
            .any(|event| matches!(&event.kind, TraceEventKind::Log(log) if log.text == "retry"))
    );
    assert_eq!(
        (of_tool[0].t, of_tool[0].at.as_deref()),
        (1000.0, Some("2023-11-14T22:13:21.000Z"))
    );
}

#[tokio::test]
async fn otlp_bodies_are_read_plain_and_grouped() {
    let span = |id: &str, parent: &str, code: Value| {
        json!({ "spanId": id, "parentSpanId": parent, "name": "t", "startTimeUnixNano": "1700000000000000000",
                "endTimeUnixNano": "1700000000500000000", "status": { "code": code, "message": "broken" },
                "attributes": [{ "key": "tool.name", "value": { "stringValue": "t" } }] })
    };
    let plain = json!({ "spans": [span("a", "", json!(2))] });
    let grouped = json!({ "resourceSpans": [{
        "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": "s" } }] },
        "scopeSpans": [{ "spans": [span("a", "", json!("STATUS_CODE_ERROR"))] }],
    }] });
    for body in [
        plain,
        grouped.clone(),
        json!({ "trace": grouped.clone() }),
        json!({ "batches": grouped["resourceSpans"] }),
    ] {
        let backend = Backend::json(body.clone()).await;
        let pull = backend.source(TraceBackend::Otel).fetch("t1").await.unwrap();
        let kinds = kinds(&pull);
        assert!(
            matches!(&kinds[..], [TraceEventKind::ToolCall(_), TraceEventKind::ToolResult(result), TraceEventKind::Error(error)]
                if !result.ok && error.message == "broken"),
            "{body}: {kinds:?}"
        );
        assert_eq!(pull.events[0].duration_ms, Some(500.0));
        assert_eq!(pull.events[0].parent_id, None);
    }
}

#[tokio::test]
async fn otel_is_searched_by_tag_within_a_service() {
    let backend = Backend::start(|_, _| Reply::Json(json!({ "data": [] }))).await;
    let mut config = backend.config(TraceBackend::Otel);
    config.correlate = Correlate::Tag;
    config.service = Some("my agent".to_owned());
    let pull = source(&config).fetch("run \"1\"").await.unwrap();
    assert_eq!((pull.events.len(), pull.state), (0, TraceState::Absent));
    let uri = backend.asked()[0].uri.clone();
    let tags = "%7B%22everdict.run_id%22%3A%22run+%5C%221%5C%22%22%7D";
    assert_eq!(uri, format!("/api/traces?service=my+agent&tags={tags}&limit=1"));
}

#[tokio::test]
async fn not_found_is_no_trace_yet_everywhere() {
    let backend = Backend::start(|_, _| Reply::Status(404, "no such trace")).await;
    for kind in [
        TraceBackend::Otel,
        TraceBackend::Mlflow,
        TraceBackend::Langfuse,
        TraceBackend::Langsmith,
        TraceBackend::Phoenix,
    ] {
        let mut config = backend.config(kind);
        config.project = Some("p".to_owned());
        let pull = source(&config).fetch("t1").await.unwrap();
        assert_eq!(
            (pull.events.len(), pull.state, pull.evidence),
            (0, TraceState::Absent, None),
            "{kind:?}"
        );
    }
}

fn mlflow(state: &str) -> Value {
    json!({ "trace": {
        "trace_info": { "trace_id": "tr-1", "state": state },
        "spans": [
            { "span_id": "a", "parent_span_id": "", "name": "llm", "start_time_unix_nano": 1_700_000_000_000_000_000_u64,
              "end_time_unix_nano": 1_700_000_001_000_000_000_u64, "status": { "code": "STATUS_CODE_OK" },
              "attributes": [
                  { "key": "mlflow.spanType", "value": { "string_value": "\"CHAT_MODEL\"" } },
                  { "key": "mlflow.llm.model", "value": { "string_value": "m" } },
                  { "key": "mlflow.chat.tokenUsage", "value": { "kvlist_value": { "values": [
                      { "key": "input_tokens", "value": { "int_value": "11" } },
                      { "key": "output_tokens", "value": { "int_value": "4" } } ] } } },
                  { "key": "mlflow.llm.cost", "value": { "string_value": "{\"total_cost\": 0.25}" } },
              ] },
            { "span_id": "b", "parent_span_id": "a", "name": "lookup", "start_time_unix_nano": 1_700_000_000_500_000_000_u64,
              "status": { "code": "STATUS_CODE_ERROR", "message": "gone" },
              "attributes": [
                  { "key": "mlflow.spanType", "value": { "string_value": "\"TOOL\"" } },
                  { "key": "mlflow.spanInputs", "value": { "string_value": "{\"q\": 1}" } } ] },
        ],
    } })
}

#[tokio::test]
async fn mlflow_is_read_by_id() {
    let backend = Backend::json(mlflow("OK")).await;
    let pull = backend.source(TraceBackend::Mlflow).fetch("tr-1").await.unwrap();
    assert_eq!(backend.asked()[0].uri, "/api/3.0/mlflow/traces/get?trace_id=tr-1");
    assert_eq!(pull.state, TraceState::Ended);
    let kinds = kinds(&pull);
    assert!(
        matches!(&kinds[0], TraceEventKind::LlmCall(call)
        if call.model == "m" && call.cost == Some(Cost { input_tokens: 11, output_tokens: 4, usd: 0.25 })),
        "{kinds:?}"
    );
    assert!(
        matches!(&kinds[1], TraceEventKind::ToolCall(call) if call.args == Some(json!({ "q": 1 }))),
        "{kinds:?}"
    );
    assert!(
        matches!(&kinds[2], TraceEventKind::ToolResult(result) if !result.ok),
        "{kinds:?}"
    );
    let running = Backend::json(mlflow("IN_PROGRESS")).await;
    let pull = running.source(TraceBackend::Mlflow).fetch("tr-1").await.unwrap();
    assert_eq!(pull.state, TraceState::Running);
}

#[tokio::test]
async fn mlflow_is_searched_by_tag_and_then_by_metadata() {
    let backend = Backend::start(|_, asked| {
        if asked.method == "GET" {
            return Reply::Json(mlflow("OK"));
        }
        match asked.body["filter"].as_str().unwrap().starts_with("tags.") {
            true => Reply::Json(json!({ "traces": [] })),
            false => Reply::Json(json!({ "traces": [{ "trace_id": "tr-9" }] })),
        }
    })
    .await;
    let mut config = backend.config(TraceBackend::Mlflow);
    config.correlate = Correlate::Tag;
    config.tag = "my.tag".to_owned();
    config.project = Some("7".to_owned());
    let pull = source(&config).fetch("it's 1").await.unwrap();
    assert!(!pull.events.is_empty());
    let asked = backend.asked();
    assert_eq!(asked[0].uri, "/api/3.0/mlflow/traces/search");
    assert_eq!(asked[0].body["filter"], "tags.`my.tag` = 'it''s 1'");
    assert_eq!(
        asked[0].body["locations"][0]["mlflow_experiment"]["experiment_id"],
        "7"
    );
    assert_eq!(asked[0].body["max_results"], 1);
    assert_eq!(asked[1].body["filter"], "request_metadata.`my.tag` = 'it''s 1'");
    assert_eq!(asked[2].uri, "/api/3.0/mlflow/traces/get?trace_id=tr-9");

    // A server that doesn't know metadata has no such trace; one that fails the first search has an error.
    for (failing, fails) in [("request_metadata.", false), ("tags.", true)] {
        let backend = Backend::start(move |_, asked| match asked.body["filter"].as_str() {
            Some(filter) if filter.starts_with(failing) => Reply::Status(500, "oh"),
            _ => Reply::Json(json!({})),
        })
        .await;
        config.endpoint = backend.base.clone();
        assert_eq!(source(&config).fetch("x").await.is_err(), fails, "{failing}");
    }
}

#[test]
fn what_a_search_needs_is_asked_for_by_its_field() {
    let refused = |config: &TraceConfig, part: &str| {
        let fault = source_for(config, TraceLimits::default()).err().unwrap();
        assert_eq!(fault.code, ErrorCode::BadRequest);
        assert!(fault.message.contains(part), "{fault}");
        assert!(!fault.full_message().contains("made-up"), "{fault}");
    };
    let mut config = TraceConfig::new(TraceBackend::Phoenix, "http://127.0.0.1:1");
    refused(&config, "traceSource.project");
    config.kind = TraceBackend::Mlflow;
    config.correlate = Correlate::Tag;
    refused(&config, "traceSource.project");
    config.kind = TraceBackend::Otel;
    refused(&config, "traceSource.service");
    config.correlate = Correlate::Id;
    config.auth = Some(SecretText::new("made-up\n"));
    refused(&config, "credential");
    for endpoint in ["", "nowhere", "ftp://127.0.0.1", "http://user:made-up@127.0.0.1"] {
        config.endpoint = endpoint.to_owned();
        refused(&config, "traceSource.endpoint");
    }
    assert!(!format!("{config:?}").contains("made-up\\n"));
}
