//! Replies have the shapes that runners of the protocol were built against.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::kit::{Mcp, World, frames, initialize, result, tool_call};

#[tokio::test]
async fn initialize_negotiates_the_version_and_hands_out_a_session() {
    let world = World::start().await;
    let runner = world.runner().await;
    let fresh = Mcp {
        session: String::new(),
        ..runner.mcp.clone()
    };
    for (asked, answered) in [
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let response = fresh.post(&initialize(asked)).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(response.headers().contains_key("mcp-session-id"));
        let frame = frames(&response.text().await.unwrap()).remove(0);
        assert_eq!(frame["result"]["protocolVersion"], answered);
        assert_eq!(frame["result"]["serverInfo"]["name"], "everdict");
        assert!(frame["result"]["capabilities"]["tools"].is_object());
    }
    let response = runner.mcp.post(&initialize("2025-11-25")).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], -32600);
}

#[tokio::test]
async fn the_transport_refuses_what_the_protocol_says_it_refuses() {
    let world = World::start().await;
    let mcp = world.runner().await.mcp;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});

    let stranger = Mcp {
        token: "rnr_nobody".into(),
        ..mcp.clone()
    };
    let response = stranger.post(&ping).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let challenge = response.headers()["www-authenticate"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        challenge.starts_with("Bearer resource_metadata=\"http://127.0.0.1"),
        "{challenge}"
    );
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "UNAUTHENTICATED");

    let unknown = Mcp {
        session: "11111111-2222-3333-4444-555555555555".into(),
        ..mcp.clone()
    };
    let response = unknown.post(&ping).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "NOT_FOUND");

    let without = Mcp {
        session: String::new(),
        ..mcp.clone()
    };
    let response = without.post(&ping).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "BAD_REQUEST");

    for accept in ["application/json", "text/event-stream", "*/*"] {
        let response = mcp
            .client
            .post(&mcp.url)
            .bearer_auth(&mcp.token)
            .header("accept", accept)
            .json(&ping);
        let response = response
            .header("mcp-session-id", &mcp.session)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::NOT_ACCEPTABLE, "{accept}");
    }
    let response = mcp
        .request(&ping)
        .header("mcp-protocol-version", "1999-01-01")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], -32000);
    let response = mcp.request(&ping).body("{bad").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let plain = mcp
        .client
        .post(&mcp.url)
        .bearer_auth(&mcp.token)
        .header("mcp-session-id", &mcp.session);
    let plain = plain
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "text/plain");
    let response = plain.body("{}").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn a_session_serves_only_the_principal_it_was_made_for() {
    let world = World::start().await;
    let (ann, bob) = (world.runner().await, world.runner().await);
    let mixed = Mcp {
        token: bob.token,
        ..ann.mcp
    };
    let response = mixed.post(&tool_call("lease_job", json!({}))).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn messages_are_answered_as_json_rpc_says() {
    let world = World::start().await;
    let mcp = world.runner().await.mcp;
    let response = mcp
        .post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.text().await.unwrap(), "");

    let batch = json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "nope"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]);
    let mut answers = frames(&mcp.post(&batch).await.text().await.unwrap());
    answers.sort_by_key(|answer| answer["id"].is_number());
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
    let unknown =
        json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "Method not found"}});
    assert_eq!(answers[1..], [unknown]);

    assert_eq!(
        mcp.refused("no_such_tool", json!({})).await,
        "MCP error -32602: Tool no_such_tool not found"
    );
    let listed = mcp
        .post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        .await;
    let listed = frames(&listed.text().await.unwrap()).remove(0);
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(
        tools
            .iter()
            .any(|tool| tool["name"] == "lease_job" && tool["inputSchema"]["type"] == "object")
    );
}

