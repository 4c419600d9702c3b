//! The trace of a run: waited for, degraded when it can't be had, and as the sign of the end.

use std::time::Instant;

use everdict_contracts::{ErrorCode, TraceEventKind};
use serde_json::{Value, json};

use crate::door::{Door, answer, never, ok};
use crate::stage::{PROMPT, Settings, Stage};
use crate::{errors, front_door, job, marks};

fn jaeger(spans: usize) -> Value {
    let span = |index: usize| {
        json!({
            "spanID": format!("{index:016x}"), "operationName": "execute_tool", "startTime": 1_000_000, "duration": 10,
            "tags": [{ "key": "gen_ai.tool.name", "value": "click" }, { "key": "gen_ai.operation.name", "value": "execute_tool" }],
        })
    };
    json!({ "data": [{ "spans": (0..spans).map(span).collect::<Vec<_>>() }] })
}

/// A job whose trace is at `backend`.
fn traced(backend: &Door, front_door_change: Value) -> Value {
    let mut job = front_door(front_door_change);
    job["harnessSpec"]["frontDoor"]
        .as_object_mut()
        .unwrap()
        .remove("traceInline");
    job["harnessSpec"]["traceSource"] = json!({ "kind": "otel", "endpoint": backend.url });
    job
}

/// Agents export some seconds after they are done; one look right away once found nothing.
#[tokio::test]
async fn a_trace_that_comes_late_is_waited_for() {
    let backend = Door::answering(|hit| {
        if hit.before < 1 {
            answer(404, "")
        } else {
            ok(jaeger(2))
        }
    })
    .await;
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let result = stage.run(traced(&backend, json!({}))).await.unwrap();
    assert!(
        backend.hits("GET /api/traces/r1").len() >= 3,
        "{:?}",
        backend.calls()
    );
    let calls = result
        .trace
        .iter()
        .filter(|event| matches!(event.kind, TraceEventKind::ToolCall(_)))
        .count();
    assert_eq!(calls, 2, "{:?}", result.trace);
    assert_eq!(serde_json::to_value(&result.scores[0]).unwrap()["value"], 2);
    assert_eq!(result.source_trace_id.as_deref(), Some("r1"));
}

#[tokio::test]
async fn the_key_is_the_harness_own_or_the_id_that_the_front_door_gave() {
    for (change, key) in [
        (json!({ "contextId": "ctx-{{thread_id}}" }), "ctx-run-r1"),
        (
            json!({ "correlate": { "mode": "returned", "path": "id" } }),
            "abc",
        ),
    ] {
        let backend = Door::answering(|_| ok(jaeger(1))).await;
        let door = Door::answering(|_| ok(json!({ "id": "abc" }))).await;
        let stage = Stage::new(Settings::default(), &door);
        stage.run(traced(&backend, change)).await.unwrap();
        assert!(
            !backend.hits(&format!("GET /api/traces/{key}")).is_empty(),
            "{:?}",
            backend.calls()
        );
    }
}

