//! Two hubs on one PostgreSQL database, with nothing but the database between them.
#![cfg(all(unix, feature = "postgres"))]

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::SecretText;
use everdict_testkit::Postgres;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::kit::{Mcp, PATIENCE, Runner, World, lease_args, result, run_on};
use crate::logs::Events;

/// Two hubs, and the server they share. `None` where PostgreSQL is not installed.
async fn two(ttl: Duration) -> Option<(World, World, Arc<Postgres>)> {
    let server = Arc::new(Postgres::start_or_skip("two hubs on one database")?);
    let url = server.url();
    let a = World::with(move |config| {
        config.database = Some(SecretText::new(url));
        config.lease_ttl = ttl;
    })
    .await;
    let b = a.peer().await;
    Some((a, b, server))
}

const LONG: Duration = Duration::from_secs(60);

async fn at(world: &World, runner: &Runner) -> Mcp {
    Mcp::connect(world, &runner.token).await
}

async fn lease(mcp: &Mcp, wait_ms: u64) -> Value {
    mcp.call("lease_job", lease_args(wait_ms)).await
}

async fn submit_result(mcp: &Mcp, leased: &Value) -> bool {
    let args = json!({
        "jobId": leased["attempt"]["jobId"], "leaseEpoch": leased["attempt"]["leaseEpoch"], "result": result(),
    });
    mcp.call("submit_job_result", args).await["accepted"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn runners_at_two_hubs_drain_one_queue_and_nothing_is_handed_twice() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    let (first, second) = (a.runner().await, a.runner().await);
    let (at_a, at_b) = (at(&a, &first).await, at(&b, &second).await);
    const RUNS: usize = 60;
    let mut submitted = Vec::new();
    for n in 0..RUNS {
        submitted.push(if n % 2 == 0 { &a } else { &b }.submit("self").await);
    }
    let drain = async |mcp: &Mcp| {
        let mut got = Vec::new();
        loop {
            let leased = lease(mcp, 0).await;
            let Some(id) = leased["jobId"].as_str() else {
                return got;
            };
            got.push(id.to_owned());
            assert!(submit_result(mcp, &leased).await);
        }
    };
    let (mut all, more) = tokio::join!(drain(&at_a), drain(&at_b));
    assert!(
        !all.is_empty() && !more.is_empty(),
        "{} and {}",
        all.len(),
        more.len()
    );
    all.extend(more);
    all.sort();
    submitted.sort();
    assert_eq!(all, submitted);
    let (_, run) = a.http().get(&format!("/runs/{}", submitted[0])).await;
    assert_eq!(run["status"], "succeeded", "{run}");
}

#[tokio::test]
async fn a_job_submitted_at_one_hub_wakes_a_runner_that_waits_at_the_other() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    let runner = a.runner().await;
    let there = at(&b, &runner).await;
    for target in ["self".to_owned(), format!("self:{}", runner.id)] {
        let waiting = lease(&there, 60_000);
        tokio::pin!(waiting);
        // The call is on its way; whether it waits already does not matter to the promise.
        let early = timeout(Duration::from_millis(200), &mut waiting).await;
        assert!(early.is_err(), "{early:?}");
        let run = a.submit(&target).await;
        let leased = timeout(PATIENCE, waiting).await.unwrap();
        assert_eq!(leased["jobId"], run.as_str(), "{leased}");
        assert!(submit_result(&there, &leased).await);
    }
}

