//! Who gets in, and who may do what.

use everdict_hub::Role;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::kit::{Mcp, World, run_on};

#[tokio::test]
async fn runners_are_paired_listed_and_revoked_over_http_and_mcp() {
    let world = World::start().await;
    let http = world.http();
    let (status, paired) = http
        .post(
            "/runners",
            &json!({"label": "lab", "capabilities": ["git", "docker"]}),
        )
        .await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        paired["token"]
            .as_str()
            .is_some_and(|token| token.len() == 36 && token.starts_with("rnr_"))
    );
    assert_eq!(paired["runner"]["capabilities"], json!(["git", "docker"]));
    assert!(
        paired["runner"]["pairedAt"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z'))
    );
    assert_eq!(paired["runner"].get("updateRequired"), None);
    let (_, list) = http.get("/runners").await;
    assert_eq!(list["runners"][0]["updateRequired"], true);

    let bad = [
        json!({}),
        json!({"label": ""}),
        json!({"label": "x", "capabilities": ["repo"]}),
    ];
    for (body, place) in bad.iter().zip(["label", "label", "capabilities[0]"]) {
        let (status, refused) = http.post("/runners", body).await;
        assert_eq!(
            (status, &refused["code"]),
            (StatusCode::BAD_REQUEST, &json!("BAD_REQUEST"))
        );
        assert!(
            refused["message"].as_str().unwrap().starts_with(place),
            "{refused}"
        );
    }
    let mcp = Mcp::connect(&world, &world.key).await;
    let by_mcp = mcp.call("pair_runner", json!({"label": "two"})).await;
    let id = by_mcp["runner"]["id"].as_str().unwrap();
    let listed = mcp.call("list_runners", json!({})).await;
    assert_eq!(listed["runners"][0]["label"], "two");
    assert_eq!(
        mcp.call("revoke_runner", json!({"id": id})).await,
        json!({"id": id, "revoked": true})
    );
    assert_eq!(
        mcp.call("revoke_runner", json!({"id": "x"})).await,
        json!({"id": "x", "revoked": true})
    );
    let lease = mcp.refused("lease_job", json!({})).await;
    assert_eq!(
        lease,
        "FORBIDDEN: runner credentials (rnr_ pairing token) required."
    );

    let path = format!("/runners/{}", paired["runner"]["id"].as_str().unwrap());
    assert_eq!(http.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(http.delete(&path).await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_runner_token_leases_and_reports_and_nothing_else() {
    let world = World::start().await;
    let runner = world.runner().await;
    let http = world.http_as(&runner.token);
    let (status, me) = http.get("/me").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&me["via"], &me["runnerId"]),
        (&json!("runner"), &json!(runner.id))
    );
    assert_eq!(me["roles"], json!(["runner"]));
    for path in ["/runs", "/runners", "/harnesses", "/runs/x"] {
        let (status, refused) = http.get(path).await;
        assert_eq!(
            (status, &refused["code"]),
            (StatusCode::FORBIDDEN, &json!("FORBIDDEN")),
            "{path}"
        );
        assert_eq!(refused["data"]["roles"], json!(["runner"]));
    }
    for (name, args) in [
        ("pair_runner", json!({"label": "x"})),
        ("list_runners", json!({})),
        ("revoke_runner", json!({"id": runner.id})),
    ] {
        let text = runner.mcp.refused(name, args).await;
        assert!(text.starts_with("FORBIDDEN: "), "{text}");
    }
}

#[tokio::test]
async fn a_viewer_looks_but_does_not_touch() {
    let world = World::start().await;
    let viewer = world.http_as(&world.key("acme", Role::Viewer).await);
    assert_eq!(viewer.get("/runs").await.0, StatusCode::OK);
    let (status, refused) = viewer.post("/runs", &run_on("self")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(refused["data"]["action"], "runs:submit");
}

#[tokio::test]
async fn nobody_gets_in_without_a_credential() {
    let world = World::start().await;
    for credential in ["", "ak_wrong", "Basic"] {
        let http = world.http_as(credential);
        for path in ["/me", "/runs", "/runners", "/harnesses", "/runs/x/logs"] {
            let (status, refused) = http.get(path).await;
            assert_eq!(
                (status, &refused["code"]),
                (StatusCode::UNAUTHORIZED, &json!("UNAUTHENTICATED"))
            );
        }
    }
    let anybody = world.http_as("");
    assert_eq!(anybody.get("/healthz").await.0, StatusCode::OK);
    assert_eq!(anybody.get("/nowhere").await.1["code"], "NOT_FOUND");
    for path in [
        "/runs?limit=1&limit=2",
        "/runs/%ff",
        "/runs/x/logs?after=x",
        "/runs/x/events?after=-1",
    ] {
        let (status, refused) = world.http().get(path).await;
        assert!(
            status == StatusCode::BAD_REQUEST || status == StatusCode::NOT_FOUND,
            "{path}: {status}"
        );
        assert!(refused["code"].is_string(), "{path}: {refused}");
    }
    let method = anybody.send(Method::PUT, "/runs", None).await;
    assert_eq!(method.status(), StatusCode::METHOD_NOT_ALLOWED);
}
