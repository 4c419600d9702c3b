use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Response};
use axum::routing::{any, get};
use everdict_contracts::RunId;
use secrecy::SecretString;
use serde_json::json;

use super::*;
use crate::problem::ProblemClass;

async fn serve(app: Router) -> Url {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The task ends with the test's runtime.
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await });
    tasks.detach_all();
    crate::hub_url::parse(&format!("http://{address}")).unwrap()
}

fn client(url: Url) -> HubClient {
    let _ = rustls::crypto::ring::default_provider().install_default();
    HubClient::new(url, Some(SecretString::from("ak_x".to_owned()))).unwrap()
}

fn answer(status: u16, kind: &str, body: &str) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Body::from(body.to_owned()))
        .unwrap()
}

async fn fault_of(status: u16, kind: &'static str, body: &'static str) -> HubFault {
    let app = Router::new().route("/me", any(move || async move { answer(status, kind, body) }));
    client(serve(app).await).me().await.unwrap_err()
}

const JSON: &str = "application/json";

#[tokio::test]
async fn each_refusal_has_its_class() {
    let body = r#"{"code":"X","message":"words of the hub"}"#;
    for (status, class) in [
        (400, ProblemClass::Input),
        (401, ProblemClass::Refused),
        (403, ProblemClass::Refused),
        (404, ProblemClass::Input),
        (409, ProblemClass::General),
        (429, ProblemClass::General),
        (500, ProblemClass::HubUnreachable),
    ] {
        let problem = Problem::from(fault_of(status, JSON, body).await);
        assert_eq!(problem.class(), class, "{status}");
        assert!(problem.next_step().is_some());
        assert!(
            problem.chain().contains("words of the hub"),
            "{}",
            problem.chain()
        );
    }
}