#[tokio::test]
async fn a_session_opened_at_one_hub_goes_on_at_the_other_until_it_is_ended() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    let runner = a.runner().await;
    let run = a.submit("self").await;
    let moved = runner.mcp.moved_to(&b);
    let leased = lease(&moved, 0).await;
    assert_eq!(leased["jobId"], run.as_str());
    // Heartbeat at one, result at the other.
    let beat = json!({"jobId": run, "leaseEpoch": 1});
    let beat = runner.mcp.call("heartbeat_job", beat).await;
    assert_eq!(beat["extended"], true, "{beat}");
    assert!(submit_result(&runner.mcp, &leased).await);
    assert!(!submit_result(&moved, &leased).await);
    runner.mcp.end().await;
    let until = Instant::now() + PATIENCE;
    while moved.is_known().await {
        assert!(
            Instant::now() < until,
            "the other hub still knows an ended session"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_log_is_followed_at_another_hub_than_the_runner_talks_to() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    let runner = a.runner().await;
    let run = a.submit("self").await;
    let mut events = Events::open(&b, &run, None).await;
    assert_eq!(events.next().await.unwrap().2, json!({"status": "queued"}));
    let leased = lease(&runner.mcp, 0).await;
    assert_eq!(events.next().await.unwrap().2, json!({"status": "running"}));
    for line in ["one", "two"] {
        let args = json!({"jobId": run, "leaseEpoch": 1, "line": line});
        let pushed = runner.mcp.call("report_case_log", args).await;
        assert_eq!(
            (&pushed["ok"], &pushed["durable"]),
            (&true.into(), &true.into()),
            "{pushed}"
        );
        assert_eq!(events.lines(1).await, [line]);
    }
    assert!(submit_result(&runner.mcp, &leased).await);
    let (event, _, data) = events.next().await.unwrap();
    assert_eq!((event.as_str(), &data["status"]), ("end", &"succeeded".into()));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_cancel_at_any_hub_is_told_with_the_next_word_of_the_holder() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    let runner = a.runner().await;
    let run = a.submit("self").await;
    let leased = lease(&runner.mcp, 0).await;
    let (status, _) = b.http().post(&format!("/runs/{run}/cancel"), &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let beat = json!({"jobId": run, "leaseEpoch": 1});
    let beat = runner.mcp.call("heartbeat_job", beat).await;
    assert_eq!(
        (&beat["extended"], &beat["cancelled"]),
        (&false.into(), &true.into()),
        "{beat}"
    );
    let line = json!({"jobId": run, "leaseEpoch": 1, "line": "late"});
    let pushed = runner.mcp.call("report_case_log", line).await;
    assert_eq!(
        (&pushed["ok"], &pushed["cancelled"]),
        (&false.into(), &true.into()),
        "{pushed}"
    );
    assert!(!submit_result(&runner.mcp, &leased).await);
}

#[tokio::test]
async fn a_lost_runners_job_goes_to_a_waiting_call_without_anybody_polling_and_the_late_result_is_fenced() {
    let ttl = Duration::from_millis(1_500);
    let Some((a, b, _server)) = two(ttl).await else {
        return;
    };
    let (lost, other) = (a.runner().await, a.runner().await);
    let run = a.submit("self").await;
    let stale = lease(&lost.mcp, 0).await;
    let since = Instant::now();
    // From here on nobody asks anything: one call waits, at the hub that did not give the lease.
    let there = at(&b, &other).await;
    let again = timeout(PATIENCE, lease(&there, 60_000)).await.unwrap();
    let waited = since.elapsed();
    assert_eq!(
        (&again["jobId"], &again["attempt"]["leaseEpoch"]),
        (&run.as_str().into(), &2.into())
    );
    assert!(waited < ttl + Duration::from_secs(1), "{waited:?}");
    assert!(!submit_result(&lost.mcp, &stale).await);
    assert!(!submit_result(&at(&b, &lost).await, &stale).await);
    assert!(submit_result(&there, &again).await);
}

#[tokio::test]
async fn what_one_hub_does_with_runners_and_keys_the_other_knows() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    let runner = a.runner().await;
    let there = at(&b, &runner).await;
    let path = format!("/runners/{}", runner.id);
    let (status, _) = a
        .http()
        .post(&format!("{path}/pause"), &json!({"reason": "new disks"}))
        .await;
    assert!(status.is_success());
    eventually(async || lease(&there, 0).await["paused"] == "new disks").await;
    let (status, _) = b.http().post(&format!("{path}/resume"), &json!({})).await;
    assert!(status.is_success());
    eventually(async || a.http().get("/runners").await.1["runners"][0]["paused"].is_null()).await;
    let beat = json!({"status": "warming up"});
    there.call("heartbeat_job", beat).await;
    eventually(async || a.http().get("/runners").await.1["runners"][0]["status"]["text"] == "warming up")
        .await;
    let waiting = lease(&there, 60_000);
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_millis(200), &mut waiting).await.is_err());
    assert_eq!(
        a.http().send(reqwest::Method::DELETE, &path, None).await.status(),
        204
    );
    // Its waiting call ends without a job, and its token is worth nothing any more.
    let ended = timeout(PATIENCE, waiting).await.unwrap();
    assert!(ended["job"].is_null(), "{ended}");
    eventually(async || b.http_as(&runner.token).get("/me").await.0 == 401).await;

    let key = b.key("acme", everdict_hub::Role::Member).await;
    assert_eq!(a.http_as(&key).get("/me").await.0, 200);
    assert!(
        b.hub
            .delete_api_key(&SecretText::new(key.as_str()))
            .await
            .unwrap()
    );
    eventually(async || a.http_as(&key).get("/me").await.0 == 401).await;
}

#[tokio::test]
async fn a_runner_paired_at_one_hub_takes_a_job_sent_to_the_other_at_once() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    // Each round is a new owner, whose first runner the other hub cannot have heard of for long.
    for n in 0..20 {
        let key = a
            .hub
            .add_api_key(everdict_hub::NewApiKey {
                workspace: everdict_contracts::WorkspaceId::from("acme"),
                role: everdict_hub::Role::Admin,
                subject: Some(everdict_contracts::Subject::from(format!("ann-{n}"))),
                label: String::new(),
            })
            .await
            .unwrap();
        let body = json!({"label": "lab", "capabilities": ["git"]});
        let (status, _) = a.http_as(key.expose()).post("/runners", &body).await;
        assert_eq!(status, StatusCode::OK);
        let (_, run) = b.http_as(key.expose()).post("/runs", &run_on("self")).await;
        let id = run["id"].as_str().unwrap();
        let (_, run) = b.http().get(&format!("/runs/{id}")).await;
        assert_eq!(run["status"], "queued", "{run}");
    }
}

