//! Completion by a call of the topology.

use everdict_contracts::{EnvSnapshot, ErrorCode};
use serde_json::{Value, json};

use crate::door::{Door, Hit, ok};
use crate::front_door;
use crate::stage::{Settings, Stage};

/// Asks for the address in the body, and calls it.
fn by_callback(completion: Value) -> Value {
    let mut completion = completion;
    completion["mode"] = "callback".into();
    front_door(
        json!({ "completion": completion, "request": { "bodyTemplate": { "callback": "{{callback_url}}" } } }),
    )
}

fn address(hit: &Hit) -> String {
    hit.json()["callback"].as_str().unwrap().to_owned()
}

async fn call(url: &str, body: &Value) -> u16 {
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only(std::iter::empty())
        .build()
        .unwrap();
    client
        .post(url)
        .body(body.to_string())
        .send()
        .await
        .unwrap()
        .status()
        .as_u16()
}

/// A front door that answers after it has called with each body in turn.
async fn calling(bodies: Vec<Value>) -> Door {
    // Whoever comes first installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Door::with(move |hit| {
        let bodies = bodies.clone();
        Box::pin(async move {
            for body in bodies {
                assert_eq!(call(&address(&hit), &body).await, 202);
            }
            ok(json!({ "id": "abc" }))
        })
    })
    .await
}

#[tokio::test]
async fn any_call_is_the_end_where_nothing_else_is_said() {
    let door = calling(vec![json!({ "trace": [], "answer": 42 })]).await;
    let result = Stage::new(Settings::default(), &door)
        .run(by_callback(json!({})))
        .await
        .unwrap();
    assert_eq!(
        result.snapshot,
        EnvSnapshot::prompt(r#"{"answer":42,"trace":[]}"#)
    );
}

#[tokio::test]
async fn interim_calls_are_passed_by() {
    let bodies = vec![
        json!({ "state": "half" }),
        json!("words"),
        json!({ "state": "done" }),
    ];
    let door = calling(bodies).await;
    let job = by_callback(json!({ "done": { "field": "state", "equals": "done" } }));
    let result = Stage::new(Settings::default(), &door).run(job).await.unwrap();
    assert_eq!(result.snapshot, EnvSnapshot::prompt(r#"{"state":"done"}"#));
}

/// The call may come before the answer that names the run.
#[tokio::test]
async fn the_answer_is_waited_for_where_it_names_the_run() {
    let door = calling(vec![json!({ "state": "done" })]).await;
    let mut job = by_callback(json!({}));
    job["harnessSpec"]["frontDoor"]["correlate"] = json!({ "mode": "returned", "path": "id" });
    Stage::new(Settings::default(), &door)
        .run(job.clone())
        .await
        .unwrap();
    job["harnessSpec"]["frontDoor"]["correlate"]["path"] = json!("nope");
    let fault = Stage::new(Settings::default(), &door).run(job).await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::UpstreamError);
}

#[tokio::test]
async fn no_call_is_no_end() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let fault = Stage::new(Settings::default(), &door)
        .run(by_callback(json!({ "timeoutMs": 100 })))
        .await
        .unwrap_err();
    assert_eq!(fault.extra.data.as_ref().unwrap()["reason"], "completion-timeout");
    assert!(fault.message.contains("no call came"), "{fault}");
}

#[tokio::test]
async fn the_address_is_good_for_one_run_and_for_whoever_knows_it() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let door = Door::with(|hit| {
        Box::pin(async move {
            let url = address(&hit);
            let (listener, token) = url.rsplit_once('/').unwrap();
            assert_eq!(token.len(), 32);
            assert_eq!(call(listener, &json!({})).await, 404);
            assert_eq!(
                call(&format!("{listener}/{}", "0".repeat(32)), &json!({})).await,
                404
            );
            assert_eq!(call(&url, &json!({})).await, 202);
            ok(json!({}))
        })
    })
    .await;
    let stage = Stage::new(Settings::default(), &door);
    stage.run(by_callback(json!({}))).await.unwrap();
    stage.run(by_callback(json!({}))).await.unwrap();
    let urls: Vec<_> = door.hits("POST /runs").iter().map(address).collect();
    assert_ne!(
        urls[0].rsplit_once('/').unwrap().1,
        urls[1].rsplit_once('/').unwrap().1
    );
    let port: u16 = urls[1]
        .split(':')
        .nth(2)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err(),
        "the listener is still there"
    );
}

#[tokio::test]
async fn a_place_that_can_not_be_called_back_says_so() {
    let door = Door::answering(|_| ok(json!({}))).await;
    let settings = Settings {
        no_callback: true,
        ..Settings::default()
    };
    let stage = Stage::new(settings, &door);
    let fault = stage.run(by_callback(json!({}))).await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::HarnessRunFailed);
    assert!(
        fault.message.starts_with("harnessSpec.frontDoor.completion: "),
        "{fault}"
    );
    assert_eq!(door.calls(), Vec::<String>::new());
}