#[tokio::test]
async fn a_session_has_one_stream_and_ends_on_delete() {
    let world = World::start().await;
    let mcp = world.runner().await.mcp;
    let open = || {
        let request = mcp
            .client
            .get(&mcp.url)
            .bearer_auth(&mcp.token)
            .header("accept", "text/event-stream");
        request.header("mcp-session-id", &mcp.session)
    };
    let first = open().send().await.unwrap();
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(open().send().await.unwrap().status(), StatusCode::CONFLICT);
    let delete = mcp
        .client
        .delete(&mcp.url)
        .bearer_auth(&mcp.token)
        .header("mcp-session-id", &mcp.session);
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(first.text().await.unwrap(), "");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(mcp.post(&ping).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_outdated_runner_is_told_so_at_once() {
    let world = World::start().await;
    let runner = world.runner().await;
    for protocol in [json!({}), json!({"protocol": 0}), json!({"protocol": 1})] {
        let mut args = protocol;
        args["wait_ms"] = json!(30_000);
        let reply = runner.mcp.call("lease_job", args).await;
        assert_eq!(
            reply,
            json!({"job": null, "updateRequired": true, "serverProtocol": 2})
        );
    }
    let newer = runner.mcp.call("lease_job", json!({"protocol": 3})).await;
    assert_eq!(newer, json!({"job": null}));
    for bad in [
        json!({"protocol": "2"}),
        json!({"wait_ms": 60_001}),
        json!({"wait_ms": -1}),
    ] {
        let text = runner.mcp.refused("lease_job", bad).await;
        assert!(
            text.starts_with(
                "MCP error -32602: Input validation error: Invalid arguments for tool lease_job: "
            )
        );
    }
}

#[tokio::test]
async fn a_lease_carries_the_job_and_its_token() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    let lease = runner.lease(0).await;
    let job = lease["jobId"].as_str().unwrap();
    assert_eq!(lease["attempt"], json!({"jobId": job, "leaseEpoch": 1}));
    assert_eq!(lease["leaseTtlMs"], 45_000);
    let target = format!("self:key:acme:{}", runner.id);
    assert_eq!(lease["job"]["evalCase"]["placement"]["target"], target);
    assert_eq!(lease["job"]["evalCase"]["task"], "say \"hi\"\n");
    assert_eq!(lease["job"]["evalCase"]["timeoutSec"], 1800);
    assert_eq!(lease["job"]["harness"], json!({"id": "echo", "version": "1"}));
    assert_eq!(lease["job"]["harnessSpec"]["command"], "echo {{task}}");
    assert_eq!(lease["job"]["tenant"], "acme");
    assert_eq!(lease["job"]["submittedBy"], "key:acme");
    assert_eq!(lease["job"]["priority"], "interactive");
    assert_eq!(lease["job"]["runId"], format!("evd-run-{run}"));
    assert_eq!(lease["job"]["recordingGeneration"], 1);
    assert_eq!(lease["job"]["attemptId"], format!("evd-run-{run}#g1"));
}

#[tokio::test]
async fn reports_are_answered_in_the_recorded_words() {
    let world = World::start().await;
    let runner = world.runner().await;
    world.submit(&runner.target()).await;
    let job = runner.lease(0).await["jobId"].as_str().unwrap().to_owned();
    let mcp = &runner.mcp;
    let good = |more: Value| {
        let mut args = json!({"jobId": job, "leaseEpoch": 1});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        args
    };
    let stale = json!({"ok": false, "durable": false, "reason": "the attempt token is not a current lease"});
    let tokenless = json!({"ok": false, "durable": false, "reason": "no attempt token (update the runner)"});

    assert_eq!(mcp.call("report_case_log", json!({"line": "x"})).await, tokenless);
    let old = json!({"line": "x", "jobId": job, "leaseEpoch": 9});
    assert_eq!(mcp.call("report_case_log", old).await, stale);
    let durable = json!({"ok": true, "durable": true});
    assert_eq!(
        mcp.call("report_case_log", good(json!({"line": ""}))).await,
        durable
    );
    let events = json!({"events": [{"t": 0, "kind": "message", "role": "user", "text": "hi"}]});
    assert_eq!(
        mcp.call("report_case_trace", good(events)).await,
        json!({"ok": true})
    );
    let item = json!({"item": {"track": "nav", "entry": {"t": 1, "url": "https://x"}}});
    assert_eq!(mcp.call("report_case_track", good(item)).await, durable);
    let screen = mcp
        .call("report_case_screen", good(json!({"frame": "aGk="})))
        .await;
    assert_eq!((&screen["ok"], &screen["durable"]), (&json!(true), &json!(false)));
    assert_eq!(
        mcp.call("poll_case_fs_requests", good(json!({}))).await,
        json!({"requests": []})
    );

    let unhurt = json!({"ok": true, "extended": true, "cancelled": false});
    assert_eq!(runner.heartbeat(&job, 1).await, unhurt);
    assert_eq!(mcp.call("heartbeat_job", json!({})).await, json!({"ok": true}));
    let v1 = mcp.call("heartbeat_job", json!({"jobId": job})).await;
    assert_eq!(v1["reason"], "no attempt token (update the runner)");

    mcp.refused("report_case_trace", good(json!({"events": []})))
        .await;
    let text = mcp
        .refused("submit_job_result", good(json!({"result": {"caseId": "c-1"}})))
        .await;
    assert!(text.contains("\"result\"") && text.contains("harness"), "{text}");
    mcp.refused("submit_job_result", json!({"jobId": job, "result": result()}))
        .await;
    mcp.refused("fail_job", json!({"jobId": job, "message": "x"}))
        .await;
    assert_eq!(
        runner.submit("nope", 1).await,
        json!({"jobId": "nope", "accepted": false})
    );
    assert_eq!(
        runner.submit(&job, 1).await,
        json!({"jobId": job, "accepted": true})
    );
}

#[tokio::test]
async fn over_long_reports_are_cut_instead_of_refused() {
    let world = World::start().await;
    let runner = world.runner().await;
    let args = json!({
        "protocol": 2, "status": "s".repeat(900), "os": "o".repeat(90), "version": "v".repeat(300),
    });
    assert_eq!(runner.mcp.call("lease_job", args).await, json!({"job": null}));
    let (_, list) = world.http().get("/runners").await;
    let meta = &list["runners"][0];
    assert_eq!(meta["status"]["text"].as_str().map(str::len), Some(200));
    assert_eq!(meta["os"].as_str().map(str::len), Some(40));
    assert_eq!(meta["version"].as_str().map(str::len), Some(80));
    assert_eq!(meta.get("updateRequired"), None);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let world = World::start().await;
    let mcp = world.runner().await.mcp;
    let large = "x".repeat(12 << 20);
    let pad = json!({"line": "x", "pad": large});
    assert_eq!(mcp.call("report_case_log", pad).await["ok"], false);
    let body = "x".repeat((16 << 20) + 1);
    let response = mcp.request(&json!({})).body(body).send().await;
    // The hub may answer before it has read everything; then the client may see the connection end.
    if let Ok(response) = response {
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
