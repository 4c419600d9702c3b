//! Submitting runs, what becomes of them, and the harness registry.

use everdict_contracts::RunList;
use everdict_hub::Role;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::kit::{World, run_on};

#[tokio::test]
async fn a_run_goes_from_queued_to_succeeded_with_provenance() {
    let world = World::start().await;
    let runner = world.runner().await;
    let (status, queued) = world.http().post("/runs", &run_on(&runner.target())).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(
        (&queued["status"], &queued["kind"]),
        (&json!("queued"), &json!("eval"))
    );
    assert_eq!(
        (&queued["tenant"], &queued["createdBy"]),
        (&json!("acme"), &json!("key:acme"))
    );
    assert_eq!(queued["runtime"], runner.target());
    assert_eq!(queued["caseSpec"]["task"], "say \"hi\"\n");
    assert_eq!(queued["class"], "interactive");
    let run = queued["id"].as_str().unwrap();
    runner.lease(0).await;
    world.run_with(run, "running").await;
    runner.submit(run, 1).await;
    let done = world.run_with(run, "succeeded").await;
    let result = &done["result"];
    let provenance = json!({
        "ranOn": "self-hosted", "runner": runner.id, "by": "key:acme", "attestation": "self_reported",
    });
    assert_eq!(result["provenance"], provenance);
    assert_eq!(result["scores"][0]["status"], "measured");
    let events: Vec<_> = result["trace"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].clone())
        .collect();
    assert_eq!(
        events,
        [json!("accepted"), json!("waiting"), json!("started"), Value::Null]
    );
    assert_eq!(done["usage"]["calls"], 0);
    let typed: everdict_contracts::RunRecord = everdict_contracts::decode(done).unwrap();
    assert!(typed.result.is_some());
}

#[tokio::test]
async fn refused_runs_are_taken_in_and_fail_with_the_reason() {
    let world = World::start().await;
    let strangers = world.http_as(&world.key("other", Role::Admin).await);
    let (_, theirs) = strangers.post("/runners", &json!({"label": "theirs"})).await;
    let theirs = format!("self:{}", theirs["runner"]["id"].as_str().unwrap());
    let cases = [
        ("self:00000000-0000-0000-0000-000000000000", "NOT_FOUND"),
        (theirs.as_str(), "NOT_FOUND"),
        ("self:", "NOT_FOUND"),
        ("self", "NOT_FOUND"),
        ("self:ws", "NOT_FOUND"),
        ("self:ws:nope", "NOT_FOUND"),
        ("no-such-runtime", "NOT_FOUND"),
    ];
    for (target, code) in cases {
        let run = world.submit(target).await;
        let failed = world.run_with(&run, "failed").await;
        assert_eq!(failed["error"]["code"], code, "{target}");
        let failure = &failed["result"]["failure"];
        assert_eq!(
            (&failure["stage"], &failure["class"]),
            (&json!("dispatch"), &json!("config"))
        );
        assert_eq!(failed["result"]["scores"][0]["graderId"], "dispatch");
        assert_eq!(failed["result"]["scores"][0].get("value"), None);
    }
    let unknown = world.run_with(&world.submit("self:nope").await, "failed").await;
    let foreign = world.run_with(&world.submit(&theirs).await, "failed").await;
    assert_eq!(unknown["error"], foreign["error"]);
}

#[tokio::test]
async fn a_pool_without_a_capable_runner_refuses() {
    let world = World::start().await;
    world.runner().await;
    let mut body = run_on("self");
    body["case"]["image"] = json!("alpine:3");
    let (_, run) = world.http().post("/runs", &body).await;
    let failed = world.run_with(run["id"].as_str().unwrap(), "failed").await;
    assert_eq!(failed["error"]["code"], "BAD_REQUEST");
}

#[tokio::test]
async fn a_run_for_an_offline_runner_waits_and_says_so() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    let queued = world.run_with(&run, "queued").await;
    assert!(queued["note"].as_str().unwrap().contains("offline"), "{queued}");
}

#[tokio::test]
async fn a_bad_request_names_the_place() {
    let world = World::start().await;
    let mut cases = vec![
        (json!({}), "harness"),
        (json!({"harness": {"id": "x", "version": "1"}}), "case"),
    ];
    let mut change = |pointer: &str, value: Value, place: &'static str| {
        let mut body = run_on("self");
        *body.pointer_mut(pointer).unwrap() = value;
        cases.push((body, place));
    };
    change("/case/env", json!({"kind": "moon"}), "case.env");
    change("/case/graders/0/id", json!(7), "case.graders[0].id");
    change("/harnessSpec/command", Value::Null, "harnessSpec.command");
    change("/harnessSpec/version", json!("2"), "harnessSpec");
    change("/runtime", json!(""), "runtime");
    for (body, place) in cases {
        let (status, refused) = world.http().post("/runs", &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        let message = refused["message"].as_str().unwrap();
        assert!(message.starts_with(place), "{message}, expected at {place}");
    }
    let (_, list) = world.http().get("/runs").await;
    assert_eq!(list["runs"], json!([]));
}

