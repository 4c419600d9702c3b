//! Backends that are slow, huge, broken or not to be trusted.

use crate::support::{Backend, Reply, source, tight};
use base64::Engine as _;
use everdict_contracts::{
    ErrorCode, EvidenceKey, Fault, SecretText, SpanAttrMapping, TraceBackend, TraceEventKind, TraceEvidence,
};
use everdict_traces::{TraceLimits, source_for};
use serde_json::{Value, json};

async fn fault(script: impl Fn() -> Reply + Send + Sync + 'static) -> Fault {
    let backend = Backend::start(move |_, _| script()).await;
    source_for(&backend.config(TraceBackend::Otel), tight())
        .unwrap()
        .fetch("t1")
        .await
        .unwrap_err()
}

#[tokio::test]
async fn a_backend_that_misbehaves_is_a_fault_in_its_own_words() {
    let silent = fault(|| Reply::Never).await;
    let huge = fault(|| Reply::Bytes("application/json", vec![b' '; 200_000])).await;
    let garbage = fault(|| Reply::Bytes("text/html", b"<html>sign in</html>".to_vec())).await;
    let broken = fault(|| Reply::Status(500, "disk full")).await;
    let wrong = fault(|| Reply::Json(json!([1, 2]))).await;
    for (fault, part) in [
        (&silent, "in time"),
        (&huge, "more than 65536 bytes"),
        (&garbage, "isn't JSON"),
        (&broken, "500: disk full"),
        (&wrong, "isn't a trace"),
    ] {
        assert_eq!(fault.code, ErrorCode::TraceCollectFailed, "{fault}");
        assert!(fault.message.contains(part), "{fault}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_fault() {
    let backend = Backend::json(json!({})).await;
    let source = backend.source(TraceBackend::Otel);
    drop(backend);
    let fault = source.fetch("t1").await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::TraceCollectFailed);
    assert!(fault.message.contains("can't be reached"), "{fault}");
}

#[tokio::test]
async fn a_refused_credential_names_the_secret_that_is_missing() {
    let backend = Backend::start(|_, _| Reply::Status(401, "who are you")).await;
    let mut config = backend.config(TraceBackend::Mlflow);
    config.auth_secret = Some("MLFLOW_TOKEN".to_owned());
    let fault = source(&config).fetch("t1").await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::UpstreamMisconfigured);
    assert!(
        fault.message.contains("401: who are you") && fault.message.contains("MLFLOW_TOKEN"),
        "{fault}"
    );
}

#[tokio::test]
async fn pages_that_never_end_do_end() {
    let same = Backend::start(|_, _| Reply::Json(json!({ "data": [], "next_cursor": "again" }))).await;
    let fresh =
        Backend::start(|n, _| Reply::Json(json!({ "data": [], "next_cursor": format!("c{n}") }))).await;
    for (backend, most) in [(same, 2), (fresh, 5)] {
        let mut config = backend.config(TraceBackend::Phoenix);
        config.project = Some("p".to_owned());
        let fault = source_for(&config, tight())
            .unwrap()
            .fetch("t1")
            .await
            .unwrap_err();
        assert_eq!(fault.code, ErrorCode::TraceCollectFailed);
        assert_eq!(backend.asked().len(), most);
    }
}

