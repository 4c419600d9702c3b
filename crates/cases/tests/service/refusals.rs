//! What can be wrong with a job is found before anything is made for it.

use everdict_contracts::ErrorCode;
use serde_json::{Value, json};

use crate::door::{Door, ok};
use crate::job;
use crate::stage::{Settings, Stage};

fn door_with(key: &str, value: Value) -> Value {
    let mut front_door = json!({});
    front_door[key] = value;
    json!({ "harnessSpec": { "frontDoor": front_door } })
}

fn acquired(change: Value) -> Value {
    let mut acquire = json!({ "mode": "service", "service": "web", "open": "/s", "coordinates": {} });
    crate::merge(&mut acquire, change);
    json!({ "harnessSpec": { "target": { "kind": "browser", "engine": "chromium", "acquire": acquire } } })
}

fn graded(id: &str, config: Value) -> Value {
    json!({ "evalCase": { "graders": [{ "id": id, "config": config }] } })
}

fn stored(change: Value) -> Value {
    let mut job = json!({ "harnessSpec": { "dependencies": [{ "store": "postgres", "role": "db", "isolateBy": "schema" }] } });
    crate::merge(&mut job, change);
    job
}

/// Each job is refused with the place of its fault, and nothing was made for it.
async fn refused<const N: usize>(rows: [(Value, &str); N]) {
    for (change, place) in rows {
        let door = Door::answering(|_| ok(json!({}))).await;
        let stage = Stage::new(Settings::default(), &door);
        let fault = stage.run(job(change.clone())).await.expect_err(place);
        assert_eq!(fault.code, ErrorCode::BadRequest, "{fault}");
        assert!(
            fault.message.starts_with(&format!("{place}: ")),
            "{place} {fault}"
        );
        assert_eq!((stage.done(), door.calls()), (Vec::new(), Vec::new()), "{change}");
    }
}

#[tokio::test]
async fn a_front_door_that_can_not_work_is_refused_before_anything_is_made() {
    let poll = json!({ "mode": "poll", "statusPath": " ", "done": { "field": "s", "equals": 1 } });
    let services = |service: Value| json!({ "harnessSpec": { "services": [service] } });
    let per_run = json!({ "name": "web", "image": "i", "port": 1, "perRun": ["schema"] });
    refused([
        (
            door_with("service", json!("nope")),
            "harnessSpec.frontDoor.service",
        ),
        (
            services(json!({ "name": "web", "image": "i" })),
            "harnessSpec.frontDoor.service",
        ),
        (door_with("submit", json!("")), "harnessSpec.frontDoor.submit"),
        (
            door_with("completion", poll),
            "harnessSpec.frontDoor.completion.statusPath",
        ),
        (
            door_with("request", json!({ "headers": { "a b": "x" } })),
            "harnessSpec.frontDoor.request.headers.a b",
        ),
        (
            door_with("request", json!({ "headers": { "X": "a\nb" } })),
            "harnessSpec.frontDoor.request.headers.X",
        ),
        (
            door_with("request", json!({ "files": [{ "field": "f", "from": "a" }] })),
            "harnessSpec.frontDoor.request.files[0].from",
        ),
        (services(per_run), "harnessSpec.services[0].perRun[0]"),
        (json!({ "imagePins": { "nope": "i" } }), "imagePins.nope"),
    ])
    .await;
}

#[tokio::test]
async fn a_target_that_can_not_be_had_is_refused_before_anything_is_made() {
    let pool = json!({ "capacity": { "service": "nope", "poll": "/", "total": "t" } });
    let ready = json!({ "ready": { "service": "nope", "poll": "/" } });
    let coordinate = |name: &str| acquired(json!({ "coordinates": { name: "id" } }));
    refused([
        (
            acquired(json!({ "service": "nope" })),
            "harnessSpec.target.acquire.service",
        ),
        (acquired(json!({ "open": "" })), "harnessSpec.target.acquire.open"),
        (
            acquired(json!({ "close": "" })),
            "harnessSpec.target.acquire.close",
        ),
        (acquired(ready), "harnessSpec.target.acquire.ready.service"),
        (acquired(pool), "harnessSpec.target.acquire.capacity.service"),
        // Once such a coordinate was lost: the run's own variable took its place.
        (
            coordinate("run_id"),
            "harnessSpec.target.acquire.coordinates.run_id",
        ),
        (
            coordinate("thread_id"),
            "harnessSpec.target.acquire.coordinates.thread_id",
        ),
        (
            coordinate("callback_url"),
            "harnessSpec.target.acquire.coordinates.callback_url",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_case_that_can_not_be_graded_or_seeded_is_refused_before_anything_is_made() {
    let state = |store: &str| {
        graded(
            "store-state",
            json!({ "store": store, "query": "q", "expect": "1" }),
        )
    };
    let fixture =
        |seed: Value| json!({ "evalCase": { "fixtures": [{ "store": "postgres", "seed": seed }] } });
    refused([
        (graded("tests-pass", json!({})), "evalCase.graders[0].id"),
        (graded("script", json!({})), "evalCase.graders[0].config.code"),
        (graded("nope", json!({})), "evalCase.graders[0].id"),
        (state("postgres"), "evalCase.graders[0].config"),
        (stored(state("redis")), "evalCase.graders[0].config"),
        (fixture(json!({ "inline": "x" })), "evalCase.fixtures[0]"),
        (stored(fixture(json!({ "inline": "x" }))), "evalCase.fixtures[0]"),
        (
            json!({ "evalCase": { "placement": { "os": "windows" } } }),
            "evalCase.placement.os",
        ),
        (
            json!({ "evalCase": { "network": { "mode": "allowlist", "allowedHosts": ["a.example", "*.b.example"] } } }),
            "evalCase.network.allowedHosts[1]",
        ),
    ])
    .await;
}

/// The text of a seed that is only named can't be fetched: the agent would find an empty store.
#[tokio::test]
async fn a_seed_that_is_only_named_is_refused() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let stage = Stage::new(Settings::default(), &door);
    let change = json!({
        "evalCase": { "fixtures": [{ "store": "postgres", "seed": { "ref": "s3://x" } }] },
        "harnessSpec": { "dependencies": [{ "store": "postgres", "role": "db", "purpose": "data", "isolateBy": "schema" }] },
    });
    let fault = stage.run(job(change)).await.unwrap_err();
    assert!(
        fault.message.starts_with("evalCase.fixtures[0].seed.ref: "),
        "{fault}"
    );
    assert_eq!(stage.done(), Vec::<String>::new());
}
