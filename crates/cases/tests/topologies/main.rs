//! Service cases on a real daemon: real PostgreSQL, real Redis, real Chromium. Without a daemon each test is listed as
//! skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod world;

use everdict_contracts::{EnvSnapshot, TraceEventKind};
use serde_json::{Value, json};

use world::{FRONT_DOOR, in_world};

fn job(run: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut job = json!({
        "evalCase": { "id": "case-1", "env": { "kind": "prompt" }, "task": "buy milk", "timeoutSec": 60 },
        "harness": { "id": "shop", "version": "1.0.0" },
        "harnessSpec": {
            "kind": "service", "id": "shop", "version": "1.0.0",
            "services": [{ "name": "web", "image": FRONT_DOOR, "port": 8080, "perRun": ["schema", "key_prefix"] }],
            "dependencies": [
                { "store": "postgres", "role": "db", "purpose": "data", "isolateBy": "schema" },
                { "store": "redis", "role": "cache", "purpose": "data", "isolateBy": "key-prefix" },
            ],
            "target": { "kind": "browser", "engine": "chromium" },
            "frontDoor": { "service": "web", "submit": "POST /runs" },
            "traceSource": { "kind": "otel", "endpoint": "http://127.0.0.1:1" },
        },
        "runId": run,
    });
    change(&mut job);
    job
}

fn graders() -> Value {
    json!([
        { "id": "url-matches", "config": { "pattern": "/done\\?task=buy" } },
        { "id": "dom-contains", "config": { "text": "<h1>done: buy milk</h1>" } },
        { "id": "store-state", "config": { "query": "SELECT count(*), max(text) FROM answers", "expect": "1|done: buy milk", "mode": "exact" } },
        { "id": "store-state", "config": { "store": "redis", "query": "GET {prefix}:answer", "expect": "done: buy milk" } },
        { "id": "store-state", "config": { "query": "SELECT name FROM stock", "expect": "milk", "mode": "exact" } },
    ])
}

/// The run's id has upper case and is longer than an identifier may be; the second run of it finds nothing of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_case_is_seeded_driven_seen_and_graded_and_leaves_nothing_in_the_stores() {
    in_world("a_case_is_seeded_driven_seen_and_graded", async |world| {
        let run = format!("evd-Batch-{}-t0", "Case".repeat(16));
        for _ in 0..2 {
            let result = world
                .run(job(&run, |job| {
                    job["evalCase"]["graders"] = graders();
                    let seed = json!({ "inline": "CREATE TABLE stock(name text); INSERT INTO stock VALUES ('milk')" });
                    job["evalCase"]["fixtures"] = json!([{ "store": "postgres", "seed": seed }]);
                }))
                .await
                .unwrap();
            for score in &result.scores {
                let score = serde_json::to_value(score).unwrap();
                assert_eq!(score["pass"], true, "{score}");
            }
            assert_eq!(result.scores.len(), 5);
            let EnvSnapshot::Browser(page) = &result.snapshot else { panic!("{:?}", result.snapshot) };
            assert!(page.screenshot.as_ref().unwrap().starts_with("iVBOR"), "no PNG");
            let errors: Vec<_> =
                result.trace.iter().filter(|event| matches!(event.kind, TraceEventKind::Error(_))).collect();
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!(world.browsers().await, 0);
        }
        assert!(world.seen("nav"), "the recorder saw no navigation");
        assert!(world.seen("log of postgres"), "a store's start was not shown");
    })
    .await;
}

/// C78. The second trial has the run id of the first, which is the harder case, on containers that stayed up.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_one_trial_is_absent_in_the_next_and_the_result_tells_when_it_was_reset() {
    in_world("a_row_of_one_trial", async |world| {
        let trial = async |run: &str, task: &str, grader: Value| {
            let result = world
                .run(job(run, |job| {
                    job["evalCase"]["task"] = json!(task);
                    job["evalCase"]["graders"] = json!([grader]);
                }))
                .await
                .unwrap();
            let score = serde_json::to_value(&result.scores[0]).unwrap();
            assert_eq!(score["pass"], true, "{task}: {score}");
            result
        };
        let rows = |expect: &str| {
            json!({ "id": "store-state", "config": {
                "query": "SELECT count(*) || ' ' || string_agg(text, ',') FROM answers",
                "expect": expect, "mode": "exact",
            } })
        };
        let key = |expect: &str| {
            json!({ "id": "store-state", "config": {
                "store": "redis", "query": "GET {prefix}:answer", "expect": expect, "mode": "exact",
            } })
        };
        trial("r-trials", "first", rows("1 done: first")).await;
        let containers = world.containers().await;
        let second = trial("r-trials", "second", rows("1 done: second")).await;
        trial("r-trials-t2", "third", rows("1 done: third")).await;
        trial("r-trials", "fourth", key("done: fourth")).await;
        assert_eq!(
            world.containers().await,
            containers,
            "the same topology served all"
        );

        let reset = second
            .trace
            .iter()
            .find_map(|event| match &event.kind {
                TraceEventKind::Infra(infra) if infra.event.as_deref() == Some("stores_reset") => {
                    Some((event.clone(), infra.message.clone()))
                }
                _ => None,
            })
            .expect("the reset is in the result");
        let (event, words) = reset;
        let at: jiff::Timestamp = event.at.as_deref().expect("its time of day").parse().unwrap();
        let begun: jiff::Timestamp = second.trace_t0.as_deref().unwrap().parse().unwrap();
        assert!(at <= begun, "before the agent was driven: {at} {begun}");
        assert!(words.ends_with(" ms"), "how long it took: {words}");
    })
    .await;
}

/// A page of the case's browser calls back by sending a form, since the front door itself can't.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_reaches_the_listener_by_the_hosts_name() {
    in_world("a_container_reaches_the_listener", async |world| {
        let page = "<form id=f method=post action='{callback_url}'></form><script>f.submit()</script>";
        let result = world
            .run(job("r-callback", |job| {
                job["harnessSpec"]["dependencies"] = json!([]);
                job["harnessSpec"]["services"][0]["perRun"] = json!([]);
                job["harnessSpec"]["frontDoor"] = json!({
                    "service": "web",
                    "submit": format!("GET /run?cdp={{target_cdp_url}}&url=data:text/html,{page}"),
                    "completion": { "mode": "callback", "timeoutMs": 10_000 },
                    "traceInline": {},
                });
            }))
            .await
            .unwrap();
        assert!(matches!(result.snapshot, EnvSnapshot::Browser(_)));
    })
    .await;
}
