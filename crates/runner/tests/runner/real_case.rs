//! The executor of the product behind the loop: a real process, from lease to submit.

use std::sync::Arc;

use crate::world::{World, end, until};
use everdict_exec::HostEnv;
use everdict_runner_core::{RunnerState, case_executor};
use serde_json::{Value, json};

fn command_job(command: &str) -> Value {
    json!({
        "evalCase": {
            "id": "real",
            "env": {"kind": "prompt"},
            "task": "say hi",
            "graders": [{"id": "answer-match", "config": {"expect": "hi", "mode": "contains"}}],
            "timeoutSec": 60,
        },
        "harness": {"id": "shell", "version": "1.0.0"},
        "harnessSpec": {"kind": "command", "id": "shell", "version": "1.0.0", "command": command},
        "runId": "evd-run-real",
    })
}

fn with_path(config: &mut everdict_runner_core::RunnerConfig) {
    config.host_env = Arc::new(HostEnv::from_pairs([("PATH", "/usr/local/bin:/usr/bin:/bin")]));
}

#[tokio::test]
async fn a_command_case_is_run_graded_and_reported() {
    let world = World::new().await;
    let handle = world.start_as(case_executor(), with_path);
    let job_id = world.hub.enqueue(command_job("echo hi there"));
    world
        .hub
        .until("the result is in", |hub| {
            hub.lease(&job_id).is_some_and(|lease| lease.result.is_some())
        })
        .await;
    let lease = world.hub.lease(&job_id).unwrap();
    let result = lease.result.unwrap();
    assert_eq!(result["scores"][0]["pass"], true, "{result:#}");
    assert!(result.get("failure").is_none(), "{result:#}");
    assert!(
        lease.log.iter().any(|line| line.contains("hi there")),
        "{:?}",
        lease.log
    );
    let trace = result["trace"].as_array().unwrap();
    assert_eq!(trace.first().unwrap()["event"], "leased");
    assert_eq!(trace.last().unwrap()["event"], "finished");
    let times: Vec<&str> = trace.iter().filter_map(|event| event["at"].as_str()).collect();
    assert!(times.first().unwrap() <= times.last().unwrap());
    end(handle).await;
    let left = std::fs::read_dir(world.work_root()).unwrap().count();
    assert_eq!(left, 0, "scratch directories were left behind");
}

#[tokio::test]
async fn a_cancel_of_the_hub_ends_a_real_process() {
    let world = World::new().await;
    let handle = world.start_as(case_executor(), |config| {
        with_path(config);
        config.heartbeat_ms = Some(20);
    });
    let job_id = world.hub.enqueue(command_job("echo started; sleep 600"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    world
        .hub
        .until("it prints", |hub| {
            hub.lease(&job_id)
                .is_some_and(|lease| lease.log.iter().any(|line| line.contains("started")))
        })
        .await;
    world.hub.cancel(&job_id);
    until(&handle, "it is stopped", |seen| seen.counters.cancelled == 1).await;
    end(handle).await;
    assert_eq!(std::fs::read_dir(world.work_root()).unwrap().count(), 0);
}
