//! Completion by a stream of events.

use std::time::{Duration, Instant};

use everdict_contracts::{EnvSnapshot, ErrorCode};
use serde_json::{Value, json};

use crate::door::{Door, never, pieces};
use crate::stage::{PROMPT, Settings, Stage};
use crate::{front_door, infra};

fn stream(timeout_ms: u64) -> Value {
    json!({ "completion": {
        "mode": "stream", "timeoutMs": timeout_ms,
        "done": { "field": "state", "equals": "done" }, "failed": { "field": "state", "equals": "failed" },
    } })
}

async fn run(
    parts: &'static [&'static str],
    then_hang: bool,
    timeout_ms: u64,
) -> (
    Door,
    Stage,
    Result<everdict_contracts::CaseResult, everdict_contracts::Fault>,
) {
    let door = Door::answering(move |_| pieces(parts, then_hang)).await;
    let stage = Stage::new(Settings::default(), &door);
    let outcome = stage.run(front_door(stream(timeout_ms))).await;
    (door, stage, outcome)
}

/// The connection stays open: the event is the end, not the end of the stream.
#[tokio::test]
async fn the_event_that_says_done_is_the_end() {
    let parts = &[
        "data: {\"state\":",
        "\"working\"}\r\n\r\n: ping\r\n\r\nda",
        "ta: {\"state\":\"done\",\r\ndata: \"n\":1}\r\n\r\n",
    ];
    let (door, _, outcome) = run(parts, true, 5_000).await;
    assert_eq!(
        outcome.unwrap().snapshot,
        EnvSnapshot::prompt(r#"{"n":1,"state":"done"}"#)
    );
    assert!(
        door.hits("POST /runs")[0].headers["accept"]
            .to_str()
            .unwrap()
            .starts_with("text/event-stream")
    );
}

#[tokio::test]
async fn the_last_event_counts_without_a_blank_line_after_it() {
    let (_, _, outcome) = run(&["data: {\"state\":\"done\"}"], false, 5_000).await;
    outcome.unwrap();
}

#[tokio::test]
async fn a_document_a_line_and_words_in_between_are_understood() {
    let (_, _, outcome) = run(
        &[
            "{\"state\":\"working\"}\n",
            "data: [DONE]\n\n",
            "{\"state\":\"done\"}\n",
        ],
        true,
        5_000,
    )
    .await;
    outcome.unwrap();
}

#[tokio::test]
async fn failed_is_looked_for_before_done_and_is_graded() {
    let (_, _, outcome) = run(&["data: {\"state\":\"failed\"}\n\n"], true, 5_000).await;
    let result = outcome.unwrap();
    assert!(
        infra(&result)
            .iter()
            .any(|infra| infra.message.contains("failed"))
    );
    assert_eq!(result.scores.len(), 1);
}

/// Once the socket's own error came up, as an outage of the machine.
#[tokio::test]
async fn a_stream_without_an_event_times_out_like_any_other() {
    let begun = Instant::now();
    let (_, _, outcome) = run(&[], true, 200).await;
    let fault = outcome.unwrap_err();
    assert!(begun.elapsed() < Duration::from_millis(200) + PROMPT);
    assert_eq!(fault.code, ErrorCode::HarnessRunFailed);
    assert_eq!(fault.extra.data.unwrap()["reason"], "completion-timeout");

    let door = Door::with(|_| Box::pin(never())).await;
    let fault = Stage::new(Settings::default(), &door)
        .run(front_door(stream(200)))
        .await
        .unwrap_err();
    assert_eq!(fault.extra.data.unwrap()["reason"], "completion-timeout");
}

#[tokio::test]
async fn a_stream_that_ends_without_an_end_is_out_of_time_at_once() {
    let begun = Instant::now();
    let (_, _, outcome) = run(&["data: {\"state\":\"working\"}\n\n"], false, 60_000).await;
    let fault = outcome.unwrap_err();
    assert!(begun.elapsed() < PROMPT);
    assert!(
        fault.message.contains("completion-timeout") && fault.message.contains("working"),
        "{fault}"
    );
}

#[tokio::test]
async fn the_first_event_names_the_run() {
    let door = Door::answering(|_| {
        pieces(
            &["data: {\"id\":\"abc\"}\n\ndata: {\"state\":\"done\"}\n\n"],
            true,
        )
    })
    .await;
    let stage = Stage::new(Settings::default(), &door);
    let mut change = stream(5_000);
    change["correlate"] = json!({ "mode": "returned", "path": "id" });
    stage.run(front_door(change.clone())).await.unwrap();

    change["correlate"]["path"] = json!("nope");
    let fault = stage.run(front_door(change)).await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::UpstreamError);
}
