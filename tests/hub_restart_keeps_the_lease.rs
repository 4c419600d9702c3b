//! Promise: a hub that crashes and comes back honours the leases it gave out: the job runs once, and its result counts.

use std::time::Duration;

use everdict_acceptance::{World, eventually};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

#[tokio::test]
async fn a_running_job_survives_a_hub_crash_and_runs_once() {
    let mut world = World::start(BINARY, &[]).await;
    let (_, token) = world.pair("laptop").await;
    let _runner = world.runner(&token, &["--heartbeat-ms", "500", "--poll-interval-ms", "300"]);
    let (starts, gate) = (world.home().join("starts"), world.home().join("gate"));
    let command = format!(
        "echo started >> '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; echo finished",
        starts.display(),
        gate.display()
    );
    let run = world
        .submit(json!({
            "harness": {"id": "gated", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "gated", "version": "1.0.0", "command": command},
            "case": {"id": "crash", "env": {"kind": "prompt"}, "task": "t",
                     "graders": [{"id": "steps"}], "timeoutSec": 120, "placement": {"target": "self"}},
        }))
        .await;
    eventually("the job has started", Duration::from_secs(30), || async {
        starts.exists().then_some(())
    })
    .await;

    world.crash_and_restart_hub().await;
    assert_eq!(
        world.run(&run).await["status"],
        "running",
        "the restarted hub knows the lease"
    );
    std::fs::write(&gate, "").expect("gate");

    let record = world
        .run_is(&run, &["succeeded", "failed"], Duration::from_secs(60))
        .await;
    assert_eq!(record["status"], "succeeded", "{record}");
    let count = std::fs::read_to_string(&starts).expect("starts").lines().count();
    assert_eq!(count, 1, "the job was not handed out a second time");
}
