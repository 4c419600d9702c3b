//! Promise: cancelling a run stops everything it started, escapees and grandchildren included, and nothing else.

use std::time::Duration;

use everdict_acceptance::{World, eventually, process_count};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

/// The hub's lease lives 45 s by default, so a cancel is heard within 15 s; the process tree gets its grace on top.
const CANCEL_DEADLINE: Duration = Duration::from_secs(25);

#[tokio::test]
async fn no_process_of_a_cancelled_job_is_left() {
    let world = World::start(BINARY, &["--lease-ttl-ms", "6000"]).await;
    let (_, token) = world.pair("laptop").await;
    let runner = world.runner(&token, &[]);
    // Durations that no other process on this machine sleeps, so that a count by command line is a count of ours.
    let unit = format!("{}.{}", 600 + runner.id() % 100, runner.id());
    let (child, grandchild, escapee) = (format!("1{unit}"), format!("2{unit}"), format!("3{unit}"));
    let command = format!(
        "(sleep {grandchild} & sleep {grandchild} &) ; setsid sh -c 'sleep {escapee}' & sleep {child} & wait; sleep {child}"
    );
    let run = world
        .submit(json!({
            "harness": {"id": "forker", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "forker", "version": "1.0.0", "command": command},
            "case": {"id": "tree", "env": {"kind": "repo", "source": {"files": {"a": "1"}}}, "task": "t", "graders": [],
                     "timeoutSec": 900, "placement": {"target": "self"}},
        }))
        .await;
    for marker in [&child, &grandchild, &escapee] {
        eventually("the tree is up", Duration::from_secs(30), || async {
            (process_count(marker) > 0).then_some(())
        })
        .await;
    }

    let (status, reply) = world
        .call(reqwest::Method::POST, &format!("/runs/{run}/cancel"), None)
        .await;
    assert_eq!(status, 200, "{reply}");
    let record = world.run(&run).await;
    assert_eq!(
        record["status"], "failed",
        "a cancelled run ends at once: {record}"
    );
    assert_eq!(record["error"]["code"], "CANCELLED", "{record}");

    eventually("no process of the tree is alive", CANCEL_DEADLINE, || async {
        [&child, &grandchild, &escapee]
            .iter()
            .all(|marker| process_count(marker) == 0)
            .then_some(())
    })
    .await;
    let after = world
        .submit(json!({
            "harness": {"id": "next", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "next", "version": "1.0.0", "command": "true"},
            "case": {"id": "next", "env": {"kind": "prompt"}, "task": "t", "graders": [], "timeoutSec": 60,
                     "placement": {"target": "self"}},
        }))
        .await;
    world
        .run_is(&after, &["succeeded"], Duration::from_secs(30))
        .await;
}
