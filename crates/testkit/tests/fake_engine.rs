//! What the fake daemon keeps of the real one's manners.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(unix)]

use std::time::Duration;

use everdict_testkit::fake_engine::{
    Behaviour, CallEnd, ExecAnswer, FakeEngine, FakeImage, Fault, Op, PullEnd, PullScript, Times,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

const WEB: &str = "fake/web:1";

/// Sends one request and reads the whole answer.
async fn ask(engine: &FakeEngine, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer = raw(engine, method, path, body).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_default();
    let start = body.find(['{', '[']).unwrap_or(body.len());
    let end = body.rfind(['}', ']']).map_or(start, |end| end + 1);
    (
        status,
        serde_json::from_str(&body[start..end]).unwrap_or_default(),
    )
}

async fn raw(engine: &FakeEngine, method: &str, path: &str, body: &Value) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(engine.socket()).await?;
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let head = format!(
        "{method} /v1.41{path} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn run(engine: &FakeEngine, name: &str, body: Value) -> String {
    let (status, created) = ask(engine, "POST", &format!("/containers/create?name={name}"), &body).await;
    assert_eq!(status, 201, "{created}");
    let id = created["Id"].as_str().unwrap().to_owned();
    let (status, answer) = ask(engine, "POST", &format!("/containers/{id}/start"), &Value::Null).await;
    assert_eq!(status, 204, "{answer}");
    id
}

fn with_web() -> FakeEngine {
    let engine = FakeEngine::start();
    engine.load(FakeImage::web(WEB));
    engine
}

#[tokio::test]
async fn one_of_eight_gets_a_containers_name_and_all_get_a_networks() {
    let engine = with_web();
    let body = json!({"Image": WEB});
    let creates = (0..8).map(|_| ask(&engine, "POST", "/containers/create?name=one", &body));
    let mut statuses: Vec<u16> = join_all(creates)
        .await
        .into_iter()
        .map(|(status, _)| status)
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    let body = json!({"Name": "net"});
    let creates = (0..6).map(|_| ask(&engine, "POST", "/networks/create", &body));
    assert!(join_all(creates).await.iter().all(|(status, _)| *status == 201));
    let (status, answer) = ask(&engine, "GET", "/networks/net", &Value::Null).await;
    assert_eq!(status, 400);
    assert_eq!(
        answer["message"],
        "6 matches found based on name: network net is ambiguous"
    );
}

#[tokio::test]
async fn a_network_stays_while_a_container_runs_on_it() {
    let engine = with_web();
    let (_, network) = ask(&engine, "POST", "/networks/create", &json!({"Name": "net"})).await;
    let network = network["Id"].as_str().unwrap();
    let id = run(
        &engine,
        "web",
        json!({"Image": WEB, "HostConfig": {"NetworkMode": network}}),
    )
    .await;
    let (status, answer) = ask(&engine, "DELETE", &format!("/networks/{network}"), &Value::Null).await;
    assert_eq!(status, 403);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .ends_with("has active endpoints"),
        "{answer}"
    );
    let (status, _) = ask(&engine, "POST", &format!("/containers/{id}/stop"), &Value::Null).await;
    assert_eq!(status, 204);
    let (status, _) = ask(&engine, "DELETE", &format!("/networks/{network}"), &Value::Null).await;
    assert_eq!(status, 204);
}

#[tokio::test]
async fn an_anonymous_volume_goes_only_when_it_is_asked_to() {
    let engine = FakeEngine::start();
    engine.load(FakeImage::web(WEB).volume("/data"));
    for (query, left) in [("force=1", 1), ("force=1&v=1", 1), ("force=1", 2)] {
        let id = run(&engine, "web", json!({"Image": WEB})).await;
        let (status, _) = ask(
            &engine,
            "DELETE",
            &format!("/containers/{id}?{query}"),
            &Value::Null,
        )
        .await;
        assert_eq!(status, 204);
        assert_eq!(engine.volumes().len(), left, "{query}");
    }
}

