//! Targets that a service hands out.

use std::time::Instant;

use everdict_contracts::{EnvSnapshot, ErrorCode};
use serde_json::{Value, json};

use crate::door::{Door, Hit, answer, ok};
use crate::stage::{PROMPT, Settings, Stage};
use crate::{infra, job, marks};

fn session(change: Value) -> Value {
    let mut acquire = json!({
        "mode": "service", "service": "web", "open": "post /sessions",
        "coordinates": { "session_id": "id", "target_cdp_url": "urls.cdp" },
        "close": "DELETE /sessions/{session_id}",
    });
    crate::merge(&mut acquire, change);
    job(
        json!({ "harnessSpec": { "target": { "kind": "browser", "engine": "chromium", "acquire": acquire } } }),
    )
}

fn opened() -> Value {
    json!({ "id": "s/1", "urls": { "cdp": "http://10.0.0.5:9222" } })
}

fn serve(hit: &Hit) -> axum::response::Response {
    match hit.call.as_str() {
        "POST /sessions" => ok(opened()),
        _ => ok(json!({ "trace": [] })),
    }
}

#[tokio::test]
async fn a_session_is_opened_handed_on_and_closed() {
    let door = Door::answering(serve).await;
    let stage = Stage::new(Settings::default(), &door);
    let result = stage.run(session(json!({}))).await.unwrap();
    assert_eq!(
        door.calls(),
        ["POST /sessions", "POST /runs", "DELETE /sessions/s%2F1"]
    );
    assert_eq!(door.hits("POST /sessions")[0].body, "{}");
    assert_eq!(
        door.hits("POST /runs")[0].json()["browser_cdp_url"],
        "http://10.0.0.5:9222"
    );
    assert!(!stage.did("browser"), "{:?}", stage.done());
    assert_eq!(result.snapshot, EnvSnapshot::prompt(""));
}

#[tokio::test]
async fn coordinates_that_services_want_per_run_are_in_the_body() {
    let door = Door::answering(serve).await;
    let mut job = session(json!({}));
    job["harnessSpec"]["services"][0]["perRun"] = json!(["session_id", "run_id"]);
    Stage::new(Settings::default(), &door).run(job).await.unwrap();
    let body = door.hits("POST /runs")[0].json();
    assert_eq!(
        (&body["session_id"], &body["run_id"]),
        (&json!("s/1"), &json!("r1"))
    );
}

#[tokio::test]
async fn a_session_that_can_not_be_used_is_closed_again() {
    let door = Door::answering(|hit| match hit.call.as_str() {
        "POST /sessions" => ok(json!({ "id": "s2" })),
        _ => ok(json!({})),
    })
    .await;
    let fault = Stage::new(Settings::default(), &door)
        .run(session(json!({})))
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::UpstreamError);
    assert!(
        fault
            .message
            .contains("harnessSpec.target.acquire.coordinates.target_cdp_url"),
        "{fault}"
    );
    assert_eq!(door.calls(), ["POST /sessions", "DELETE /sessions/s2"]);
}

#[tokio::test]
async fn a_session_is_waited_for_until_it_is_ready_and_closed_when_it_never_is() {
    let ready =
        json!({ "ready": { "poll": "/sessions/{session_id}/health", "intervalMs": 10, "timeoutMs": 5_000 } });
    let door = Door::answering(|hit| match (hit.call.as_str(), hit.before) {
        ("GET /sessions/s%2F1/health", 0 | 1) => answer(503, "booting"),
        _ => serve(hit),
    })
    .await;
    Stage::new(Settings::default(), &door)
        .run(session(ready.clone()))
        .await
        .unwrap();
    assert_eq!(door.hits("GET /sessions/s%2F1/health").len(), 3);

    let door = Door::answering(|hit| {
        if hit.call.ends_with("health") {
            answer(503, "booting")
        } else {
            serve(hit)
        }
    })
    .await;
    let mut never = ready;
    never["ready"]["timeoutMs"] = json!(100);
    let fault = Stage::new(Settings::default(), &door)
        .run(session(never))
        .await
        .unwrap_err();
    assert!(fault.message.contains("503: booting"), "{fault}");
    assert_eq!(door.hits("DELETE /sessions/s%2F1").len(), 1);
}

