//! Handing a case over, and the answer that is the end of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_contracts::{EnvSnapshot, ErrorCode, FailureClass};
use serde_json::json;
use tokio::sync::Notify;

use crate::door::{Door, answer, never, ok};
use crate::stage::{PROMPT, Settings, Stage};
use crate::{front_door, job, marks};

#[tokio::test]
async fn the_front_door_gets_the_run_and_its_answer_is_the_output() {
    let door = Door::answering(|_| ok(json!({ "ok": true, "trace": [] }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let result = stage.run(job(json!({}))).await.unwrap();
    let hits = door.hits("POST /runs");
    let sent = json!({ "task": "buy \"milk\"", "thread_id": "run-r1", "stream_channel": "run-r1", "minio_prefix": "runs/r1/" });
    assert_eq!(hits[0].json(), sent);
    assert_eq!(hits[0].headers["content-type"], "application/json");
    assert_eq!(
        hits[0].headers["content-length"].to_str().unwrap(),
        hits[0].body.len().to_string()
    );
    match &result.snapshot {
        EnvSnapshot::Prompt(prompt) => assert_eq!(prompt.output, r#"{"ok":true,"trace":[]}"#),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_is_text_is_shown_as_it_stands_and_one_that_is_no_json_as_nothing() {
    for (body, shown) in [("\"plain\"", "plain"), ("not json", ""), ("", "")] {
        let door = Door::answering(move |_| answer(200, body)).await;
        let result = Stage::new(Settings::default(), &door)
            .run(job(json!({})))
            .await
            .unwrap();
        assert_eq!(result.snapshot, EnvSnapshot::prompt(shown), "{body}");
    }
}

#[tokio::test]
async fn template_headers_and_path_are_filled_in() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let change = json!({
        "submit": "PUT /runs/{run_id}/{task}",
        "request": { "bodyTemplate": { "q": "{{task}} {{schema}} {{nope}}" }, "headers": { "X-Run": "run={{run_id}}" } },
    });
    let mut job = front_door(change);
    job["harnessSpec"]["dependencies"] =
        json!([{ "store": "postgres", "role": "db", "isolateBy": "schema" }]);
    stage.run(job).await.unwrap();
    let hits = door.hits("PUT /runs/r1/buy%20%22milk%22");
    assert_eq!(hits[0].headers["x-run"], "run=r1");
    let sent = hits[0].json()["q"].as_str().unwrap().to_owned();
    assert!(
        sent.starts_with("buy \"milk\" r_") && sent.ends_with(" {{nope}}"),
        "{sent}"
    );
}

#[tokio::test]
async fn files_of_the_case_go_along_as_a_form() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let mut job = front_door(json!({ "request": { "files": [{ "field": "doc", "from": "a.txt" }] } }));
    job["evalCase"]["env"] = json!({ "kind": "repo", "source": { "files": { "a.txt": "content" } } });
    stage.run(job).await.unwrap();
    let hit = &door.hits("POST /runs")[0];
    let kind = hit.headers["content-type"].to_str().unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(hit.body.ends_with(&format!("--{boundary}--\r\n")), "{}", hit.body);
    assert!(
        hit.body.contains("name=\"task\"\r\n\r\nbuy \"milk\"\r\n"),
        "{}",
        hit.body
    );
    assert!(
        hit.body.contains("name=\"doc\"; filename=\"a.txt\""),
        "{}",
        hit.body
    );
}

#[tokio::test]
async fn a_submit_that_is_refused_fails_with_the_status_and_the_beginning_of_its_words() {
    let door = Door::answering(|_| answer(503, "x".repeat(5_000))).await;
    let fault = Stage::new(Settings::default(), &door)
        .run(job(json!({})))
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::UpstreamError);
    assert!(
        fault.message.contains("503") && fault.message.len() < 600,
        "{fault}"
    );
    assert!(fault.failure().retryable);
}

#[tokio::test]
async fn a_front_door_that_hangs_up_is_an_outage() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let settings = Settings {
        endpoints: [("web".to_owned(), "http://127.0.0.1:1".to_owned())].into(),
        ..Settings::default()
    };
    let fault = Stage::new(settings, &door).run(job(json!({}))).await.unwrap_err();
    let failure = fault.failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Infra, true),
        "{failure:?}"
    );
}

