//! Starting and stopping.

use std::time::Duration;

use everdict_contracts::{Subject, WorkspaceId};
use everdict_hub::{Hub, HubConfig, HubError, NewApiKey, Role};
use tokio::time::{Instant, timeout};

use crate::kit::{PATIENCE, World, lease_args, tool_call};

#[tokio::test]
async fn a_port_in_use_is_told_with_the_fix() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = HubConfig::new(folder.path());
    config.listen = world.address;
    let hub = Hub::open(config).await.unwrap();
    let error = hub.bind().await.unwrap_err();
    assert!(matches!(error, HubError::PortInUse { .. }));
    let text = error.to_string();
    assert!(
        text.contains(&world.address.to_string()) && text.contains("--listen"),
        "{text}"
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_told_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Hub::open(HubConfig::new(file.join("data"))).await.unwrap_err();
    assert!(error.to_string().contains("choose another one"), "{error}");
}

#[tokio::test]
async fn two_hubs_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = Hub::open(HubConfig::new(folder.path())).await.unwrap();
    let error = Hub::open(HubConfig::new(folder.path())).await.unwrap_err();
    assert!(error.to_string().contains("another hub"), "{error}");
    drop(first);
    // Dropped without being closed, it lets go of the folder in its own time.
    let until = Instant::now() + PATIENCE;
    while let Err(error) = Hub::open(HubConfig::new(folder.path())).await {
        assert!(Instant::now() < until, "{error}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn stopping_ends_long_polls_and_streams_at_once() {
    let mut world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit("self").await;
    runner.lease(0).await;
    let poll = runner.mcp.post(&tool_call("lease_job", lease_args(60_000))).await;
    let follow = reqwest::Client::new().get(world.url(&format!("/runs/{run}/logs?follow=1")));
    let follow = follow.bearer_auth(&world.key).send().await.unwrap();
    let since = Instant::now();
    world.stop().await;
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    assert!(
        timeout(PATIENCE, poll.text())
            .await
            .unwrap()
            .unwrap()
            .contains("null")
    );
    timeout(PATIENCE, follow.text()).await.unwrap().unwrap();
}

#[tokio::test]
async fn keys_act_as_their_workspace_or_as_the_subject_they_were_made_for() {
    let world = World::start().await;
    let (_, me) = world.http().get("/me").await;
    assert_eq!(
        (&me["subject"], &me["workspace"]),
        (&"key:acme".into(), &"acme".into())
    );
    assert_eq!(me["roles"], serde_json::json!(["admin"]));
    let new = |subject: &str| NewApiKey {
        workspace: WorkspaceId::from("acme"),
        role: Role::Member,
        subject: Some(Subject::from(subject)),
        label: "laptop".into(),
    };
    let key = world.hub.add_api_key(new("ann")).await.unwrap();
    assert_eq!(world.http_as(key.expose()).get("/me").await.1["subject"], "ann");
    let reserved = world.hub.add_api_key(new("ws:acme")).await.unwrap_err();
    assert!(matches!(reserved, HubError::ReservedSubject { .. }));
    let nameless = world
        .hub
        .create_api_key(&WorkspaceId::from("a b"), Role::Admin)
        .await
        .unwrap_err();
    assert!(matches!(nameless, HubError::BadWorkspace { .. }));
    assert!(world.hub.has_api_key(&WorkspaceId::from("acme")).await.unwrap());
    assert!(!world.hub.has_api_key(&WorkspaceId::from("other")).await.unwrap());
    assert!(world.hub.delete_api_key(&key).await.unwrap());
    assert_eq!(world.http_as(key.expose()).get("/me").await.0, 401);
    assert!(!world.hub.delete_api_key(&key).await.unwrap());
}
