use everdict_contracts::Cost;
use serde_json::{Value, json};

use super::*;

fn span(id: &str, start: f64, end: f64, attributes: Value) -> SpanRecord {
    let Value::Object(attributes) = attributes else {
        panic!("attributes are an object")
    };
    SpanRecord {
        attributes,
        ..SpanRecord::new(id, format!("span {id}"), start, end)
    }
}

fn events(spans: &[SpanRecord]) -> Vec<TraceEvent> {
    project(spans, &SpanAttrMapping::default())
}

fn kinds(spans: &[SpanRecord]) -> Vec<TraceEventKind> {
    events(spans).into_iter().map(|event| event.kind).collect()
}

fn assistant(text: &str) -> TraceEventKind {
    Message {
        role: Role::Assistant,
        text: text.to_owned(),
    }
    .into()
}

#[test]
fn every_event_has_its_place_in_time_and_tree() {
    let mut child = span("c", 1_700_000_001_000.0, 1_700_000_001_250.0, json!({}));
    child.parent = Some("p".to_owned());
    let all = events(&[
        span("p", 1_700_000_000_000.0, 1_700_000_002_000.0, json!({})),
        child,
    ]);
    assert_eq!((all[0].t, all[1].t), (0.0, 1000.0));
    assert_eq!(all[1].at.as_deref(), Some("2023-11-14T22:13:21.000Z"));
    assert_eq!(all[1].parent_id, all[0].span_id);
    assert_eq!(all[1].duration_ms, Some(250.0));
    assert_eq!(all[0].span_id.as_ref().map(String::len), Some(16));
}

#[test]
fn a_model_call_has_tokens_money_and_its_words() {
    let attributes = json!({
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": "7",
        "gen_ai.usage.output_tokens": 3, "everdict.cost.usd": 0.5, "everdict.output": "hi",
    });
    let call = LlmCall {
        model: "m".to_owned(),
        cost: Some(Cost {
            input_tokens: 7,
            output_tokens: 3,
            usd: 0.5,
        }),
        latency_ms: Some(20.0),
    };
    assert_eq!(
        kinds(&[span("a", 0.0, 20.0, attributes)]),
        [call.into(), assistant("hi")]
    );
    let unknown = kinds(&[span(
        "a",
        0.0,
        1.0,
        json!({ "mlflow.chat.tokenUsage": "{\"input_tokens\":1}" }),
    )]);
    assert!(
        matches!(&unknown[0], TraceEventKind::LlmCall(call) if call.model == "unknown" && call.cost.is_some())
    );
}

#[test]
fn a_tool_that_failed_is_not_ok_and_leaves_an_error() {
    let mut tool = span(
        "t",
        0.0,
        30.0,
        json!({ "tool.name": "search", "tool.call_id": "c1", "tool.arguments": "{\"q\":1}", "tool.result": "no" }),
    );
    tool.status = SpanStatus::Error(Some("timed out".to_owned()));
    let all = events(&[tool.clone()]);
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "search".to_owned(),
        args: Some(json!({ "q": 1 })),
    };
    assert_eq!(all[0].kind, call.into());
    assert_eq!(
        all[1].kind,
        ToolResult {
            id: "c1".to_owned(),
            ok: false,
            output: "no".to_owned()
        }
        .into()
    );
    assert_eq!(all[1].t, 30.0);
    assert_eq!(
        all[2].kind,
        ErrorEvent {
            message: "timed out".to_owned()
        }
        .into()
    );
    tool.status = SpanStatus::Ok;
    assert!(matches!(&kinds(&[tool])[..], [_, TraceEventKind::ToolResult(result)] if result.ok));
}

#[test]
fn each_way_to_declare_a_tool_counts() {
    for key in [
        "mlflow.spanType",
        "openinference.span.kind",
        "span.kind",
        "traceloop.span.kind",
    ] {
        let all = kinds(&[span("t", 0.0, 1.0, json!({ key: "TOOL" }))]);
        assert!(
            matches!(&all[0], TraceEventKind::ToolCall(call) if call.name == "span t"),
            "{key}"
        );
    }
    let plain = kinds(&[span("t", 0.0, 1.0, json!({ "span.kind": "client" }))]);
    assert!(matches!(&plain[..], [TraceEventKind::Span(_)]));
}

