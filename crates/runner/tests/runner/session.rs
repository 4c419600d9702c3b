//! What one session promises: it is shared, replaced once where that helps, and never reset from under others.

use std::time::Duration;

use everdict_runner_core::session::{
    CallError, HubSession, Reply, UnreachableCause, install_crypto, mcp_url,
};
use everdict_testkit::{Fault, ScriptedHub};
use secrecy::SecretString;
use serde_json::json;

const SHORT: Duration = Duration::from_secs(5);

fn session(hub: &ScriptedHub) -> HubSession {
    install_crypto();
    HubSession::new(&hub.url(), &SecretString::from(ScriptedHub::TOKEN), "0.1.0").unwrap()
}

async fn beat(session: &HubSession) -> Result<Reply, CallError> {
    session
        .call("heartbeat_job", rmcp::model::JsonObject::new(), SHORT)
        .await
}

#[tokio::test]
async fn requests_look_like_the_recorded_ones() {
    let hub = ScriptedHub::start().await;
    beat(&session(&hub)).await.unwrap();
    let calls = hub.calls();
    assert_eq!(
        calls[0].params,
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "everdict-runner", "version": "0.1.0"},
        })
    );
    assert_eq!(calls[1].params, json!({"name": "heartbeat_job", "arguments": {}}));
}

#[tokio::test]
async fn both_reply_forms_are_read() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    beat(&session).await.unwrap();
    hub.reply_in_json();
    beat(&session).await.unwrap();
    assert_eq!(hub.sessions_opened_and_deleted().0, 1);
}

#[tokio::test]
async fn concurrent_first_calls_share_one_connect() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    let calls = (0..8).map(|_| beat(&session));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(hub.sessions_opened_and_deleted().0, 1);
}

#[tokio::test]
async fn a_lost_session_is_replaced_once_for_all_calls_that_noticed() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    beat(&session).await.unwrap();
    hub.lose_sessions();
    let calls = (0..8).map(|_| beat(&session));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(hub.sessions_opened_and_deleted().0, 2);
}

#[tokio::test]
async fn every_form_of_a_lost_session_is_healed() {
    for fault in [
        Fault::LoseSessions,
        Fault::Status(400),
        Fault::Status(401),
        Fault::Status(503),
        Fault::Html,
        Fault::DropReply,
    ] {
        let hub = ScriptedHub::start().await;
        let session = session(&hub);
        hub.arm("heartbeat_job", fault.clone());
        assert!(beat(&session).await.is_ok(), "{fault:?}");
        assert_eq!(hub.sessions_opened_and_deleted().0, 2, "{fault:?}");
    }
}

#[tokio::test]
async fn a_long_poll_survives_the_replacement_of_its_session() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    let mut args = rmcp::model::JsonObject::new();
    args.insert("wait_ms".to_owned(), json!(20_000));
    let poll = session.call("lease_job", args, Duration::from_secs(30));
    let disturb = async {
        hub.until("the poll waits", |hub| hub.waiting_polls() == 1).await;
        hub.arm("heartbeat_job", Fault::Status(503));
        beat(&session).await.unwrap();
        hub.enqueue(json!({"evalCase": {}}));
    };
    let (poll, ()) = tokio::join!(poll, disturb);
    assert!(poll.unwrap().text.contains("leaseEpoch"));
    assert_eq!(hub.calls_of("lease_job").len(), 1);
}

#[tokio::test]
async fn a_revoked_token_is_told_from_a_hub_that_is_away() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    beat(&session).await.unwrap();
    hub.revoke_token();
    assert!(matches!(
        beat(&session).await,
        Err(CallError::Unauthorized { .. })
    ));

    let url = hub.url();
    drop(hub);
    let away = HubSession::new(&url, &SecretString::from("rnr_x"), "0.1.0").unwrap();
    let gone = tokio::time::timeout(SHORT, async {
        loop {
            match beat(&away).await {
                Err(CallError::Unreachable {
                    cause: UnreachableCause::Refused,
                    ..
                }) => return,
                _ => tokio::task::yield_now().await,
            }
        }
    });
    gone.await.expect("a closed port is a refused connection");
}

#[tokio::test]
async fn a_sign_in_page_is_not_a_hub() {
    let hub = ScriptedHub::start().await;
    hub.arm("initialize", Fault::Html);
    match beat(&session(&hub)).await {
        Err(CallError::NotAHub { detail }) => assert!(detail.contains("Sign in"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_silent_hub_ends_in_a_time_out_on_both_tries() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    hub.arm("heartbeat_job", Fault::Delay(Duration::from_secs(60)));
    hub.arm("heartbeat_job", Fault::Delay(Duration::from_secs(60)));
    let outcome = session
        .call(
            "heartbeat_job",
            rmcp::model::JsonObject::new(),
            Duration::from_millis(50),
        )
        .await;
    assert!(matches!(
        outcome,
        Err(CallError::Unreachable {
            cause: UnreachableCause::Timeout,
            ..
        })
    ));
    assert_eq!(hub.calls_of("heartbeat_job").len(), 2);
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    let unknown = session
        .call("no_such_tool", rmcp::model::JsonObject::new(), SHORT)
        .await;
    assert!(
        unknown.as_ref().is_err_and(CallError::is_schema_refusal),
        "{unknown:?}"
    );
    assert_eq!(hub.calls().len(), 2);
}

#[tokio::test]
async fn a_dropped_poll_leaves_the_hub_at_once() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    let mut args = rmcp::model::JsonObject::new();
    args.insert("wait_ms".to_owned(), json!(60_000));
    {
        let mut poll = std::pin::pin!(session.call("lease_job", args, Duration::from_secs(65)));
        tokio::select! {
            _ = &mut poll => panic!("there is no job"),
            () = hub.until("the poll waits", |hub| hub.waiting_polls() == 1) => {}
        }
    }
    hub.until("the poll is gone", |hub| hub.waiting_polls() == 0)
        .await;
}

#[tokio::test]
async fn closing_deletes_the_session() {
    let hub = ScriptedHub::start().await;
    let session = session(&hub);
    beat(&session).await.unwrap();
    session.close().await;
    assert_eq!(hub.sessions_opened_and_deleted(), (1, 1));
}

#[test]
fn the_token_shows_nowhere() {
    install_crypto();
    let token = SecretString::from("rnr_very-secret");
    let session = HubSession::new("http://127.0.0.1:1", &token, "0.1.0").unwrap();
    assert!(!format!("{session:?}").contains("very-secret"));
    let bad = HubSession::new(
        "http://127.0.0.1:1",
        &SecretString::from("rnr_\nvery-secret"),
        "0.1.0",
    );
    let text = format!("{:?}", bad.unwrap_err());
    assert!(!text.contains("very-secret"), "{text}");
}

#[test]
fn the_endpoint_is_absolute() {
    assert_eq!(mcp_url("https://h/cp/").unwrap().as_str(), "https://h/mcp");
    assert_eq!(mcp_url(" http://h:8787 ").unwrap().as_str(), "http://h:8787/mcp");
    for bad in ["", "h:1", "ftp://h", "file:///x"] {
        assert!(mcp_url(bad).is_err(), "{bad}");
    }
}