#[tokio::test]
async fn a_runner_that_gives_up_fails_the_run_in_its_own_words() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    runner.lease(0).await;
    let args = json!({"jobId": run, "leaseEpoch": 1, "message": "malformed job: task"});
    let reply = runner.mcp.call("fail_job", args.clone()).await;
    assert_eq!(reply, json!({"jobId": run, "accepted": true}));
    assert_eq!(runner.mcp.call("fail_job", args).await["accepted"], false);
    let failed = world.run_with(&run, "failed").await;
    assert_eq!(
        failed["error"],
        json!({"code": "UPSTREAM_ERROR", "message": "malformed job: task"})
    );
    assert_eq!(failed["result"]["failure"]["runnerId"], runner.id);
}

#[tokio::test]
async fn runs_are_listed_newest_first_in_pages_and_only_to_their_workspace() {
    let world = World::start().await;
    let runner = world.runner().await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(json!(world.submit(&runner.target()).await));
    }
    runs.reverse();
    let (_, first) = world.http().get("/runs?limit=3").await;
    let ids = |page: &Value| -> Vec<Value> {
        page["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["id"].clone())
            .collect()
    };
    assert_eq!(ids(&first), runs[..3]);
    assert_eq!(first["runs"][0].get("caseSpec"), None);
    let page: RunList = everdict_contracts::decode(first.clone()).unwrap();
    let cursor = page.next_cursor.unwrap();
    let (_, second) = world
        .http()
        .get(&format!("/runs?limit=3&cursor={cursor}&include=result"))
        .await;
    assert_eq!(ids(&second), runs[3..]);
    assert!(second["runs"][0]["caseSpec"].is_object());
    let page: RunList = everdict_contracts::decode(second.clone()).unwrap();
    assert_eq!((page.runs.len(), page.next_cursor), (2, None));
    for bad in ["0", "9999", "x", "-1"] {
        let (status, _) = world.http().get(&format!("/runs?limit={bad}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
    let other = world.http_as(&world.key("other", Role::Admin).await);
    assert_eq!(other.get("/runs").await.1["runs"], json!([]));
    let run = runs[0].as_str().unwrap();
    for path in ["", "/logs", "/events", "/screen", "/fs"] {
        let (status, refused) = other.get(&format!("/runs/{run}{path}")).await;
        assert_eq!(
            (status, &refused["code"]),
            (StatusCode::NOT_FOUND, &json!("NOT_FOUND")),
            "{path}"
        );
    }
    assert_eq!(
        other.post(&format!("/runs/{run}/cancel"), &json!({})).await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_registered_harness_is_used_and_never_changes() {
    let world = World::start().await;
    let http = world.http();
    let spec = json!({"kind": "command", "id": "echo", "version": "7", "command": "echo registered"});
    assert_eq!(http.post("/harnesses", &spec).await.0, StatusCode::CREATED);
    assert_eq!(http.post("/harnesses", &spec).await.0, StatusCode::OK);
    let mut changed = spec.clone();
    changed["command"] = json!("echo changed");
    let (status, refused) = http.post("/harnesses", &changed).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("CONFLICT"))
    );
    let (_, shown) = http.get("/harnesses/echo/7").await;
    assert_eq!(shown["spec"]["command"], "echo registered");
    assert_eq!(
        http.get("/harnesses").await.1["harnesses"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(http.get("/harnesses/echo/8").await.0, StatusCode::NOT_FOUND);
    let (status, refused) = http
        .post(
            "/harnesses",
            &json!({"kind": "command", "id": "x", "version": "1"}),
        )
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        refused["message"].as_str().unwrap().starts_with("command"),
        "{refused}"
    );

    let runner = world.runner().await;
    let mut body = run_on(&runner.target());
    body.as_object_mut().unwrap().remove("harnessSpec");
    body["harness"]["version"] = json!("7");
    http.post("/runs", &body).await;
    let lease = runner.lease(0).await;
    assert_eq!(lease["job"]["harnessSpec"]["command"], "echo registered");

    let other = world.http_as(&world.key("other", Role::Admin).await);
    assert_eq!(other.get("/harnesses/echo/7").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_harness_that_no_runner_could_run_is_refused_at_once() {
    let world = World::start().await;
    let runner = world.runner().await;
    let mut body = run_on(&runner.target());
    body.as_object_mut().unwrap().remove("harnessSpec");
    body["harness"] = json!({"id": "nowhere", "version": "1.0.0"});
    let (status, refused) = world.http().post("/runs", &body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with("harness: nowhere@1.0.0 is not registered"),
        "{message}"
    );
    let (_, runs) = world.http().get("/runs").await;
    assert_eq!(runs["runs"], json!([]), "nothing is kept of it");
}

#[tokio::test]
async fn a_built_in_harness_goes_to_the_runner_without_a_spec() {
    let world = World::start().await;
    let runner = world.runner().await;
    let mut body = run_on(&runner.target());
    body.as_object_mut().unwrap().remove("harnessSpec");
    body["harness"] = json!({"id": "scripted", "version": "0"});
    body.as_object_mut().unwrap().remove("runtime");
    body["case"]["placement"] = json!({"target": runner.target()});
    let (status, _) = world.http().post("/runs", &body).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(runner.lease(0).await["job"].get("harnessSpec"), None);
}

#[tokio::test]
async fn the_folder_of_a_running_case_can_be_looked_into() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    runner.lease(0).await;
    world.run_with(&run, "running").await;
    let path = format!("/runs/{run}/fs/file?path=a.rs");
    let http = world.http();
    let look = http.get(&path);
    let serve = async {
        let token = json!({"jobId": run, "leaseEpoch": 1});
        let question = loop {
            let polled = runner.mcp.call("poll_case_fs_requests", token.clone()).await;
            if let Some(question) = polled["requests"].as_array().and_then(|all| all.first().cloned()) {
                break question;
            }
        };
        assert_eq!(
            (&question["kind"], &question["path"]),
            (&json!("fsFile"), &json!("a.rs"))
        );
        let file = json!({
            "path": "a.rs", "size": 1, "binary": false, "truncated": false, "content": "x", "diff": "",
        });
        let answer = json!({
            "jobId": run, "leaseEpoch": 1, "requestId": question["id"],
            "result": {"kind": "fsFile", "file": file},
        });
        assert_eq!(
            runner.mcp.call("answer_case_fs_request", answer).await,
            json!({"ok": true})
        );
    };
    let ((status, seen), ()) = tokio::join!(look, serve);
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&seen["found"], &seen["content"]), (&json!(true), &json!("x")));
}

#[tokio::test]
async fn runs_submitted_together_are_counted_listed_and_cancelled_together() {
    let world = World::start().await;
    let runner = world.runner().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut body = run_on(&runner.target());
        body["batchId"] = json!("b-1");
        body["batchLabel"] = json!("nightly");
        let (status, queued) = world.http().post("/runs", &body).await;
        assert_eq!(
            (status, &queued["batchId"]),
            (StatusCode::ACCEPTED, &json!("b-1"))
        );
        ids.push(queued["id"].as_str().unwrap().to_owned());
    }
    world.submit(&runner.target()).await;
    runner.lease(0).await;
    runner.submit(&ids[0], 1).await;
    world.run_with(&ids[0], "succeeded").await;
    let (_, batch) = world.http().get("/batches/b-1").await;
    assert_eq!((&batch["label"], &batch["total"]), (&json!("nightly"), &json!(3)));
    assert_eq!((&batch["done"], &batch["unmeasured"]), (&json!(1), &json!(1)));
    let (_, page) = world.http().get("/runs?batch=b-1").await;
    let rows = page["runs"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[2]["verdict"]), (3, &json!("unmeasured")));
    assert_eq!(rows[2].get("result"), None, "a list carries no results");
    let typed: everdict_contracts::RunList = everdict_contracts::decode(page).unwrap();
    assert_eq!(
        typed.runs[2].verdict,
        Some(everdict_contracts::Verdict::Unmeasured)
    );

    let (_, cancelled) = world.http().post("/batches/b-1/cancel", &json!({})).await;
    assert_eq!(cancelled["cancelled"], 2);
    let (_, batch) = world.http().get("/batches/b-1").await;
    assert_eq!((&batch["done"], &batch["infra"]), (&json!(3), &json!(2)));
    let (_, list) = world.http().get("/batches").await;
    assert_eq!(list["batches"].as_array().unwrap().len(), 1);

    let strangers = world.http_as(&world.key("other", Role::Admin).await);
    assert_eq!(strangers.get("/batches/b-1").await.0, StatusCode::NOT_FOUND);
    let (status, _) = strangers.post("/batches/b-1/cancel", &json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let viewer = world.http_as(&world.key("acme", Role::Viewer).await);
    let (status, _) = viewer.post("/batches/b-1/cancel", &json!({})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}