/// The budget once covered the drive only when the front door's mode had a limit of its own.
#[tokio::test]
async fn a_hung_drive_ends_with_the_cases_budget_and_says_what_was_wrong() {
    let door = Door::with(|_| Box::pin(never())).await;
    let settings = Settings {
        diagnosis: Some("service web ran out of memory".to_owned()),
        log: Some("Traceback".to_owned()),
        ..Settings::default()
    };
    let stage = Stage::new(settings, &door);
    let begun = Instant::now();
    let fault = stage
        .run(job(json!({ "evalCase": { "timeoutSec": 1 } })))
        .await
        .unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(1) + PROMPT);
    assert_eq!(fault.code, ErrorCode::HarnessRunFailed);
    let data = fault.extra.data.clone().unwrap();
    assert_eq!(
        (&data["reason"], &data["budgetSec"]),
        (&json!("completion-timeout"), &json!(1))
    );
    assert_eq!(data["topologyHealth"], "service web ran out of memory");
    let failure = fault.failure();
    assert!(
        failure.message.contains("completion-timeout") && failure.message.contains("ran out of memory"),
        "{failure:?}"
    );
    assert_eq!(failure.log_tail.as_deref(), Some("Traceback"));
    let events = failure.placement.unwrap().events.unwrap();
    assert!(
        events.iter().any(|event| event.contains("drive_submitted")),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_sync_drive_without_a_byte_for_too_long_times_out() {
    let door = Door::with(|_| Box::pin(never())).await;
    let stage = Stage::new(Settings::default(), &door);
    let fault = stage
        .run(front_door(
            json!({ "completion": { "mode": "sync", "timeoutMs": 50 } }),
        ))
        .await
        .unwrap_err();
    let data = fault.extra.data.unwrap();
    assert_eq!(data["reason"], "completion-timeout");
    assert!(!data.contains_key("budgetSec"), "{data:?}");
}

#[tokio::test]
async fn a_cancelled_drive_ends_at_once_and_gives_everything_back() {
    for completion in [
        json!({ "mode": "sync" }),
        json!({ "mode": "poll", "statusPath": "/s", "done": { "field": "s", "equals": 1 } }),
        json!({ "mode": "stream", "done": { "field": "s", "equals": 1 } }),
        json!({ "mode": "callback" }),
    ] {
        let door = Door::with(|_| Box::pin(never())).await;
        let stage = Stage::new(Settings::default(), &door);
        let job = front_door(json!({ "completion": completion }));
        stage.cancelled(job, || !door.calls().is_empty()).await;
        assert!(stage.did("release"), "{:?}", stage.done());
    }
}

/// A member that is gone answers no more; once the case waited for its whole budget.
#[tokio::test]
async fn a_member_that_ends_ends_the_drive_with_its_last_words() {
    let door = Door::with(|_| Box::pin(never())).await;
    let breaks = Arc::new(Notify::new());
    breaks.notify_one();
    let stage = Stage::new(
        Settings {
            breaks: Some(breaks),
            ..Settings::default()
        },
        &door,
    );
    let begun = Instant::now();
    let fault = stage.run(job(json!({}))).await.unwrap_err();
    assert!(begun.elapsed() < PROMPT);
    assert!(fault.message.contains("exit code 3"), "{fault}");
    assert_eq!(fault.extra.log_tail.as_deref(), Some("last words"));
}

#[tokio::test]
async fn a_returned_id_that_is_not_there_is_no_id() {
    for body in [json!({}), json!({ "id": "" }), json!({ "id": 7 })] {
        let door = Door::answering(move |_| ok(body.clone())).await;
        let stage = Stage::new(Settings::default(), &door);
        let fault = stage
            .run(front_door(
                json!({ "correlate": { "mode": "returned", "path": "id" } }),
            ))
            .await
            .unwrap_err();
        assert_eq!(fault.code, ErrorCode::UpstreamError);
        assert!(
            fault.message.contains("harnessSpec.frontDoor.correlate.path"),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn marks_tell_how_the_case_went() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let result = stage.run(job(json!({}))).await.unwrap();
    assert_eq!(
        marks(&result),
        [
            "topology_ready",
            "drive_submitted",
            "drive_completed",
            "target_released",
            "running"
        ]
    );
    assert_eq!(stage.shown(), 4, "each mark is shown as it is made");
}
