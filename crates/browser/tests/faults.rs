//! The client against browsers that misbehave; none of them is real.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Arc;
use std::time::Duration;

use everdict_browser::{
    CdpEndpoint, CdpError, Recorder, RecorderOptions, SnapshotLimits, TrackSink, live_page, snapshot,
};
use everdict_contracts::{ErrorCode, TrackEntry};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

/// How a scripted browser behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Its first page's socket opens and never answers; its second page lives.
    Ghost,
    /// Sends events from the future, binary and text that is no JSON before each answer.
    Chatty,
    /// Accepts and never says a word.
    Silent,
    /// Promises a body beyond all bounds.
    Endless,
    /// Answers with something else than HTTP.
    Garbage,
    /// Answers every request with 500.
    Failing,
}

struct Scripted {
    endpoint: CdpEndpoint,
    _tasks: JoinSet<()>,
}

impl Scripted {
    async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                served.spawn(serve(stream, manner));
            }
        });
        let endpoint = CdpEndpoint::new(&base)
            .unwrap()
            .with_call_limit(Duration::from_millis(1500));
        Self {
            endpoint,
            _tasks: tasks,
        }
    }
}

async fn serve(mut stream: TcpStream, manner: Manner) {
    let mut seen = [0; 2048];
    let read = stream.peek(&mut seen).await.unwrap_or(0);
    let head = String::from_utf8_lossy(&seen[..read]).into_owned();
    if manner == Manner::Silent {
        return std::future::pending().await;
    }
    if head.contains("Upgrade") || head.contains("upgrade") {
        return talk(stream, head.contains("/page/ghost"), manner).await;
    }
    stream.read_exact(&mut seen[..read]).await.unwrap();
    let page = |id: &str| json!({ "id": id, "type": "page", "url": format!("http://{id}.test/"), "futureField": [1], "webSocketDebuggerUrl": format!("ws://localhost/devtools/page/{id}") });
    let body = if head.contains("/json/version") {
        json!({ "Browser": "Scripted", "webSocketDebuggerUrl": "ws://localhost/devtools/browser/b" })
    } else {
        json!([page("ghost"), page("alive")])
    };
    let body = body.to_string();
    let answer = match manner {
        Manner::Endless => "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_owned(),
        Manner::Garbage => "SSH-2.0-nobody\r\n\r\n".to_owned(),
        Manner::Failing => "HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nno!!".to_owned(),
        _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
    };
    stream.write_all(answer.as_bytes()).await.unwrap();
    // Chromium leaves the connection open.
    let _ = stream.read(&mut seen).await;
}

async fn talk(stream: TcpStream, ghost: bool, manner: Manner) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    while let Some(Ok(message)) = socket.next().await {
        if ghost && manner == Manner::Ghost {
            continue;
        }
        let Message::Text(text) = message else { continue };
        let command: Value = serde_json::from_str(&text).unwrap();
        if manner == Manner::Chatty {
            let noise = [
                Message::text(json!({ "method": "Future.event", "params": { "x": [null] } }).to_string()),
                Message::text("not JSON"),
                Message::text(json!({ "id": "seven" }).to_string()),
                Message::binary(vec![0, 1]),
                Message::text(json!({ "id": 9_000_000, "result": {} }).to_string()),
                Message::text(json!({ "method": 7 }).to_string()),
                Message::text("[]"),
            ];
            for message in noise {
                socket.send(message).await.unwrap();
            }
        }
        let result = match command["method"].as_str().unwrap() {
            "Page.getFrameTree" => {
                json!({ "frameTree": { "frame": { "id": "F", "url": "http://alive.test/" } } })
            }
            "Page.createIsolatedWorld" => json!({ "executionContextId": 5 }),
            "Runtime.evaluate" => {
                json!({ "result": { "value": { "url": "http://alive.test/", "length": 6, "html": "<html>" } } })
            }
            "Page.captureScreenshot" => json!({ "data": "QUJD" }),
            _ => json!({}),
        };
        socket
            .send(Message::text(
                json!({ "id": command["id"], "result": result }).to_string(),
            ))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn ghost_page_is_not_chosen() {
    let browser = Scripted::start(Manner::Ghost).await;
    let page = live_page(&browser.endpoint).await.unwrap();
    assert_eq!(page.target().id, "alive");
}

#[tokio::test]
async fn unknown_events_are_ignored() {
    let browser = Scripted::start(Manner::Chatty).await;
    let capture = snapshot(&browser.endpoint, &SnapshotLimits::default(), Vec::new())
        .await
        .unwrap();
    assert_eq!(capture.missing, Vec::<String>::new());
    assert_eq!(capture.snapshot.dom, "<html>");
    assert_eq!(capture.snapshot.screenshot.as_deref(), Some("QUJD"));

    struct Nothing;
    impl TrackSink for Nothing {
        fn track(&self, _: TrackEntry) {}
        fn frame(&self, _: String) {}
    }
    let recorder = Recorder::start(&browser.endpoint, Arc::new(Nothing), RecorderOptions::default())
        .await
        .unwrap();
    assert_eq!(recorder.stop().await, Vec::<String>::new());
}

#[tokio::test]
async fn dead_browser_is_a_fault_within_the_deadline() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        CdpEndpoint::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap()
    };
    let silent = Scripted::start(Manner::Silent).await;
    for endpoint in [closed, silent.endpoint.clone()] {
        let begun = Instant::now();
        let fault = snapshot(&endpoint, &SnapshotLimits::default(), Vec::new())
            .await
            .unwrap_err();
        assert_eq!(fault.code, ErrorCode::DriverSnapshotFailed);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn answers_that_are_no_answers_are_told_apart() {
    let version = |manner| async move {
        Scripted::start(manner)
            .await
            .endpoint
            .version()
            .await
            .unwrap_err()
    };
    assert!(matches!(version(Manner::Silent).await, CdpError::TimedOut { .. }));
    assert!(matches!(
        version(Manner::Endless).await,
        CdpError::TooLarge { .. }
    ));
    assert!(matches!(version(Manner::Garbage).await, CdpError::Garbled { .. }));
    let error = version(Manner::Failing).await;
    assert!(
        matches!(&error, CdpError::Status { status: 500, body, .. } if body == "no!!"),
        "{error}"
    );
}
