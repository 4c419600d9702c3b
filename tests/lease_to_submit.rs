//! Promise: a case submitted to the hub runs on the paired machine and comes back graded, with its live log.

use std::time::Duration;

use everdict_acceptance::World;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

fn repo_case(id: &str, target: &str) -> Value {
    json!({
        "id": id,
        "env": {"kind": "repo", "source": {"files": {
            "add.sh": "echo $(( $1 - $2 ))\n",
            "test.sh": "[ \"$(sh add.sh 2 3)\" = 5 ]\n",
        }}},
        "task": "make add.sh add",
        "graders": [{"id": "tests-pass", "config": {"cmd": "sh test.sh"}}, {"id": "steps"}],
        "timeoutSec": 60,
        "placement": {"target": target},
    })
}

fn fixer(command: &str) -> Value {
    json!({"kind": "command", "id": "fixer", "version": "1.0.0", "command": command})
}

#[tokio::test]
async fn a_fixed_repository_passes_and_the_unfixed_one_fails() {
    let world = World::start(BINARY, &[]).await;
    let (runner_id, token) = world.pair("laptop").await;
    let _runner = world.runner(&token, &["--max-concurrent", "2"]);
    let target = format!("self:{runner_id}");

    let fixed = world
        .submit(json!({
            "harness": {"id": "fixer", "version": "1.0.0"},
            "harnessSpec": fixer("echo fixing the sign; sed -i 's/-/+/' add.sh"),
            "case": repo_case("fixed", &target),
        }))
        .await;
    let unfixed = world
        .submit(json!({
            "harness": {"id": "idler", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "idler", "version": "1.0.0", "command": "echo looking at {{task}}"},
            "case": repo_case("unfixed", "self"),
        }))
        .await;

    let record = world
        .run_is(&fixed, &["succeeded", "failed"], Duration::from_secs(60))
        .await;
    let result = &record["result"];
    assert_eq!(record["status"], "succeeded", "{record}");
    assert_eq!(result["caseId"], "fixed");
    assert_eq!(result["harness"], "fixer@1.0.0");
    assert_eq!(result["failure"], Value::Null);
    let tests = &result["scores"][0];
    assert_eq!(
        (&tests["graderId"], &tests["pass"]),
        (&json!("tests-pass"), &json!(true)),
        "{tests}"
    );
    assert_eq!(result["snapshot"]["changedFiles"], json!(["add.sh"]));
    assert_eq!(
        result["provenance"],
        json!({"ranOn": "self-hosted", "runner": runner_id, "by": "key:acme", "attestation": "self_reported"}),
    );
    let infra: Vec<&str> = result["trace"]
        .as_array()
        .expect("trace")
        .iter()
        .filter(|event| event["kind"] == "infra")
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert!(
        infra.contains(&"leased") && infra.contains(&"finished"),
        "{infra:?}"
    );
    let log = world.log(&fixed).await;
    assert!(log.contains("fixing the sign"), "{log}");

    let record = world
        .run_is(&unfixed, &["succeeded", "failed"], Duration::from_secs(60))
        .await;
    assert_eq!(record["result"]["scores"][0]["pass"], json!(false), "{record}");
    let log = world.log(&unfixed).await;
    assert!(
        log.contains("looking at make add.sh add"),
        "the task reaches the command verbatim: {log}"
    );
}

#[tokio::test]
async fn log_lines_arrive_while_the_job_still_runs() {
    let world = World::start(BINARY, &[]).await;
    let (_, token) = world.pair("laptop").await;
    let _runner = world.runner(&token, &[]);
    let gate = world.home().join("gate");
    let command = format!(
        "echo first line; while [ ! -e '{}' ]; do sleep 0.05; done; echo last line",
        gate.display()
    );
    let run = world
        .submit(json!({
            "harness": {"id": "gated", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "gated", "version": "1.0.0", "command": command},
            "case": {"id": "live", "env": {"kind": "prompt"}, "task": "t", "graders": [], "timeoutSec": 60,
                     "placement": {"target": "self"}},
        }))
        .await;
    everdict_acceptance::eventually(
        "the first line is in the log",
        Duration::from_secs(30),
        || async { world.log(&run).await.contains("first line").then_some(()) },
    )
    .await;
    assert_eq!(world.run(&run).await["status"], "running");
    std::fs::write(&gate, "").expect("gate");
    world.run_is(&run, &["succeeded"], Duration::from_secs(30)).await;
    assert!(world.log(&run).await.contains("last line"));
}