#[test]
fn an_agent_counts_its_tokens_only_when_nobody_below_does() {
    let agent = json!({
        "gen_ai.operation.name": "invoke_agent", "everdict.input": "do it",
        "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 9,
    });
    let chat = json!({ "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 9 });
    let calls = |spans: &[SpanRecord]| {
        kinds(spans)
            .iter()
            .filter(|kind| matches!(kind, TraceEventKind::LlmCall(_)))
            .count()
    };
    let alone = [span("a", 0.0, 9.0, agent)];
    assert_eq!(calls(&alone), 1);
    let with_chat = [alone[0].clone(), span("b", 1.0, 2.0, chat)];
    assert_eq!(calls(&with_chat), 1);
    let user = Message {
        role: Role::User,
        text: "do it".to_owned(),
    };
    assert_eq!(kinds(&with_chat)[1], user.into());
}

#[test]
fn the_mapping_goes_before_the_usual_names() {
    let mapping = SpanAttrMapping {
        model: Some(vec!["my.model".to_owned()]),
        ..SpanAttrMapping::default()
    };
    let all = project(
        &[span(
            "a",
            0.0,
            1.0,
            json!({ "my.model": "mine", "llm.model_name": "theirs" }),
        )],
        &mapping,
    );
    assert!(matches!(&all[0].kind, TraceEventKind::LlmCall(call) if call.model == "mine"));
}

#[test]
fn the_other_kinds_are_told_apart() {
    let all = kinds(&[
        span(
            "1",
            1.0,
            1.0,
            json!({ "artifact.uri": "s3://b/x.png", "artifact.name": "shot" }),
        ),
        span(
            "2",
            2.0,
            2.0,
            json!({ "everdict.env_action": "click", "everdict.input": "{\"x\":1}" }),
        ),
        span(
            "3",
            3.0,
            3.0,
            json!({ "message.content": "hello", "everdict.message.role": "user" }),
        ),
        span("4", 4.0, 4.0, json!({ "output.value": "done" })),
        span(
            "5",
            5.0,
            5.0,
            json!({ "everdict.plane": "placement", "message": "pulled" }),
        ),
    ]);
    assert!(matches!(&all[0], TraceEventKind::Artifact(artifact) if artifact.name == "shot"));
    assert!(matches!(&all[1], TraceEventKind::Span(_)));
    assert_eq!(
        all[2],
        EnvAction {
            action: "click".to_owned(),
            detail: Some(json!({ "x": 1 }))
        }
        .into()
    );
    assert_eq!(
        all[3],
        Message {
            role: Role::User,
            text: "hello".to_owned()
        }
        .into()
    );
    assert_eq!(all[4], assistant("done"));
    assert!(matches!(&all[5], TraceEventKind::Infra(infra) if infra.message == "pulled"));
}

#[test]
fn what_happened_within_a_span_is_logged() {
    let mut failing = span("a", 0.0, 9.0, json!({}));
    let point = |name: &str, attributes: Value| SpanPoint {
        at_ms: 5.0,
        name: name.to_owned(),
        attributes: attributes.as_object().unwrap().clone(),
    };
    failing.points = vec![
        point(
            "exception",
            json!({ "exception.type": "ValueError", "exception.message": "bad" }),
        ),
        point("retry", json!({})),
    ];
    let all = kinds(&[failing]);
    assert_eq!(
        all[1],
        LogEvent {
            stream: OutputStream::Stderr,
            text: "ValueError: bad".to_owned()
        }
        .into()
    );
    assert_eq!(
        all[2],
        LogEvent {
            stream: OutputStream::Stdout,
            text: "retry".to_owned()
        }
        .into()
    );
}
