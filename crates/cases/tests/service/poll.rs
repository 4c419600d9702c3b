//! Completion by a status that is asked for.

use std::time::{Duration, Instant};

use everdict_contracts::{EnvSnapshot, ErrorCode};
use serde_json::{Value, json};

use crate::door::{Door, answer, never, ok};
use crate::stage::{PROMPT, Settings, Stage};
use crate::{front_door, marks};

fn poll(change: Value) -> Value {
    let mut completion = json!({
        "mode": "poll", "statusPath": "/runs/{run_id}", "intervalMs": 10, "timeoutMs": 5_000,
        "done": { "field": "state", "equals": "done" }, "failed": { "field": "state", "oneOf": ["failed", "lost"] },
    });
    crate::merge(&mut completion, change);
    completion
}

#[tokio::test]
async fn the_status_is_asked_for_under_the_id_that_the_front_door_gave_until_it_is_done() {
    let door = Door::answering(|hit| match (hit.call.as_str(), hit.before) {
        ("POST /runs", _) => ok(json!({ "id": "abc/1" })),
        ("GET /runs/abc%2F1", 0) => ok(json!({ "state": "running" })),
        _ => ok(json!({ "state": "done", "n": 1 })),
    })
    .await;
    let stage = Stage::new(Settings::default(), &door);
    let job = front_door(
        json!({ "completion": poll(json!({})), "correlate": { "mode": "returned", "path": "id" } }),
    );
    let result = stage.run(job).await.unwrap();
    assert_eq!(door.hits("GET /runs/abc%2F1").len(), 2);
    assert_eq!(result.snapshot, EnvSnapshot::prompt(r#"{"n":1,"state":"done"}"#));
}

/// Protected status endpoints once could not be polled at all.
#[tokio::test]
async fn verb_and_headers_of_the_harness_are_honoured() {
    let door = Door::answering(|hit| match hit.headers.get("authorization") {
        Some(value) if value == "Bearer r1" => ok(json!({ "state": "done" })),
        _ => answer(401, "who are you"),
    })
    .await;
    let stage = Stage::new(Settings::default(), &door);
    let job = front_door(json!({
        "completion": poll(json!({ "statusPath": "post /status" })),
        "request": { "headers": { "Authorization": "Bearer {{run_id}}" } },
    }));
    stage.run(job).await.unwrap();
    let hit = &door.hits("POST /status")[0];
    assert_eq!(hit.headers["accept"], "application/json");
    assert!(!hit.headers.contains_key("content-type"), "{hit:?}");
}

#[tokio::test]
async fn a_server_fault_is_waited_out_and_a_client_fault_is_not() {
    let door = Door::answering(|hit| match (hit.call.as_str(), hit.before) {
        ("POST /runs", _) => ok(json!({})),
        (_, 0) => answer(503, "starting"),
        (_, 1) => answer(429, "slow down"),
        (_, 2) => answer(200, "no json"),
        _ => ok(json!({ "state": "done" })),
    })
    .await;
    let stage = Stage::new(Settings::default(), &door);
    stage
        .run(front_door(json!({ "completion": poll(json!({})) })))
        .await
        .unwrap();
    assert_eq!(door.hits("GET /runs/r1").len(), 4);

    let door = Door::answering(|hit| {
        if hit.call == "POST /runs" {
            ok(json!({}))
        } else {
            answer(404, "no such run")
        }
    })
    .await;
    let stage = Stage::new(Settings::default(), &door);
    let fault = stage
        .run(front_door(json!({ "completion": poll(json!({})) })))
        .await
        .unwrap_err();
    assert_eq!(
        (fault.code, door.hits("GET /runs/r1").len()),
        (ErrorCode::UpstreamError, 1)
    );
    assert!(fault.message.contains("404: no such run"), "{fault}");
}

/// A status endpoint that takes the connection and says nothing once outlived the budget.
#[tokio::test]
async fn a_hung_status_ends_with_the_modes_limit() {
    let door = Door::with(|hit| match hit.call.as_str() {
        "POST /runs" => Box::pin(async { ok(json!({})) }),
        _ => Box::pin(never()),
    })
    .await;
    let stage = Stage::new(Settings::default(), &door);
    let begun = Instant::now();
    let fault = stage
        .run(front_door(
            json!({ "completion": poll(json!({ "timeoutMs": 200 })) }),
        ))
        .await
        .unwrap_err();
    assert!(begun.elapsed() < Duration::from_millis(200) + PROMPT);
    assert_eq!(fault.extra.data.as_ref().unwrap()["reason"], "completion-timeout");
}

#[tokio::test]
async fn time_running_out_tells_the_last_status() {
    let door = Door::answering(|_| ok(json!({ "state": "step 3 of 9" }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let fault = stage
        .run(front_door(
            json!({ "completion": poll(json!({ "timeoutMs": 100 })) }),
        ))
        .await
        .unwrap_err();
    assert!(fault.message.contains("step 3 of 9"), "{fault}");
    assert!(!fault.extra.data.unwrap().contains_key("budgetSec"));
}

#[tokio::test]
async fn a_failed_run_is_graded_like_any_other() {
    let door = Door::answering(|_| ok(json!({ "state": "lost", "trace": [] }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let result = stage
        .run(front_door(json!({ "completion": poll(json!({})) })))
        .await
        .unwrap();
    assert_eq!((result.scores.len(), result.failure), (1, None));
    assert_eq!(
        result.snapshot,
        EnvSnapshot::prompt(r#"{"state":"lost","trace":[]}"#)
    );
}

#[tokio::test]
async fn done_is_looked_for_before_failed() {
    let door = Door::answering(|_| ok(json!({ "state": "done" }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let both = poll(json!({ "failed": { "field": "state", "equals": "done" } }));
    let result = stage
        .run(front_door(json!({ "completion": both })))
        .await
        .unwrap();
    assert!(marks(&result).contains(&"drive_completed"));
    let words = crate::infra(&result)
        .iter()
        .map(|infra| infra.message.clone())
        .collect::<Vec<_>>()
        .join("\n");
    assert!(!words.contains("failed"), "{words}");
}