#[tokio::test]
async fn only_a_service_that_has_none_free_is_asked_again() {
    let door = Door::answering(|hit| match (hit.call.as_str(), hit.before) {
        ("POST /sessions", 0) => answer(429, "full"),
        ("POST /sessions", 1) => answer(409, "full"),
        _ => serve(hit),
    })
    .await;
    Stage::new(Settings::default(), &door)
        .run(session(json!({ "wait": { "intervalMs": 10 } })))
        .await
        .unwrap();
    assert_eq!(door.hits("POST /sessions").len(), 3);

    for (change, status) in [(json!({ "wait": { "intervalMs": 10 } }), 500), (json!({}), 429)] {
        let door = Door::answering(move |_| answer(status, "no")).await;
        let fault = Stage::new(Settings::default(), &door)
            .run(session(change))
            .await
            .unwrap_err();
        assert_eq!(
            (fault.code, door.hits("POST /sessions").len()),
            (ErrorCode::UpstreamError, 1)
        );
        assert!(fault.message.contains(&status.to_string()), "{fault}");
    }

    let door = Door::answering(|_| answer(429, "full")).await;
    let begun = Instant::now();
    let wait = json!({ "wait": { "intervalMs": 10, "timeoutMs": 100 } });
    let fault = Stage::new(Settings::default(), &door)
        .run(session(wait))
        .await
        .unwrap_err();
    assert!(
        begun.elapsed() < PROMPT && fault.message.contains("429"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_full_pool_is_waited_for_and_an_unreadable_one_is_not() {
    let capacity = json!({ "capacity": { "poll": "/pool", "total": "total", "used": "used" } });
    let door = Door::answering(|hit| match (hit.call.as_str(), hit.before) {
        ("GET /pool", 0) => ok(json!({ "total": 2, "used": 2 })),
        ("GET /pool", _) => ok(json!({ "total": 2, "used": 1 })),
        _ => serve(hit),
    })
    .await;
    Stage::new(Settings::default(), &door)
        .run(session(capacity.clone()))
        .await
        .unwrap();
    assert_eq!(door.calls()[..3], ["GET /pool", "GET /pool", "POST /sessions"]);

    for (status, body) in [(500, "down"), (200, "nonsense"), (200, "{}")] {
        let door = Door::answering(move |hit| {
            if hit.call == "GET /pool" {
                answer(status, body)
            } else {
                serve(hit)
            }
        })
        .await;
        Stage::new(Settings::default(), &door)
            .run(session(capacity.clone()))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_case_that_waits_for_a_session_can_be_cancelled() {
    let capacity = json!({ "capacity": { "poll": "/pool", "total": "total", "used": "used" } });
    let wait = json!({ "wait": { "intervalMs": 10 } });
    for (change, call) in [(capacity, "GET /pool"), (wait, "POST /sessions")] {
        let door = Door::answering(|hit| {
            if hit.call == "GET /pool" {
                ok(json!({ "total": 1, "used": 1 }))
            } else {
                answer(429, "")
            }
        })
        .await;
        let stage = Stage::new(Settings::default(), &door);
        stage
            .cancelled(session(change), || !door.hits(call).is_empty())
            .await;
    }
}

#[tokio::test]
async fn a_close_that_fails_is_told_and_changes_nothing() {
    let door = Door::answering(|hit| {
        if hit.call.starts_with("DELETE") {
            answer(500, "stuck")
        } else {
            serve(hit)
        }
    })
    .await;
    let result = Stage::new(Settings::default(), &door)
        .run(session(json!({})))
        .await
        .unwrap();
    let released = infra(&result)
        .into_iter()
        .find(|infra| infra.event.as_deref() == Some("target_released"))
        .unwrap();
    assert!(released.message.contains("500: stuck"), "{released:?}");
}

#[tokio::test]
async fn a_session_without_the_devtools_it_should_have_is_told_and_not_fatal() {
    let door = Door::answering(serve).await;
    let result = Stage::new(Settings::default(), &door)
        .run(session(json!({ "cdpBase": "urls.base" })))
        .await
        .unwrap();
    assert!(
        marks(&result).contains(&"target_unobservable"),
        "{:?}",
        marks(&result)
    );
}

/// A profile that isn't there once left no mark: the agent ran signed out, and nobody knew.
#[tokio::test]
async fn a_profile_that_is_not_injected_is_told() {
    let door = Door::answering(serve).await;
    let mut job = session(json!({}));
    job["harnessSpec"]["target"]["profile"] = json!("shop");
    let result = Stage::new(Settings::default(), &door).run(job).await.unwrap();
    assert!(
        marks(&result).contains(&"profile_not_injected"),
        "{:?}",
        marks(&result)
    );
}
