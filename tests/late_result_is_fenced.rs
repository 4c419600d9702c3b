//! Promise: a result counts only with the current lease. A runner that lost its lease can neither report nor be
//! confused with the one that has it now.

use std::time::{Duration, Instant};

use everdict_acceptance::{McpClient, World};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

fn lease(wait_ms: u64) -> Value {
    json!({"wait_ms": wait_ms, "capabilities": ["git"], "os": "linux", "version": "0.0.0", "protocol": 2})
}

fn result() -> Value {
    json!({
        "caseId": "late", "harness": "h@1", "evidenceVersion": 2, "trace": [],
        "snapshot": {"kind": "prompt", "output": "ok"},
        "scores": [{"graderId": "steps", "metric": "tool_calls", "value": 0, "status": "measured"}],
    })
}

/// A run whose command does nothing.
fn prompt_run(target: &str) -> Value {
    json!({
        "harness": {"id": "h", "version": "1"},
        "harnessSpec": {"kind": "command", "id": "h", "version": "1", "command": "true"},
        "case": {"id": "late", "env": {"kind": "prompt"}, "task": "t", "graders": [], "placement": {"target": target}},
    })
}

#[tokio::test]
async fn an_expired_lease_wakes_the_next_runner_and_fences_the_first() {
    let ttl = Duration::from_secs(2);
    let world = World::start(BINARY, &["--lease-ttl-ms", "2000"]).await;
    let (id_a, token_a) = world.pair("a").await;
    let (id_b, token_b) = world.pair("b").await;
    assert_ne!(id_a, id_b);
    let a = McpClient::connect(&world.url(), &token_a).await;
    let b = McpClient::connect(&world.url(), &token_b).await;
    let run = world.submit(prompt_run("self")).await;

    // The lease begins at the hub, before its answer is here: on a busy machine that is some time.
    let leased_at = Instant::now();
    let first = a.call("lease_job", lease(5000)).await.expect("lease");
    assert_eq!(first["attempt"]["leaseEpoch"], 1, "{first}");
    // B waits in one long poll: nobody polls again, so only a timer can hand it the expired job.
    let second = b.call("lease_job", lease(20_000)).await.expect("lease");
    let took = leased_at.elapsed();
    assert_eq!(second["jobId"], first["jobId"], "{second}");
    assert_eq!(second["attempt"]["leaseEpoch"], 2);
    assert!(took >= ttl, "not before the lease has run out: {took:?}");

    let job = first["jobId"].as_str().expect("job id");
    for epoch in [1, 2] {
        let beat = a
            .call("heartbeat_job", json!({"jobId": job, "leaseEpoch": epoch}))
            .await
            .expect("heartbeat");
        assert_eq!(
            (&beat["extended"], &beat["cancelled"]),
            (&json!(false), &json!(false)),
            "epoch {epoch}: {beat}"
        );
        let arguments = json!({"jobId": job, "leaseEpoch": epoch, "result": result()});
        let submit = a.call("submit_job_result", arguments).await.expect("submit");
        assert_eq!(
            submit,
            json!({"jobId": job, "accepted": false}),
            "epoch {epoch} from the runner that lost it"
        );
        let log = a
            .call(
                "report_case_log",
                json!({"jobId": job, "leaseEpoch": epoch, "line": "from the one that lost it"}),
            )
            .await
            .expect("log");
        assert_eq!(log["ok"], false, "{log}");
    }

    let arguments = json!({"jobId": job, "leaseEpoch": 2, "result": result()});
    let submit = b
        .call("submit_job_result", arguments.clone())
        .await
        .expect("submit");
    assert_eq!(submit, json!({"jobId": job, "accepted": true}));
    let again = b.call("submit_job_result", arguments).await.expect("submit");
    assert_eq!(
        again["accepted"], false,
        "a second submit of the same token changes nothing"
    );

    let record = world.run_is(&run, &["succeeded"], Duration::from_secs(10)).await;
    assert_eq!(record["result"]["provenance"]["runner"], json!(id_b));
    let log = world.log(&run).await;
    assert!(!log.contains("from the one that lost it"), "{log}");
}

#[tokio::test]
async fn a_dead_poll_never_gets_a_job() {
    let world = World::start(BINARY, &[]).await;
    let (id, token) = world.pair("a").await;
    {
        let doomed = McpClient::connect(&world.url(), &token).await;
        let poll = doomed.call("lease_job", lease(30_000));
        let cut = tokio::time::timeout(Duration::from_millis(300), poll).await;
        assert!(
            cut.is_err(),
            "the poll was still waiting when its client went away"
        );
    }
    let run = world.submit(prompt_run(&format!("self:{id}"))).await;
    let alive = McpClient::connect(&world.url(), &token).await;
    let leased = alive.call("lease_job", lease(10_000)).await.expect("lease");
    assert!(leased["job"].is_object(), "the living client gets it: {leased}");
    let arguments =
        json!({"jobId": leased["jobId"], "leaseEpoch": leased["attempt"]["leaseEpoch"], "result": result()});
    assert_eq!(
        alive.call("submit_job_result", arguments).await.expect("submit")["accepted"],
        true
    );
    world.run_is(&run, &["succeeded"], Duration::from_secs(10)).await;
}
