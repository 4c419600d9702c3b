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