#[tokio::test]
async fn a_trace_that_can_not_be_had_is_one_error_and_the_case_is_graded() {
    let backend = Door::answering(|_| answer(401, "no")).await;
    let door = Door::answering(|_| ok(json!({ "ok": 1 }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let result = stage.run(traced(&backend, json!({}))).await.unwrap();
    let found = errors(&result);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("trace fetch failed: "), "{found:?}");
    let first = &result.trace[0];
    assert!(first.at.is_some() && first.t > 1e12, "{first:?}");
    assert_eq!(
        (result.scores.len(), result.trace_sealed, result.source_trace_id),
        (1, None, None)
    );
}

#[tokio::test]
async fn an_endpoint_that_is_none_degrades_unless_the_end_hangs_on_it() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let mut job = front_door(json!({ "traceInline": null }));
    job["harnessSpec"]["traceSource"]["endpoint"] = json!("file:///etc/passwd");
    let result = stage.run(job.clone()).await.unwrap();
    assert!(
        errors(&result)[0].starts_with("trace fetch failed: "),
        "{:?}",
        result.trace
    );

    job["harnessSpec"]["frontDoor"]["completion"] = json!({ "mode": "trace" });
    let before = door.calls().len();
    let fault = stage.run(job).await.unwrap_err();
    assert_eq!((fault.code, door.calls().len()), (ErrorCode::BadRequest, before));
}

#[tokio::test]
async fn the_trace_is_the_end_while_the_front_door_still_holds_the_request() {
    let backend = Door::answering(|hit| {
        if hit.before < 2 {
            answer(404, "")
        } else {
            ok(jaeger(1))
        }
    })
    .await;
    let door = Door::with(|_| Box::pin(never())).await;
    let stage = Stage::new(Settings::default(), &door);
    let completion = json!({ "completion": { "mode": "trace", "intervalMs": 20, "timeoutMs": 10_000 } });
    let result = stage.run(traced(&backend, completion)).await.unwrap();
    assert!(marks(&result).contains(&"drive_completed"));
    assert_eq!(door.hits("POST /runs").len(), 1);
}

#[tokio::test]
async fn a_submit_that_is_refused_ends_the_wait_for_the_trace() {
    let backend = Door::answering(|_| answer(404, "")).await;
    let door = Door::answering(|_| answer(400, "bad task")).await;
    let stage = Stage::new(Settings::default(), &door);
    let begun = Instant::now();
    let completion = json!({ "completion": { "mode": "trace", "intervalMs": 20, "timeoutMs": 60_000 } });
    let fault = stage.run(traced(&backend, completion)).await.unwrap_err();
    assert!(begun.elapsed() < PROMPT);
    assert!(fault.message.contains("400: bad task"), "{fault}");
}

#[tokio::test]
async fn a_trace_that_never_ends_is_out_of_time() {
    let backend = Door::answering(|_| answer(503, "down")).await;
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let completion = json!({ "completion": { "mode": "trace", "intervalMs": 20, "timeoutMs": 200 } });
    let fault = stage.run(traced(&backend, completion)).await.unwrap_err();
    assert_eq!(fault.extra.data.as_ref().unwrap()["reason"], "completion-timeout");
}

#[tokio::test]
async fn a_cancelled_case_does_not_wait_for_its_trace() {
    let backend = Door::with(|_| Box::pin(never())).await;
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    stage
        .cancelled(traced(&backend, json!({})), || !backend.calls().is_empty())
        .await;
}

#[tokio::test]
async fn the_member_is_told_which_hosts_are_asked() {
    let door = Door::answering(|_| ok(json!({ "trace": [] }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let mut job = job(json!({}));
    job["harnessSpec"]["frontDoor"]["traceInline"] = Value::Null;
    job["harnessSpec"]["frontDoor"]
        .as_object_mut()
        .unwrap()
        .remove("traceInline");
    stage.run(job).await.unwrap();
    assert!(
        stage
            .lines()
            .iter()
            .any(|line| line.contains("127.0.0.1") && line.contains("trace source")),
        "{:?}",
        stage.lines()
    );
}

/// What a secret's name stands for only the control plane knows: the backend is asked without, and the job is told.
#[tokio::test]
async fn a_trace_source_whose_secret_is_only_named_is_asked_without_and_the_job_told() {
    let backend = Door::answering(|_| answer(401, "who are you")).await;
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let mut job = traced(&backend, json!({}));
    job["harnessSpec"]["traceSource"]["authSecret"] = json!("TRACE_KEY");
    let result = stage.run(job).await.unwrap();
    assert!(
        stage
            .lines()
            .iter()
            .any(|line| line.contains("names the secret `TRACE_KEY`, which this runner can't resolve")),
        "{:?}",
        stage.lines()
    );
    assert!(!backend.calls().is_empty());
    let told = errors(&result);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("TRACE_KEY"), "{told:?}");
}
