//! What a case left behind, by each way of delivery.

use everdict_contracts::{EnvSnapshot, ErrorCode, FailureClass};
use serde_json::{Value, json};

use crate::door::{Door, answer, ok};
use crate::job;
use crate::stage::{Settings, Stage};

fn delivered_by(delivery: Value) -> Value {
    job(
        json!({ "harnessSpec": { "target": { "kind": "browser", "engine": "chromium", "delivery": delivery } } }),
    )
}

fn page() -> Value {
    json!({ "kind": "browser", "url": "http://shop/", "dom": "<p>hi", "console": [] })
}

fn url(snapshot: &EnvSnapshot) -> &str {
    match snapshot {
        EnvSnapshot::Browser(page) => &page.url,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_snapshot_in_the_answer_is_taken_from_where_the_harness_says() {
    let door = Door::answering(|_| ok(json!({ "out": { "page": page() } }))).await;
    let result = Stage::new(Settings::default(), &door)
        .run(delivered_by(json!({ "mode": "sentinel", "path": "out.page" })))
        .await
        .unwrap();
    assert_eq!(url(&result.snapshot), "http://shop/");
}

#[tokio::test]
async fn an_answer_without_a_snapshot_is_the_harness_fault() {
    let door = Door::answering(|_| ok(json!({ "page": { "kind": "browser", "url": 1 } }))).await;
    for path in ["page", "nowhere"] {
        let stage = Stage::new(Settings::default(), &door);
        let fault = stage
            .run(delivered_by(json!({ "mode": "sentinel", "path": path })))
            .await
            .unwrap_err();
        assert_eq!(fault.code, ErrorCode::HarnessRunFailed, "{fault}");
        assert!(stage.did("dispose"));
    }
}

/// Inside the topology the sink goes by its service's name; from here it has another address.
#[tokio::test]
async fn a_sink_is_asked_where_it_is_and_the_member_is_told() {
    let door = Door::answering(|hit| {
        if hit.call == "POST /runs" {
            ok(json!({}))
        } else {
            ok(page())
        }
    })
    .await;
    for (sink, call) in [
        (
            "http://sink:7000/snap/{run_id}?t={task}".to_owned(),
            "GET /snap/r1?t=buy%20%22milk%22",
        ),
        (format!("{}/direct/{{run_id}}", door.url), "GET /direct/r1"),
        ("/own/{run_id}".to_owned(), "GET /own/r1"),
    ] {
        let settings = Settings {
            endpoints: [("sink".to_owned(), door.url.clone())].into(),
            ..Settings::default()
        };
        let stage = Stage::new(settings, &door);
        let result = stage
            .run(delivered_by(json!({ "mode": "egress", "sink": sink })))
            .await
            .unwrap();
        assert_eq!(url(&result.snapshot), "http://shop/");
        assert_eq!(door.hits(call).len(), 1, "{:?}", door.calls());
        assert!(
            stage.lines().iter().any(|line| line.contains("as its sink")),
            "{:?}",
            stage.lines()
        );
    }
}

#[tokio::test]
async fn only_http_is_fetched() {
    let door = Door::answering(|_| ok(json!({ "trace": [] }))).await;
    for sink in ["file:///etc/passwd", "ftp://x/y", "x/y"] {
        let stage = Stage::new(Settings::default(), &door);
        let fault = stage
            .run(delivered_by(json!({ "mode": "egress", "sink": sink })))
            .await
            .unwrap_err();
        assert!(
            fault.message.starts_with("harnessSpec.target.delivery.sink: "),
            "{fault}"
        );
        assert_eq!((fault.code, stage.done()), (ErrorCode::BadRequest, Vec::new()));
    }
}

#[tokio::test]
async fn a_sink_that_refuses_is_an_outage_and_one_that_talks_nonsense_the_harness_fault() {
    for (status, body, code) in [
        (503, "down", ErrorCode::UpstreamError),
        (302, "", ErrorCode::UpstreamError),
        (200, "nonsense", ErrorCode::HarnessRunFailed),
    ] {
        let door = Door::answering(move |hit| {
            if hit.call == "POST /runs" {
                ok(json!({}))
            } else {
                answer(status, body)
            }
        })
        .await;
        let stage = Stage::new(Settings::default(), &door);
        let fault = stage
            .run(delivered_by(json!({ "mode": "egress", "sink": "/snap" })))
            .await
            .unwrap_err();
        assert_eq!(fault.code, code, "{fault}");
    }
}

/// A browser that died once left an empty page, which was graded as the agent's work.
#[tokio::test]
async fn a_dead_browser_is_no_empty_page() {
    let door = Door::answering(|_| ok(json!({ "trace": [] }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let fault = stage
        .run(delivered_by(json!({ "mode": "reference" })))
        .await
        .unwrap_err();
    let failure = fault.failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Infra, true),
        "{failure:?}"
    );
    assert!(stage.did("dispose"));
}

#[tokio::test]
async fn a_trace_without_a_page_leaves_the_answer() {
    let door = Door::answering(|_| ok(json!({ "trace": [] }))).await;
    let stage = Stage::new(Settings::default(), &door);
    let result = stage.run(delivered_by(json!({ "mode": "trace" }))).await.unwrap();
    assert_eq!(result.snapshot, EnvSnapshot::prompt(r#"{"trace":[]}"#));
}