#[tokio::test]
async fn a_published_port_leads_to_the_process_and_ends_with_it() {
    let engine = with_web();
    let host = json!({"PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}});
    let id = run(&engine, "web", json!({"Image": WEB, "HostConfig": host})).await;
    let (_, view) = ask(&engine, "GET", &format!("/containers/{id}/json"), &Value::Null).await;
    let port = view["NetworkSettings"]["Ports"]["8080/tcp"][0]["HostPort"]
        .as_str()
        .unwrap()
        .to_owned();
    let connect = || tokio::net::TcpStream::connect(format!("127.0.0.1:{port}"));
    let mut stream = connect().await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    engine.end_container("web", 0, false);
    let gone = async {
        while connect().await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
}

#[tokio::test]
async fn a_host_port_can_be_had_once() {
    let engine = with_web();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let host = json!({"PortBindings": {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": port}]}});
    let body = json!({"Image": WEB, "HostConfig": host});
    let (_, created) = ask(&engine, "POST", "/containers/create?name=web", &body).await;
    let id = created["Id"].as_str().unwrap();
    let (status, answer) = ask(&engine, "POST", &format!("/containers/{id}/start"), &Value::Null).await;
    assert_eq!(status, 500);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .ends_with("bind: address already in use"),
        "{answer}"
    );
    let (_, view) = ask(&engine, "GET", &format!("/containers/{id}/json"), &Value::Null).await;
    assert_eq!(
        (&view["State"]["Status"], &view["State"]["ExitCode"]),
        (&json!("created"), &json!(128))
    );
}

#[tokio::test]
async fn a_command_gets_its_input_and_its_output_comes_in_frames() {
    let engine = FakeEngine::start();
    engine.load(FakeImage::web(WEB).exec(|call| {
        let text = format!(
            "{} got {}",
            call.argv.join(" "),
            String::from_utf8_lossy(&call.stdin)
        );
        ExecAnswer {
            stdout: text.into_bytes(),
            stderr: b"oops".to_vec(),
            code: 3,
            ..ExecAnswer::default()
        }
    }));
    let id = run(&engine, "web", json!({"Image": WEB})).await;
    let body = json!({"Cmd": ["cat", "-"], "AttachStdin": true});
    let (_, created) = ask(&engine, "POST", &format!("/containers/{id}/exec"), &body).await;
    let exec = created["Id"].as_str().unwrap();
    let mut stream = UnixStream::connect(engine.socket()).await.unwrap();
    let head = format!(
        "POST /exec/{exec}/start HTTP/1.1\r\nHost: d\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        stream.read_buf(&mut answer).await.unwrap();
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut output = Vec::new();
    stream.read_to_end(&mut output).await.unwrap();
    assert_eq!(
        output,
        b"\x01\0\0\0\0\0\0\x0fcat - got hello\x02\0\0\0\0\0\0\x04oops"
    );
    let (_, view) = ask(&engine, "GET", &format!("/exec/{exec}/json"), &Value::Null).await;
    assert_eq!((&view["Running"], &view["ExitCode"]), (&json!(false), &json!(3)));
}

#[tokio::test]
async fn logs_are_followed_to_the_end() {
    let engine = FakeEngine::start();
    let ends = Behaviour::Exit {
        after: Duration::from_millis(120),
        code: 0,
        oom: false,
    };
    let image = FakeImage::new(WEB, ends)
        .line("one")
        .piece(Duration::from_millis(60), "tw")
        .piece(Duration::from_millis(90), "o");
    engine.load(image);
    let id = run(&engine, "web", json!({"Image": WEB})).await;
    let path = format!("/containers/{id}/logs?follow=1&stdout=1&stderr=1");
    let answer = raw(&engine, "GET", &path, &Value::Null).await.unwrap();
    for piece in ["\u{4}one\n", "\u{3}two"] {
        assert!(answer.contains(piece), "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_armed_strikes_as_often_as_it_was_asked_to() {
    let engine = with_web();
    engine.arm(Op::ContainerCreate, "web", Fault::disk_full(), Times::Count(2));
    let body = json!({"Image": WEB});
    let mut statuses = Vec::new();
    for name in ["web", "other", "web", "web"] {
        statuses.push(
            ask(&engine, "POST", &format!("/containers/create?name={name}"), &body)
                .await
                .0,
        );
    }
    assert_eq!(statuses, [500, 201, 500, 201]);
    engine.arm(Op::Ping, "", Fault::HangUp, Times::Once);
    assert_eq!(
        raw(&engine, "GET", "/_ping", &Value::Null)
            .await
            .unwrap_or_default(),
        "",
        "no answer at all"
    );
    assert_eq!(ask(&engine, "GET", "/_ping", &Value::Null).await.0, 200);
    let ends: Vec<CallEnd> = engine.calls_of(Op::Ping).iter().map(|call| call.end).collect();
    assert_eq!(ends, [CallEnd::Dropped, CallEnd::Answered(200)]);
}

#[tokio::test]
async fn who_goes_away_cuts_every_line_and_keeps_what_it_knew() {
    let engine = with_web();
    run(&engine, "web", json!({"Image": WEB})).await;
    engine.arm(Op::Info, "", Fault::BlackHole, Times::Once);
    let leave = async {
        let waits = |fake: &FakeEngine| !fake.calls_of(Op::Info).is_empty();
        engine.until("a call waits", Duration::from_secs(10), waits).await;
        engine.go_away();
    };
    let (answer, ()) = tokio::join!(raw(&engine, "GET", "/info", &Value::Null), leave);
    assert_eq!(answer.unwrap_or_default(), "");
    assert!(UnixStream::connect(engine.socket()).await.is_err());
    engine.come_back();
    let (status, list) = ask(&engine, "GET", "/containers/json?all=1", &Value::Null).await;
    assert_eq!(
        (status, &list[0]["Status"]),
        (200, &json!("Exited (0) 1 second ago"))
    );
}

#[tokio::test]
async fn a_pull_that_nobody_reads_is_given_up() {
    let engine = FakeEngine::start();
    engine.publish(FakeImage::web(WEB));
    engine.script_pull(
        WEB,
        PullScript::Layers {
            steps: 600,
            pause: Duration::from_millis(100),
        },
    );
    let pull = raw(
        &engine,
        "POST",
        "/images/create?fromImage=fake/web&tag=1",
        &Value::Null,
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(300), pull)
            .await
            .is_err()
    );
    let dropped = |fake: &FakeEngine| fake.pulls()[0].end == PullEnd::Dropped;
    engine
        .until("it is given up", Duration::from_secs(3), dropped)
        .await;
    assert_eq!(engine.images(), [""; 0]);
}

#[tokio::test]
async fn a_slow_clock_and_another_processor_show_in_what_it_says_of_itself() {
    let engine = FakeEngine::start();
    engine.set_architecture("arm64");
    let (_, version) = ask(&engine, "GET", "/version", &Value::Null).await;
    assert_eq!(
        (&version["ApiVersion"], &version["Arch"]),
        (&json!("1.41"), &json!("arm64"))
    );
    let time = async || {
        let (_, info) = ask(&engine, "GET", "/info", &Value::Null).await;
        info["SystemTime"].as_str().unwrap().to_owned()
    };
    let before = time().await;
    engine.set_clock_behind(Duration::from_secs(7200));
    assert!(time().await < before, "RFC 3339 in UTC sorts as text");
}

#[tokio::test]
async fn events_tell_of_the_containers_that_were_asked_about() {
    let engine = with_web();
    let mut stream = UnixStream::connect(engine.socket()).await.unwrap();
    // {"container":["web"]}
    let path = "/events?filters=%7B%22container%22%3A%5B%22web%22%5D%7D";
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: d\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let listens = |fake: &FakeEngine| {
        fake.calls_of(Op::Events)
            .iter()
            .any(|call| call.end != CallEnd::Open)
    };
    engine
        .until("somebody listens", Duration::from_secs(10), listens)
        .await;
    run(&engine, "other", json!({"Image": WEB})).await;
    run(&engine, "web", json!({"Image": WEB})).await;
    engine.end_container("other", 1, false);
    engine.end_container("web", 137, true);
    let mut heard = String::new();
    while !heard.contains("\"die\"") {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        heard.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    let at = |word: &str| {
        heard
            .find(&format!("\"Action\":\"{word}\""))
            .unwrap_or_else(|| panic!("{word}: {heard}"))
    };
    assert!(
        at("create") < at("start") && at("start") < at("oom") && at("oom") < at("die"),
        "{heard}"
    );
    assert!(!heard.contains("\"name\":\"other\""), "{heard}");
    assert!(heard.contains("\"exitCode\":\"137\""), "{heard}");
}