#[tokio::test]
async fn a_look_into_a_folder_and_a_screen_find_the_runner_at_the_other_hub() {
    let Some((a, b, _server)) = two(LONG).await else {
        return;
    };
    let runner = a.runner().await;
    let run = a.submit("self").await;
    lease(&runner.mcp, 0).await;
    let frame = json!({"jobId": run, "leaseEpoch": 1, "frame": "iVBORw0KGgo="});
    let shown = runner.mcp.call("report_case_screen", frame).await;
    assert_eq!(shown["ok"], true, "{shown}");
    let (_, screen) = b.http().get(&format!("/runs/{run}/screen")).await;
    assert_eq!(screen["frame"], "iVBORw0KGgo=", "{screen}");

    let serve = async {
        let until = Instant::now() + PATIENCE;
        loop {
            let poll = json!({"jobId": run, "leaseEpoch": 1});
            let polled = runner.mcp.call("poll_case_fs_requests", poll).await;
            if let Some(id) = polled["requests"][0]["id"].as_str() {
                // Larger than a notification may be.
                let text = "x".repeat(50_000);
                let file = json!({
                    "path": "a.rs", "size": 50_000, "binary": false, "truncated": false, "content": text, "diff": "",
                });
                let answer = json!({
                    "jobId": run, "leaseEpoch": 1, "requestId": id, "result": {"kind": "fsFile", "file": file},
                });
                return runner.mcp.call("answer_case_fs_request", answer).await;
            }
            assert!(Instant::now() < until);
            tokio::task::yield_now().await;
        }
    };
    let http = b.http();
    let path = format!("/runs/{run}/fs/file?path=a.rs");
    let ((status, seen), answered) = tokio::join!(http.get(&path), serve);
    assert_eq!(answered["ok"], true, "{answered}");
    assert_eq!((status, &seen["found"]), (StatusCode::OK, &true.into()), "{seen}");
}

#[tokio::test]
async fn a_pinned_job_that_its_runner_cannot_take_and_one_nobody_comes_for_are_told() {
    let server = Postgres::start_or_skip("two hubs on one database");
    let Some(server) = server.map(Arc::new) else {
        return;
    };
    let url = server.url();
    let world = World::with(move |config| {
        config.database = Some(SecretText::new(url));
        config.idle_timeout = Duration::from_millis(700);
    })
    .await;
    let runner = world.runner().await;
    let mut body = run_on(&format!("self:{}", runner.id));
    body["case"]["image"] = json!("img:1");
    let (_, run) = world.http().post("/runs", &body).await;
    let args = json!({"wait_ms": 0, "protocol": 2, "version": "1", "capabilities": []});
    assert!(runner.mcp.call("lease_job", args).await["job"].is_null());
    let failed = world.run_with(run["id"].as_str().unwrap(), "failed").await;
    assert!(
        failed.to_string().contains("lacks what this job needs (docker)"),
        "{failed}"
    );
    let forsaken = world.submit("self").await;
    let failed = world.run_with(&forsaken, "failed").await;
    assert!(
        failed.to_string().contains("no runner came for this job in time"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_hub_is_ready_while_its_database_answers_and_counts_for_those_who_may_ask() {
    let Some((a, b, server)) = two(LONG).await else {
        return;
    };
    let runner = a.runner().await;
    a.submit("self").await;
    let leased = lease(&at(&b, &runner).await, 0).await;
    assert!(leased["job"].is_object());
    let get = async |world: &World, path: &str| reqwest::get(world.url(path)).await.unwrap();
    assert_eq!(get(&a, "/healthz").await.status(), 200);
    assert_eq!(get(&b, "/readyz").await.status(), 200);
    let text = get(&b, "/metrics").await.text().await.unwrap();
    for line in [
        "everdict_runs_leased 1",
        "everdict_runs_waiting 0",
        "everdict_leases_total 1",
        "everdict_runners 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
    }
    let through_proxy = reqwest::Client::new()
        .get(a.url("/metrics"))
        .header("x-forwarded-for", "192.0.2.7");
    assert_eq!(through_proxy.send().await.unwrap().status(), 401);
    assert_eq!(a.http_as(&runner.token).get("/metrics").await.0, 403);
    assert_eq!(
        a.http()
            .send(reqwest::Method::GET, "/metrics", None)
            .await
            .status(),
        200
    );
    drop(Arc::into_inner(server));
    drop(b);
    assert_eq!(get(&a, "/readyz").await.status(), 503);
    assert_eq!(get(&a, "/healthz").await.status(), 200);
}

async fn eventually(look: impl AsyncFn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !look().await {
        assert!(Instant::now() < until, "it did not come true");
        tokio::task::yield_now().await;
    }
}
