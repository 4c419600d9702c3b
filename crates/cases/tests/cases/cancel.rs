//! Cancelling ends everything a case started.

use everdict_contracts::ErrorCode;
use serde_json::json;

use super::*;

/// A command that says where its processes are and then sleeps in two of them.
const TREE: &str = "sleep 300 & echo child=$!; echo self=$$; (setsid sleep 300 & echo far=$!); wait";

fn pids(world: &World) -> Vec<String> {
    let lines = world.lines();
    lines
        .iter()
        .filter_map(|line| line.split_once('='))
        .map(|(_, pid)| pid.to_owned())
        .collect()
}

fn alive(pid: &str) -> bool {
    // A zombie has a directory, but runs nothing.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z')
    })
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn cancel_leaves_no_process_and_no_scratch() {
    for env in [json!({ "kind": "prompt" }), repo(json!({ "a.txt": "hi" }))] {
        let world = World::new();
        let job = command_job(
            TREE,
            json!({ "evalCase": { "env": env, "graders": [{ "id": "tests-pass" }] } }),
        );
        let stop = async {
            until("the tree is up", || pids(&world).len() == 3).await;
            assert!(pids(&world).iter().all(|pid| alive(pid)));
            world.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(world.run(job), stop);
        let fault = outcome.unwrap_err();
        assert_eq!(fault.code, ErrorCode::Cancelled);
        assert!(!fault.failure().retryable);
        for pid in pids(&world) {
            assert!(!alive(&pid), "process {pid} outlived the cancel");
        }
    }
}

#[tokio::test]
async fn a_cancelled_case_starts_nothing() {
    let world = World::new();
    world.cancel.cancel();
    let mark = world.dir.path().join("ran");
    let fault = world
        .run(command_job(&format!("touch {}", mark.display()), json!({})))
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::Cancelled);
    assert!(!mark.exists());
}

#[tokio::test]
async fn cancel_reaches_setup_and_graders_too() {
    let setup = json!({ "harnessSpec": { "setup": ["echo here; sleep 300"] } });
    let seed = json!({ "evalCase": { "env": { "kind": "repo", "source": { "files": {} }, "setup": ["echo here; sleep 300"] } } });
    for (command, change) in [("true", setup), ("true", seed)] {
        let world = World::new();
        let stop = async {
            until("the step runs", || {
                world.lines().iter().any(|line| line == "here")
            })
            .await;
            world.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(world.run(command_job(command, change)), stop);
        assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
    }

    let world = World::new();
    let mark = world.dir.path().join("grading");
    let grader =
        json!({ "id": "tests-pass", "config": { "cmd": format!("touch {}; sleep 300", mark.display()) } });
    let stop = async {
        until("the grader runs", || mark.exists()).await;
        world.cancel.cancel();
    };
    let job = command_job("true", json!({ "evalCase": { "graders": [grader] } }));
    let (outcome, ()) = tokio::join!(world.run(job), stop);
    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_dropped_case_leaves_no_process_and_no_scratch() {
    let world = World::new();
    let job: CaseJob = decode(command_job(TREE, json!({}))).unwrap();
    let ctx = world.context();
    {
        let run = std::pin::pin!(run_leased_job(&job, &ctx));
        let up = until("the tree is up", || pids(&world).len() == 3);
        tokio::select! {
            _ = run => panic!("the case ended by itself"),
            () = up => {}
        }
    }
    until("every process is gone", || {
        pids(&world).iter().all(|pid| !alive(pid))
    })
    .await;
    until("the scratch directory is gone", || {
        leftovers(&world.root()).is_empty()
    })
    .await;
}