#[tokio::test]
async fn the_bytes_of_all_pages_count_together() {
    let filler = "x".repeat(20_000);
    let backend = Backend::start(move |n, _| {
        Reply::Json(json!({ "data": [], "filler": filler, "next_cursor": format!("c{n}") }))
    })
    .await;
    let mut config = backend.config(TraceBackend::Phoenix);
    config.project = Some("p".to_owned());
    let limits = TraceLimits {
        pages: 1000,
        ..tight()
    };
    let fault = source_for(&config, limits)
        .unwrap()
        .fetch("t1")
        .await
        .unwrap_err();
    assert!(fault.message.contains("bytes"), "{fault}");
    assert_eq!(backend.asked().len(), 4);
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_to_somebody_else() {
    let thief = Backend::json(json!({ "data": [] })).await;
    let to = format!("{}/api/traces/t1", thief.base);
    let backend = Backend::start(move |_, _| Reply::Redirect(to.clone())).await;
    let mut config = backend.config(TraceBackend::Langsmith);
    config.auth = Some(SecretText::new("made-up"));
    let fault = source(&config).fetch("t1").await.unwrap_err();
    assert!(fault.message.contains("302"), "{fault}");
    assert!(thief.asked().is_empty());
    // Within the backend it is only a path that moved.
    let moved = Backend::start(|_, asked| match asked.uri.as_str() {
        "/api/traces/t1" => Reply::Redirect("/v2/t1".to_owned()),
        _ => Reply::Json(json!({ "data": [] })),
    })
    .await;
    assert!(moved.source(TraceBackend::Otel).fetch("t1").await.is_ok());
}

fn otlp(attributes: &Value) -> Value {
    json!({ "spans": [{ "spanId": "a", "name": "s", "startTimeUnixNano": "1", "attributes": attributes }] })
}

async fn evidence(backend: &Backend, artifacts: Option<&str>) -> TraceEvidence {
    let slot = |key: &str| Some(vec![EvidenceKey::Key(key.to_owned())]);
    let mut config = backend.config(TraceBackend::Otel);
    config.auth = Some(SecretText::new("Bearer made-up"));
    config.artifact_base_url = artifacts.map(str::to_owned);
    config.mapping = SpanAttrMapping {
        final_answer: slot("answer"),
        dom: slot("dom"),
        screenshot: slot("shot"),
        ..SpanAttrMapping::default()
    };
    let pull = source(&config).fetch("t1").await.unwrap();
    let last = pull.events.last().unwrap();
    assert!(
        matches!(&last.kind, TraceEventKind::Message(message) if message.text == "http://example.test/answer")
    );
    pull.evidence.unwrap()
}

#[tokio::test]
async fn references_are_followed_to_known_places_only() {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";
    let artifacts = Backend::start(|_, asked| match asked.uri.as_str() {
        "/files/shot.png" => Reply::Bytes("application/octet-stream", PNG.to_vec()),
        _ => Reply::Bytes("text/html", b"<p>stored</p>".to_vec()),
    })
    .await;
    let dom = format!("{}/dom.html", artifacts.base);
    let backend = Backend::start(move |_, _| {
        let body = json!({ "answer": "http://example.test/answer", "dom": dom, "shot": "/files/shot.png" });
        Reply::Json(otlp(&body))
    })
    .await;

    let kept = evidence(&backend, None).await;
    assert!(
        kept.dom.unwrap().starts_with("http://127.0.0.1"),
        "an address nobody vouches for stays text"
    );
    assert_eq!(
        (kept.screenshot, kept.screenshot_ref.as_deref()),
        (None, Some("/files/shot.png"))
    );
    assert!(artifacts.asked().is_empty());

    let followed = evidence(&backend, Some(&artifacts.base)).await;
    assert_eq!(followed.dom.as_deref(), Some("<p>stored</p>"));
    assert_eq!(followed.screenshot_media_type.as_deref(), Some("image/png"));
    assert_eq!(
        followed.screenshot,
        Some(base64::engine::general_purpose::STANDARD.encode(PNG))
    );
    assert_eq!(
        followed.final_answer.as_deref(),
        Some("http://example.test/answer")
    );
    assert!(
        artifacts
            .asked()
            .iter()
            .all(|asked| !asked.headers.contains_key("authorization"))
    );
}

#[tokio::test]
async fn pictures_within_the_trace_are_taken_as_they_are() {
    let long = base64::engine::general_purpose::STANDARD.encode([&b"\x89PNG"[..], &[0; 400]].concat());
    for (shot, picture, kind) in [
        (
            "data:image/jpeg;base64,QUJD".to_owned(),
            "QUJD".to_owned(),
            "image/jpeg",
        ),
        (long.clone(), long, "image/png"),
    ] {
        let body = json!({ "answer": "http://example.test/answer", "dom": "<p>x</p>", "shot": shot });
        let backend = Backend::json(otlp(&body)).await;
        let found = evidence(&backend, None).await;
        assert_eq!(
            (found.screenshot, found.screenshot_media_type.as_deref()),
            (Some(picture), Some(kind))
        );
        assert_eq!(
            (found.dom.as_deref(), found.screenshot_ref),
            (Some("<p>x</p>"), None)
        );
    }
}
