//! What happens in which order, and what is given back on every way out.

use everdict_contracts::{ErrorCode, EvalCase, OsResolved, decode};
use serde_json::{Value, json};

use crate::door::{Door, ok};
use crate::stage::{Settings, Stage};
use crate::{errors, job, marks};

/// A case with a store, a fixture, a browser, and a grader that reads the store.
fn full() -> Value {
    job(json!({
        "evalCase": {
            "fixtures": [{ "store": "postgres", "seed": { "inline": "CREATE TABLE t()" } }],
            "graders": [{ "id": "store-state", "config": { "query": "SELECT 1", "expect": "1" } }],
        },
        "harnessSpec": {
            "dependencies": [{ "store": "postgres", "role": "db", "purpose": "data", "isolateBy": "schema" }],
            "target": { "kind": "browser", "engine": "chromium", "delivery": { "mode": "sentinel", "path": "page" } },
        },
    }))
}

async fn door() -> Door {
    Door::answering(|_| {
        ok(json!({ "trace": [], "page": { "kind": "browser", "url": "http://x/", "dom": "<p>" } }))
    })
    .await
}

#[tokio::test]
async fn the_target_goes_before_the_graders_and_the_stores_after_them() {
    let door = door().await;
    let stage = Stage::new(
        Settings {
            state: "1\n".to_owned(),
            ..Settings::default()
        },
        &door,
    );
    let result = stage.run(full()).await.unwrap();
    assert_eq!(
        stage.done(),
        [
            "ensure", "drop", "seed", "browser", "dispose", "read", "drop", "release"
        ]
    );
    assert_eq!(
        marks(&result),
        [
            "topology_ready",
            "stores_reset",
            "fixtures_seeded",
            "target_acquired",
            "drive_submitted",
            "drive_completed",
            "target_released",
            "running"
        ]
    );
    assert_eq!(serde_json::to_value(&result.scores[0]).unwrap()["pass"], true);
    assert_eq!(
        door.hits("POST /runs")[0].json()["browser_cdp_url"],
        "http://10.9.8.7:9222"
    );
}

#[tokio::test]
async fn the_result_says_where_and_when_and_vouches_for_nothing() {
    let door = door().await;
    let settings = Settings {
        log: Some("x".repeat(9_000)),
        ..Settings::default()
    };
    let stage = Stage::new(settings, &door);
    let before = jiff::Timestamp::now().as_second();
    let result = stage
        .run(job(json!({ "imagePins": { "web": "example/web@sha256:0" } })))
        .await
        .unwrap();
    assert!(
        result.harness.starts_with("svc@1.0.0-pin-") && result.harness.len() == "svc@1.0.0-pin-".len() + 8
    );
    let execution = result.execution.clone().unwrap();
    assert_eq!(
        (execution.runtime.as_deref(), execution.driver),
        (Some("local"), None)
    );
    assert_eq!(execution.os_resolved, OsResolved::Defaulted);
    assert_eq!((result.evidence_version, result.trace_sealed), (Some(2), None));
    let t0: jiff::Timestamp = result.trace_t0.as_ref().unwrap().parse().unwrap();
    assert!(t0.as_second() >= before);
    let log = crate::infra(&result)
        .into_iter()
        .find(|infra| infra.event.as_deref() == Some("logs"))
        .unwrap();
    assert_eq!((log.message.len(), log.service.as_deref()), (8_000, Some("web")));
    assert_eq!(*marks(&result).last().unwrap(), "logs");
    let again: everdict_contracts::CaseResult = decode(serde_json::to_value(&result).unwrap()).unwrap();
    assert_eq!(again, result);
}

/// Logs of the whole container once brought other cases' lines into the sealed trace.
#[tokio::test]
async fn logs_are_those_since_the_case_began() {
    let door = door().await;
    let stage = Stage::new(Settings::default(), &door);
    let before = jiff::Timestamp::now().as_second();
    stage.run(job(json!({}))).await.unwrap();
    let since = stage.since().unwrap();
    assert!(
        (before..=jiff::Timestamp::now().as_second()).contains(&since),
        "{since}"
    );
}

#[tokio::test]
async fn what_a_service_prints_is_shown_live_under_its_name() {
    let door = door().await;
    let settings = Settings {
        prints: vec!["GET /ru", "ns 200\nno end"],
        ..Settings::default()
    };
    let stage = Stage::new(settings, &door);
    stage.run(job(json!({}))).await.unwrap();
    assert_eq!(stage.printed(), [("web".to_owned(), "GET /runs 200".to_owned())]);
    assert!(stage.lines().iter().all(|line| !line.contains("GET /runs")));
}

/// Daemons count in whole seconds, and warm cases take less than one.
#[tokio::test]
async fn lines_of_the_case_before_are_left_out_even_of_the_same_second() {
    let door = door().await;
    let settings = Settings {
        log_before: "task of another tenant\n".to_owned(),
        log: Some("own line\n".to_owned()),
        ..Settings::default()
    };
    let stage = Stage::new(settings, &door);
    let result = stage.run(job(json!({}))).await.unwrap();
    let logs = crate::infra(&result)
        .into_iter()
        .filter(|infra| infra.event.as_deref() == Some("logs"));
    let logs: Vec<_> = logs.map(|infra| infra.message.as_str()).collect();
    assert_eq!(logs, ["own line\n"]);
}

