//! Who gets a job, and whose word about it counts.

use std::time::Duration;

use everdict_hub::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::kit::{Mcp, PATIENCE, World, initialize, lease_args, run_on, tool_call};

#[tokio::test]
async fn a_waiting_call_gets_the_job_at_once_and_its_headers_came_before() {
    let world = World::start().await;
    let runner = world.runner().await;
    let response = timeout(
        PATIENCE,
        runner.mcp.post(&tool_call("lease_job", lease_args(30_000))),
    )
    .await
    .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let since = Instant::now();
    let run = world.submit(&runner.target()).await;
    let body = response.text().await.unwrap();
    assert!(body.contains(&run), "{body}");
    assert!(since.elapsed() < Duration::from_secs(10));
    world.run_with(&run, "running").await;
}

#[tokio::test]
async fn an_empty_poll_ends_when_its_wait_is_over() {
    let world = World::start().await;
    let runner = world.runner().await;
    let since = Instant::now();
    assert_eq!(runner.lease(300).await, json!({"job": null}));
    assert!(since.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn calls_of_one_session_run_at_the_same_time() {
    let world = World::start().await;
    let runner = world.runner().await;
    let poll = runner.mcp.post(&tool_call("lease_job", lease_args(30_000))).await;
    let beat = timeout(PATIENCE, runner.mcp.call("heartbeat_job", json!({})))
        .await
        .unwrap();
    assert_eq!(beat, json!({"ok": true}));
    drop(poll);
}

#[tokio::test]
async fn a_dead_poll_never_gets_a_job() {
    let world = World::start().await;
    let runner = world.runner().await;
    // The first poll's connection is closed while it waits; the second one lives.
    let dead = Mcp {
        client: reqwest::Client::new(),
        ..runner.mcp.clone()
    };
    let poll = dead.post(&tool_call("lease_job", lease_args(30_000))).await;
    assert_eq!(poll.status(), StatusCode::OK);
    drop(poll);
    drop(dead);
    let alive = runner.mcp.post(&tool_call("lease_job", lease_args(30_000))).await;
    let run = world.submit(&runner.target()).await;
    let body = timeout(PATIENCE, alive.text()).await.unwrap().unwrap();
    assert!(body.contains(&run), "{body}");
}

#[tokio::test]
async fn a_poll_that_hangs_up_while_the_job_arrives_does_not_keep_it() {
    let world = World::start().await;
    let runner = world.runner().await;
    let target = runner.target();
    for _ in 0..20 {
        let dead = Mcp {
            client: reqwest::Client::new(),
            ..runner.mcp.clone()
        };
        let poll = dead.post(&tool_call("lease_job", lease_args(30_000))).await;
        let (run, ()) = tokio::join!(world.submit(&target), async {
            drop(poll);
            drop(dead);
        });
        // Whichever came first, nobody has to wait for a lease to run out.
        let lease = timeout(PATIENCE, runner.lease(10_000)).await.unwrap();
        assert_eq!(lease["jobId"], run);
        let epoch = lease["attempt"]["leaseEpoch"].as_u64().unwrap();
        assert_eq!(runner.submit(&run, epoch).await["accepted"], true);
    }
}

#[tokio::test]
async fn a_call_called_off_or_a_session_ended_gets_no_job() {
    let world = World::start().await;
    let runner = world.runner().await;
    let poll = runner.mcp.post(&tool_call("lease_job", lease_args(30_000))).await;
    let off = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(runner.mcp.post(&off).await.status(), StatusCode::ACCEPTED);
    assert_eq!(timeout(PATIENCE, poll.text()).await.unwrap().unwrap(), "");

    let other = Mcp::connect(&world, &runner.token).await;
    let poll = other.post(&tool_call("lease_job", lease_args(30_000))).await;
    let end = other
        .client
        .delete(&other.url)
        .bearer_auth(&other.token)
        .header("mcp-session-id", &other.session);
    assert_eq!(end.send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(timeout(PATIENCE, poll.text()).await.unwrap().unwrap(), "");

    let run = world.submit(&runner.target()).await;
    assert_eq!(runner.lease(0).await["jobId"], run);
}

#[tokio::test]
async fn a_lost_lease_is_handed_on_without_anybody_polling_and_the_late_result_is_fenced() {
    let world = World::with(|config| config.lease_ttl = Duration::from_millis(400)).await;
    let (first, second) = (world.runner().await, world.runner().await);
    let run = world.submit("self").await;
    assert_eq!(first.lease(0).await["attempt"]["leaseEpoch"], 1);
    let since = Instant::now();
    let again = timeout(PATIENCE, second.lease(30_000)).await.unwrap();
    assert_eq!(again["attempt"], json!({"jobId": run, "leaseEpoch": 2}));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert_eq!(again["job"]["recordingGeneration"], 2);

    let stale = json!({"ok": true, "extended": false, "cancelled": false});
    assert_eq!(first.heartbeat(&run, 1).await, stale);
    assert_eq!(first.heartbeat(&run, 2).await, stale);
    assert_eq!(first.submit(&run, 1).await["accepted"], false);
    assert_eq!(first.submit(&run, 2).await["accepted"], false);
    assert_eq!(first.log(&run, 1, "late").await["ok"], false);
    assert_eq!(second.submit(&run, 2).await["accepted"], true);
    assert_eq!(second.submit(&run, 2).await["accepted"], false);
    let done = world.run_with(&run, "succeeded").await;
    assert_eq!(done["result"]["provenance"]["runner"], second.id);
    assert_eq!(done["requeues"], 1);
}

#[tokio::test]
async fn heartbeats_keep_a_lease() {
    let world = World::with(|config| config.lease_ttl = Duration::from_millis(600)).await;
    let (first, second) = (world.runner().await, world.runner().await);
    let run = world.submit("self").await;
    first.lease(0).await;
    let until = Instant::now() + Duration::from_millis(1_500);
    let poll = second.mcp.post(&tool_call("lease_job", lease_args(30_000))).await;
    let mut beat = tokio::time::interval(Duration::from_millis(100));
    while Instant::now() < until {
        beat.tick().await;
        assert_eq!(first.heartbeat(&run, 1).await["extended"], true);
    }
    drop(poll);
    assert_eq!(first.submit(&run, 1).await["accepted"], true);
}

#[tokio::test]
async fn hub_restart_keeps_the_lease() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    let waiting = world.submit(&runner.target()).await;
    runner.lease(0).await;
    assert_eq!(runner.log(&run, 1, "before").await["ok"], true);

    let world = world.restart().await;
    // The session is known to the new hub as well; only the address has changed.
    let mcp = Mcp {
        url: world.url("/mcp"),
        ..runner.mcp.clone()
    };
    let runner = crate::kit::Runner { mcp, ..runner };
    assert_eq!(runner.heartbeat(&run, 1).await["extended"], true);
    assert_eq!(
        runner.log(&run, 1, "after").await,
        json!({"ok": true, "durable": true})
    );
    assert_eq!(runner.submit(&run, 1).await["accepted"], true);
    let (_, log) = world.http().get(&format!("/runs/{run}/logs")).await;
    assert_eq!(log["text"], "before\nafter");
    world.run_with(&run, "succeeded").await;
    let lease = runner.lease(0).await;
    assert_eq!(lease["attempt"], json!({"jobId": waiting, "leaseEpoch": 1}));
}

#[tokio::test]
async fn a_cancel_before_a_restart_still_reaches_the_holder() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    runner.lease(0).await;
    world
        .http()
        .post(&format!("/runs/{run}/cancel"), &json!({}))
        .await;
    let world = world.restart().await;
    let mcp = Mcp {
        url: world.url("/mcp"),
        ..runner.mcp.clone()
    };
    let runner = crate::kit::Runner { mcp, ..runner };
    assert_eq!(
        runner.heartbeat(&run, 1).await,
        json!({"ok": true, "extended": false, "cancelled": true})
    );
}

#[tokio::test]
async fn a_cancelled_run_is_over_at_once_and_its_holder_hears_of_it() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    runner.lease(0).await;
    let path = format!("/runs/{run}/cancel");
    for _ in 0..2 {
        let (status, cancelled) = world.http().post(&path, &json!({})).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(cancelled["status"], "failed");
        assert_eq!(cancelled["error"]["code"], "CANCELLED");
    }
    let told = json!({"ok": true, "extended": false, "cancelled": true});
    assert_eq!(runner.heartbeat(&run, 1).await, told);
    assert_eq!(runner.heartbeat(&run, 1).await, told);
    let pushed = runner.log(&run, 1, "still here").await;
    assert_eq!(
        (&pushed["ok"], &pushed["cancelled"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(runner.submit(&run, 1).await["accepted"], false);
    assert_eq!(runner.lease(0).await, json!({"job": null}));
    world.run_with(&run, "failed").await;
}

#[tokio::test]
async fn a_queued_run_that_is_cancelled_is_never_handed_out() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    let (status, _) = world
        .http()
        .post(&format!("/runs/{run}/cancel"), &json!({}))
        .await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(runner.lease(0).await, json!({"job": null}));
    let finished = world.submit(&runner.target()).await;
    runner.lease(0).await;
    runner.submit(&finished, 1).await;
    let (status, refused) = world
        .http()
        .post(&format!("/runs/{finished}/cancel"), &json!({}))
        .await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("CONFLICT"))
    );
    assert_eq!(refused["data"], json!({"run": finished, "status": "succeeded"}));
    let (status, _) = world.http().post("/runs/unknown/cancel", &json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_job_nobody_can_run_ends_with_the_reason() {
    let world = World::with(|config| config.idle_timeout = Duration::from_millis(200)).await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    let failed = world.run_with(&run, "failed").await;
    assert_eq!(failed["error"]["code"], "UPSTREAM_ERROR");
    assert_eq!(failed["result"]["failure"]["stage"], "dispatch");
    assert_eq!(failed["result"]["failure"]["retryable"], true);
}

#[tokio::test]
async fn a_pinned_job_its_runner_cannot_run_fails_when_the_runner_asks() {
    let world = World::start().await;
    let runner = world.runner().await;
    let mut body = run_on(&runner.target());
    body["case"]["image"] = json!("alpine:3");
    let (_, run) = world.http().post("/runs", &body).await;
    assert_eq!(runner.lease(0).await, json!({"job": null}));
    let failed = world.run_with(run["id"].as_str().unwrap(), "failed").await;
    assert_eq!(failed["error"]["code"], "UPSTREAM_ERROR");
    let failure = &failed["result"]["failure"];
    assert_eq!(
        (&failure["class"], &failure["runnerId"]),
        (&json!("infra"), &json!(runner.id))
    );
}

#[tokio::test]
async fn two_runners_drain_one_pool_and_nothing_is_handed_out_twice() {
    let world = World::start().await;
    let (first, second) = (world.runner().await, world.runner().await);
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(world.submit("self").await);
    }
    let mut seen = Vec::new();
    for runner in [&first, &second].into_iter().cycle().take(10) {
        let job = runner.lease(0).await["jobId"].as_str().unwrap().to_owned();
        assert_eq!(runner.submit(&job, 1).await["accepted"], true);
        seen.push(job);
    }
    assert_eq!(first.lease(0).await, json!({"job": null}));
    seen.sort();
    runs.sort();
    assert_eq!(seen, runs);
}

#[tokio::test]
async fn revoking_a_runner_ends_its_calls_and_its_token() {
    let world = World::start().await;
    let runner = world.runner().await;
    let poll = runner.mcp.post(&tool_call("lease_job", lease_args(30_000))).await;
    world.http().delete(&format!("/runners/{}", runner.id)).await;
    let body = timeout(PATIENCE, poll.text()).await.unwrap().unwrap();
    assert!(body.contains("null"), "{body}");
    let response = runner.mcp.post(&tool_call("lease_job", lease_args(0))).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn one_owner_never_gets_anothers_jobs() {
    let world = World::start().await;
    let runner = world.runner().await;
    world.submit("self").await;
    let other = world.key("other", Role::Admin).await;
    let (_, paired) = world
        .http_as(&other)
        .post("/runners", &json!({"label": "theirs"}))
        .await;
    let theirs = Mcp::connect(&world, paired["token"].as_str().unwrap()).await;
    assert_eq!(
        theirs.call("lease_job", lease_args(0)).await,
        json!({"job": null})
    );
    assert!(runner.lease(0).await["jobId"].is_string());
}

#[tokio::test]
async fn a_pause_outlives_a_restart_of_the_hub_and_ends_as_it_was_asked_for() {
    let world = World::start().await;
    let runner = world.runner().await;
    let [pause, resume] = ["pause", "resume"].map(|what| format!("/runners/{}/{what}", runner.id));
    let (status, _) = world.http().post(&pause, &json!({"reason": "maintenance"})).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let world = world.restart().await;
    world.submit(&runner.target()).await;
    let again = Mcp::connect(&world, &runner.token).await;
    let lease = again.call("lease_job", lease_args(0)).await;
    assert_eq!(lease, json!({"job": null, "paused": "maintenance"}));
    world.http().post(&resume, &json!({})).await;
    let world = world.restart().await;
    let again = Mcp::connect(&world, &runner.token).await;
    assert!(again.call("lease_job", lease_args(0)).await["jobId"].is_string());
}

#[tokio::test]
async fn a_removed_runner_is_told_so_also_after_a_restart_and_an_unknown_one_is_not() {
    let world = World::start().await;
    let runner = world.runner().await;
    world.http().delete(&format!("/runners/{}", runner.id)).await;
    let ask = async |world: &World, token: &str| {
        let answer = world
            .http_as(token)
            .send(Method::POST, "/mcp", Some(&initialize("2025-06-18")))
            .await;
        let status = answer.status();
        let body: Value = answer.json().await.unwrap();
        (status, body["data"]["reason"].clone())
    };
    let removed = (StatusCode::UNAUTHORIZED, json!("runner_removed"));
    assert_eq!(ask(&world, &runner.token).await, removed);
    let world = world.restart().await;
    assert_eq!(ask(&world, &runner.token).await, removed);
    let unknown = format!("rnr_{}", "x".repeat(32));
    assert_eq!(
        ask(&world, &unknown).await,
        (StatusCode::UNAUTHORIZED, Value::Null)
    );
}

#[tokio::test]
async fn a_paused_runner_gets_no_job_learns_why_at_once_and_keeps_the_one_it_has() {
    let world = World::start().await;
    let runner = world.runner().await;
    let http = world.http();
    let running = world.submit(&runner.target()).await;
    let leased = runner.lease(0).await;
    assert_eq!(leased["jobId"], running.as_str());
    let (waiting, ()) = tokio::join!(runner.lease(20_000), async {
        let path = format!("/runners/{}/pause", runner.id);
        let (status, _) = http.post(&path, &json!({"reason": "maintenance"})).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
    });
    let paused = json!({"job": null, "paused": "maintenance"});
    assert_eq!(waiting, paused);
    world.submit(&runner.target()).await;
    assert_eq!(runner.lease(0).await, paused);
    let beat = runner.heartbeat(&running, 1).await;
    assert_eq!(
        (&beat["extended"], &beat["paused"]),
        (&json!(true), &json!("maintenance"))
    );
    let (_, list) = http.get("/runners").await;
    assert_eq!(list["runners"][0]["paused"], "maintenance");
    let (status, _) = http
        .post(&format!("/runners/{}/resume", runner.id), &json!({}))
        .await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert!(runner.lease(0).await["jobId"].is_string());
    let (status, _) = http.post("/runners/x/pause", &json!({"reason": "r"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = http
        .post(&format!("/runners/{}/pause", runner.id), &json!({"reason": ""}))
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
