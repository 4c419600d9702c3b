//! A wrong job is told so, with its place, before anything of it runs.

use everdict_contracts::{ErrorCode, FailureClass};
use serde_json::json;

use super::*;

/// Runs a job that would leave a mark if any command of it ran.
async fn refused(change: Value) -> Fault {
    let world = World::new();
    let mark = world.dir.path().join("ran");
    let job = command_job(&format!("touch {}", mark.display()), change);
    let fault = world.run(job).await.expect_err("the job is refused");
    assert!(!mark.exists(), "the command ran: {fault}");
    assert_eq!(fault.code, ErrorCode::BadRequest, "{fault}");
    assert_eq!(fault.failure().class, FailureClass::Config);
    assert!(!fault.failure().retryable);
    fault
}

#[tokio::test]
async fn unknown_grader_fails_before_the_agent_runs() {
    let fault = refused(json!({ "evalCase": { "graders": [{ "id": "steps" }, { "id": "no-such" }] } })).await;
    assert!(fault.message.starts_with("evalCase.graders[1].id: "), "{fault}");
}

#[tokio::test]
async fn declared_worlds_that_are_not_there_are_refused() {
    for (change, place) in [
        (json!({ "env": { "kind": "browser" } }), "evalCase.env.kind: "),
        (json!({ "env": { "kind": "os-use" } }), "evalCase.env.kind: "),
        (json!({ "image": "busybox:1" }), "evalCase.image: "),
        (json!({ "resources": { "memoryMb": 64 } }), "evalCase.resources: "),
        (json!({ "network": { "mode": "none" } }), "evalCase.network: "),
        (
            json!({ "network": { "mode": "allowlist", "allowedHosts": ["h"] } }),
            "evalCase.network: ",
        ),
        (
            json!({ "placement": { "os": "windows" } }),
            "evalCase.placement.os: ",
        ),
    ] {
        let fault = refused(json!({ "evalCase": change })).await;
        assert!(fault.message.starts_with(place), "{fault}");
    }
}

#[tokio::test]
async fn a_world_that_is_there_is_declared_as_such() {
    let os = if cfg!(target_os = "macos") {
        "macos"
    } else {
        "linux"
    };
    let change = json!({ "evalCase": { "placement": { "os": os }, "network": { "mode": "public" }, "resources": {} } });
    let result = World::new().run(command_job("true", change)).await.unwrap();
    assert_eq!(
        serde_json::to_value(&result.execution).unwrap()["osResolved"],
        "declared"
    );
}

#[tokio::test]
async fn every_unresolved_secret_is_named() {
    let env = json!({ "A": { "secretRef": "a" }, "B": "fine", "C": { "secretRef": "c", "scope": "user" } });
    let fault = refused(json!({ "harnessSpec": { "env": env } })).await;
    assert!(
        fault.message.starts_with("harnessSpec.env: ") && fault.message.contains("A, C"),
        "{fault}"
    );
}

#[tokio::test]
async fn what_no_process_can_take_is_refused() {
    for change in [
        json!({ "harnessSpec": { "env": { "A=B": "x" } } }),
        json!({ "harnessSpec": { "env": { "A": "x\0y" } } }),
        json!({ "harnessSpec": { "setup": ["true", "a\0b"] } }),
        json!({ "harnessSpec": { "command": "echo {{task}}" }, "evalCase": { "task": "a\0b" } }),
        json!({ "harnessSpec": { "command": "echo {{task}}" }, "evalCase": { "task": "x".repeat(200_000) } }),
        json!({ "harnessSpec": { "command": "cat <<'EOF'\n{{task}}\nEOF" } }),
    ] {
        refused(change).await;
    }
}

#[tokio::test]
async fn a_working_directory_out_of_the_sandbox_is_refused() {
    let fault = refused(json!({ "harnessSpec": { "workDir": "../../elsewhere" } })).await;
    assert!(fault.message.contains("../../elsewhere"), "{fault}");
}

#[tokio::test]
async fn an_unknown_built_in_harness_is_named() {
    let mut job = command_job(
        "true",
        json!({ "harness": { "id": "no-such-harness", "version": "0" } }),
    );
    job.as_object_mut().unwrap().remove("harnessSpec");
    let fault = World::new().run(job).await.unwrap_err();
    assert!(
        fault.message.starts_with("harness.id: `no-such-harness`"),
        "{fault}"
    );
    assert_eq!(fault.failure().class, FailureClass::Config);
}

#[tokio::test]
async fn a_service_job_names_the_missing_runtime() {
    let mut job = command_job("true", json!({}));
    job["harnessSpec"] = json!({
        "kind": "service", "id": "svc", "version": "1",
        "services": [{ "name": "web", "image": "i:1", "port": 80 }],
        "frontDoor": { "service": "web", "submit": "POST /runs" },
        "traceSource": { "kind": "otel", "endpoint": "http://127.0.0.1:1" },
    });
    let fault = World::new().run(job).await.unwrap_err();
    assert_eq!(fault.failure().class, FailureClass::Config);
    assert!(fault.message.contains("topology runtime"), "{fault}");
}

#[tokio::test]
async fn a_bad_operator_time_limit_is_named() {
    let world = World::new().with_host("EVERDICT_TIMEOUT_SEC", "soon");
    let fault = world.run(command_job("true", json!({}))).await.unwrap_err();
    assert!(
        fault.message.starts_with("EVERDICT_TIMEOUT_SEC is `soon`"),
        "{fault}"
    );
}