/// Graders judge the agent: neither marks nor logs are steps or time of its own.
#[tokio::test]
async fn graders_see_the_agents_trace_only() {
    let trace = json!([
        { "t": 5, "kind": "message", "role": "assistant", "text": "hi" },
        { "t": 9, "kind": "tool_call", "id": "1", "name": "click" },
    ]);
    let door = Door::answering(move |_| ok(json!({ "trace": trace }))).await;
    let stage = Stage::new(
        Settings {
            log: Some("noise".to_owned()),
            ..Settings::default()
        },
        &door,
    );
    let result = stage
        .run(job(json!({ "evalCase": { "graders": [] } })))
        .await
        .unwrap();
    let scores: Vec<_> = result
        .scores
        .iter()
        .map(|score| serde_json::to_value(score).unwrap())
        .collect();
    let of = |metric: &str| scores.iter().find(|score| score["metric"] == metric).unwrap()["value"].clone();
    assert_eq!(
        (of("tool_calls"), of("usd"), of("span")),
        (json!(1), json!(0), json!(4)),
        "{scores:?}"
    );
}

#[tokio::test]
async fn whatever_fails_everything_made_for_the_case_is_given_back() {
    let steps = ["ensure", "drop", "seed", "browser"];
    for (index, step) in steps.into_iter().enumerate() {
        let door = door().await;
        let settings = Settings {
            fail: [(step, ErrorCode::UpstreamError)].into(),
            ..Settings::default()
        };
        let stage = Stage::new(settings, &door);
        let fault = stage.run(full()).await.unwrap_err();
        assert!(fault.message.contains(&format!("{step} went wrong")), "{fault}");
        let mut expected = steps[..=index].to_vec();
        if step != "ensure" {
            expected.extend(["drop", "release"]);
        }
        assert_eq!(stage.done(), expected, "{step}");
        assert_eq!(door.calls(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_front_door_that_fails_leaves_nothing_behind() {
    let door = Door::answering(|_| crate::door::answer(500, "no")).await;
    let stage = Stage::new(Settings::default(), &door);
    stage.run(full()).await.unwrap_err();
    assert_eq!(
        stage.done(),
        ["ensure", "drop", "seed", "browser", "dispose", "drop", "release"]
    );
}

/// Cancelling once reached the drive and nothing before or after it.
#[tokio::test]
async fn a_cancel_reaches_every_step() {
    for step in ["ensure", "drop", "seed", "browser", "read"] {
        let door = door().await;
        let settings = Settings {
            hang: std::sync::Mutex::new([step].into()),
            ..Settings::default()
        };
        let stage = Stage::new(settings, &door);
        stage.cancelled(full(), || stage.did(step)).await;
        assert_eq!(
            stage.did("release"),
            step != "ensure",
            "{step}: {:?}",
            stage.done()
        );
        assert!(!stage.did("browser lost"), "{step}");
    }
}

#[tokio::test]
async fn a_cancelled_job_is_not_even_begun() {
    let door = door().await;
    let stage = Stage::new(Settings::default(), &door);
    stage.cancel.cancel();
    assert_eq!(stage.run(full()).await.unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(stage.done(), Vec::<String>::new());
}

/// A clean-up that goes wrong once took the result with it.
#[tokio::test]
async fn a_target_that_can_not_be_given_back_is_told_and_changes_nothing() {
    let door = door().await;
    let settings = Settings {
        fail: [("dispose", ErrorCode::UpstreamError)].into(),
        state: "1".to_owned(),
        ..Settings::default()
    };
    let stage = Stage::new(settings, &door);
    let result = stage.run(full()).await.unwrap();
    let released = crate::infra(&result)
        .into_iter()
        .find(|infra| infra.event.as_deref() == Some("target_released"))
        .unwrap();
    assert!(released.message.contains("dispose went wrong"), "{released:?}");
    assert_eq!(serde_json::to_value(&result.scores[0]).unwrap()["pass"], true);
}

#[tokio::test]
async fn a_store_that_can_not_be_asked_is_an_outage_of_its_grader_only() {
    let door = door().await;
    let settings = Settings {
        fail: [("read", ErrorCode::UpstreamError)].into(),
        ..Settings::default()
    };
    let result = Stage::new(settings, &door).run(full()).await.unwrap();
    let score = serde_json::to_value(&result.scores[0]).unwrap();
    assert_eq!(
        (&score["status"], &score["reason"]),
        (&json!("unmeasured"), &json!("grader_error"))
    );
    assert_eq!(errors(&result), Vec::<&str>::new());
}

/// The job's case stays as it came, whatever it is measured by.
#[tokio::test]
async fn a_case_without_graders_is_measured_by_the_protocols_three() {
    let door = door().await;
    let job = job(json!({ "evalCase": { "graders": [] } }));
    let case: EvalCase = decode(job["evalCase"].clone()).unwrap();
    assert!(case.graders.is_empty());
    let result = Stage::new(Settings::default(), &door).run(job).await.unwrap();
    let ids: Vec<_> = result
        .scores
        .iter()
        .map(|score| serde_json::to_value(score).unwrap()["graderId"].clone())
        .collect();
    assert_eq!(ids, [json!("steps"), json!("cost"), json!("latency")]);
}