#[tokio::test]
async fn a_sign_in_page_is_told_from_a_hub() {
    let fault = fault_of(
        200,
        "text/html; charset=utf-8",
        "<html>Welcome to the hotel</html>",
    )
    .await;
    assert!(matches!(fault, HubFault::SignInPage { .. }), "{fault:?}");
    let redirect = any(|| async {
        Response::builder()
            .status(302)
            .header("location", "http://portal.example/login?x=1")
            .body(Body::empty())
            .unwrap()
    });
    let fault = client(serve(Router::new().route("/me", redirect)).await)
        .me()
        .await
        .unwrap_err();
    assert!(
        fault
            .to_string()
            .ends_with("sign-in page (leads to portal.example)"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_web_server_that_is_no_hub_is_named_as_such() {
    let fault = fault_of(404, "text/html", "<html>nothing here</html>").await;
    assert!(
        matches!(fault, HubFault::NotAHub { status: 404, .. }),
        "{fault:?}"
    );
    let fault = fault_of(200, JSON, r#"{"subject": 7}"#).await;
    assert!(matches!(fault, HubFault::BadAnswer { .. }), "{fault:?}");
    assert!(Problem::from(fault).chain().contains("subject"));
}

#[tokio::test]
async fn nobody_there_and_no_such_name_are_different() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let gone = crate::hub_url::parse(&format!("http://{address}")).unwrap();
    let fault = client(gone).me().await.unwrap_err();
    assert!(matches!(fault, HubFault::ConnectionRefused { .. }), "{fault:?}");
    let unknown = crate::hub_url::parse("http://no-such-host.invalid").unwrap();
    let fault = client(unknown).me().await.unwrap_err();
    assert!(matches!(fault, HubFault::NameNotFound { .. }), "{fault:?}");
}

#[tokio::test]
async fn a_plain_server_behind_https_is_a_tls_fault() {
    let url = serve(Router::new()).await;
    let secure = crate::hub_url::parse(&url.as_str().replace("http:", "https:")).unwrap();
    let fault = client(secure).me().await.unwrap_err();
    assert!(matches!(fault, HubFault::Tls { .. }), "{fault:?}");
}

#[tokio::test]
async fn the_clock_of_the_hub_comes_from_its_answer() {
    let app = Router::new().route("/me", get(|| async { answer(401, JSON, "{}") }));
    let clock = client(serve(app).await).clock().await.unwrap().unwrap();
    assert!(clock.duration_since(jiff::Timestamp::now()).as_secs().abs() < 60);
}

fn run(status: &str) -> String {
    json!({
        "id": "r", "tenant": "t", "harness": {"id": "h", "version": "1"}, "caseId": "c", "status": status,
        "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
    })
    .to_string()
}

#[tokio::test]
async fn runs_are_fetched_page_by_page_and_no_more_than_wanted() {
    let list = get(|uri: axum::http::Uri| async move {
        let page = match uri.query() {
            None => format!(r#"{{"runs": [{0}, {0}], "nextCursor": "a b"}}"#, run("queued")),
            Some("cursor=a+b") => format!(r#"{{"runs": [{}], "nextCursor": "c"}}"#, run("queued")),
            Some("cursor=c") => format!(r#"{{"runs": [{}]}}"#, run("queued")),
            other => panic!("{other:?}"),
        };
        answer(200, JSON, &page)
    });
    let client = client(serve(Router::new().route("/runs", list)).await);
    for (limit, found) in [(0, 0), (1, 1), (2, 2), (3, 3), (50, 4)] {
        assert_eq!(client.runs(limit).await.unwrap().len(), found, "{limit}");
    }
}

#[tokio::test]
async fn a_log_that_is_longer_than_a_document_is_whole() {
    let logs = get(|uri: axum::http::Uri| async move {
        let page = match uri.query() {
            None => json!({"status": "succeeded", "found": true, "text": "one\ntwo", "last": 2, "lines": [
                {"seq": 1, "at": "2026-01-01T00:00:00Z", "line": "one"},
                {"seq": 2, "at": "2026-01-01T00:00:00Z", "line": "two"},
            ]}),
            Some("after=2") => {
                json!({"status": "succeeded", "found": true, "text": "three", "last": 3, "lines": [
                    {"seq": 3, "at": "2026-01-01T00:00:00Z", "line": "three"},
                ]})
            }
            Some("after=3") => {
                json!({"status": "succeeded", "found": false, "text": "", "last": 3, "lines": []})
            }
            other => panic!("{other:?}"),
        };
        answer(200, JSON, &page.to_string())
    });
    let client = client(serve(Router::new().route("/runs/r/logs", logs)).await);
    assert_eq!(client.logs(&RunId::from("r")).await.unwrap(), "one\ntwo\nthree");
}

async fn lines_of(url: Url) -> (Vec<String>, usize) {
    let mut follow = client(url).follow(&RunId::from("r"));
    let mut lines = Vec::new();
    let mut resumed = 0;
    while let Some(event) = follow.next().await.unwrap() {
        match event {
            LogEvent::Line(line) => lines.push(line),
            LogEvent::Resuming(_) => resumed += 1,
            LogEvent::Status(_) => {}
        }
    }
    (lines, resumed)
}

#[tokio::test]
async fn a_cut_log_stream_goes_on_where_it_was() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let logs = get(move |headers: HeaderMap| async move {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        let body = if first {
            assert!(!headers.contains_key("last-event-id"));
            "id: 1\nevent: log\ndata: one\n\nid: 2\nevent: log\ndata: two\n\nid: 3\nevent: log\nda"
        } else {
            assert_eq!(headers["last-event-id"], "2");
            "id: 3\nevent: log\ndata: three\n\nevent: end\ndata: {}\n\n"
        };
        answer(200, "text/event-stream", body)
    });
    let app = Router::new()
        .route("/runs/r/logs", logs)
        .route("/runs/r", get(|| async { answer(200, JSON, &run("running")) }));
    let (lines, resumed) = lines_of(serve(app).await).await;
    assert_eq!(lines, ["one", "two", "three"]);
    assert_eq!(resumed, 1);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_hub_without_streams_is_polled_to_the_end() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let logs = get(move || async move {
        let text = match count.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => "one\ntw",
            _ => "one\ntwo\nthree",
        };
        let body = json!({"status": "running", "found": true, "text": text}).to_string();
        answer(200, JSON, &body)
    });
    let ended = calls.clone();
    let record = get(move || async move {
        let status = if ended.load(Ordering::SeqCst) < 2 {
            "running"
        } else {
            "succeeded"
        };
        answer(200, JSON, &run(status))
    });
    let app = Router::new().route("/runs/r/logs", logs).route("/runs/r", record);
    let (lines, _) = lines_of(serve(app).await).await;
    assert_eq!(lines, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_refused_log_ends_the_following() {
    let body = r#"{"code":"NOT_FOUND","message":"no such run"}"#;
    let app = Router::new().route(
        "/runs/r/logs",
        get(move || async move { answer(404, JSON, body) }),
    );
    let mut follow = client(serve(app).await).follow(&RunId::from("r"));
    assert!(matches!(follow.next().await, Err(HubFault::NotFound { .. })));
    assert!(follow.next().await.unwrap().is_none());
}
