//! Promise: on the wire, this runner and this hub look like the control plane and the runner whose traffic was recorded.
//!
//! Two tables of ours (`fixtures/`) hold the shapes. One test drives the real runner through a recording proxy and
//! checks its requests; one drives the real hub and checks its replies; the last one holds both tables against the
//! recorded traffic, where that folder exists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use everdict_acceptance::{McpClient, Shape, World, recorded_traffic, shape_of, skip};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");
const REQUESTS: &str = include_str!("fixtures/runner_requests.json");
const REPLIES: &str = include_str!("fixtures/hub_replies.json");

/// What passed the proxy: tool name and arguments, in order.
type Recorded = Arc<Mutex<Vec<(String, Value)>>>;

#[derive(Clone)]
struct Proxy {
    target: String,
    http: reqwest::Client,
    recorded: Recorded,
}

/// Passes every request on as it is, and writes down tool calls.
async fn pass_on(
    State(proxy): State<Proxy>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    if let Ok(message) = serde_json::from_slice::<Value>(&body)
        && message["method"] == "tools/call"
        && let Some(tool) = message["params"]["name"].as_str()
    {
        let arguments = message["params"]["arguments"].clone();
        proxy
            .recorded
            .lock()
            .expect("record")
            .push((tool.to_owned(), arguments));
    }
    let mut request = proxy
        .http
        .request(method, format!("{}{uri}", proxy.target))
        .body(body);
    for (name, value) in &headers {
        if !matches!(name.as_str(), "host" | "content-length") {
            request = request.header(name, value);
        }
    }
    let Ok(answer) = request.send().await else {
        let gone = Response::builder()
            .status(StatusCode::BAD_GATEWAY)
            .body(Body::empty());
        return gone.expect("a bare response");
    };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if !matches!(
            name.as_str(),
            "transfer-encoding" | "content-length" | "connection"
        ) {
            response = response.header(name, value);
        }
    }
    response
        .body(Body::from_stream(answer.bytes_stream()))
        .expect("a passed-on response")
}

async fn start_proxy(world: &World) -> (String, Recorded) {
    let recorded = Recorded::default();
    let proxy = Proxy {
        target: world.url(),
        http: reqwest::Client::builder().no_proxy().build().expect("client"),
        recorded: Arc::clone(&recorded),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("loopback");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let app = axum::Router::new().fallback(pass_on).with_state(proxy);
    #[expect(
        clippy::disallowed_methods,
        reason = "the proxy lives as long as the test's runtime"
    )]
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, recorded)
}

fn table(text: &str) -> BTreeMap<String, Value> {
    serde_json::from_str(text).expect("a table of shapes")
}

fn kinds(entry: &Value, group: &str) -> BTreeMap<String, String> {
    let fields = entry[group].as_object().into_iter().flatten();
    fields
        .map(|(path, kind)| (path.clone(), kind.as_str().expect("a type name").to_owned()))
        .collect()
}

fn assert_shape(what: &str, shape: &Shape, required: &BTreeMap<String, String>) {
    for (path, kind) in required {
        let seen = shape
            .get(path)
            .unwrap_or_else(|| panic!("{what}: {path} is missing from {shape:?}"));
        assert!(
            seen.len() == 1 && seen.contains(kind.as_str()),
            "{what}: {path} is {seen:?}, not {kind}"
        );
    }
}

async fn submit(world: &World, case: &str, harness: Value, env: Value) -> String {
    world
        .submit(json!({
            "harness": {"id": harness["id"], "version": harness["version"]},
            "harnessSpec": harness,
            "case": {"id": case, "env": env, "task": "t", "graders": [{"id": "steps"}], "timeoutSec": 60,
                     "placement": {"target": "self"}},
        }))
        .await
}

#[tokio::test]
async fn the_runners_requests_have_the_recorded_fields() {
    let world = World::start(BINARY, &[]).await;
    let (_, token) = world.pair("laptop").await;
    let (proxy, recorded) = start_proxy(&world).await;
    let _runner = world.runner_at(&proxy, &token, &["--heartbeat-ms", "200"]);
    let command = json!({"kind": "command", "id": "talker", "version": "1.0.0",
                         "command": "echo out; echo err >&2; sleep 1.5; exit 3"});
    let run = submit(
        &world,
        "talker",
        command,
        json!({"kind": "repo", "source": {"files": {"a": "1"}}}),
    )
    .await;
    world.run_is(&run, &["succeeded"], Duration::from_secs(60)).await;

    let calls = recorded.lock().expect("record").clone();
    for (tool, entry) in table(REQUESTS) {
        let (required, optional) = (kinds(&entry, "required"), kinds(&entry, "optional"));
        let of_tool: Vec<&Value> = calls
            .iter()
            .filter(|(name, _)| *name == tool)
            .map(|(_, args)| args)
            .collect();
        assert!(!of_tool.is_empty(), "the runner never called {tool}");
        for arguments in of_tool {
            let mut shape = Shape::new();
            shape_of(arguments, "", &mut shape);
            assert_shape(&tool, &shape, &required);
            if optional.is_empty() {
                continue;
            }
            for (path, seen) in shape
                .iter()
                .filter(|(path, _)| !path.is_empty() && !path.contains(".detail."))
            {
                let known = required.get(path).or_else(|| optional.get(path));
                assert!(
                    known.is_some_and(|kind| seen.contains(kind.as_str())),
                    "{tool}: the runner sent {path} {seen:?}, which no recorded runner sends"
                );
            }
        }
    }
    for (tool, arguments) in &calls {
        if let Some(status) = arguments["status"].as_str() {
            assert!(
                status.encode_utf16().count() <= 200,
                "{tool}: status of {} characters",
                status.len()
            );
        }
    }
}

#[tokio::test]
async fn the_hubs_replies_have_the_recorded_shapes() {
    let world = World::start(BINARY, &[]).await;
    let (_, token) = world.pair("laptop").await;
    let client = McpClient::connect(&world.url(), &token).await;
    let lease = json!({"wait_ms": 5000, "capabilities": ["git"], "os": "linux", "version": "0.4.1", "protocol": 2,
                       "status": "s".repeat(500), "statusLevel": "info"});
    polls_without_a_job(&client).await;
    let command = json!({"kind": "command", "id": "h", "version": "1", "command": "true"});
    submit(&world, "shapes", command, json!({"kind": "prompt"})).await;
    let mut replies: BTreeMap<&str, Value> = BTreeMap::new();
    let leased = client
        .call("lease_job", lease)
        .await
        .expect("an over-long status is clamped, not refused");
    let token = json!({"jobId": leased["attempt"]["jobId"], "leaseEpoch": leased["attempt"]["leaseEpoch"]});
    let with = |more: Value| {
        let mut arguments = token.clone();
        let target = arguments.as_object_mut().expect("object");
        target.extend(more.as_object().expect("object").clone());
        arguments
    };
    replies.insert("lease_job", leased.clone());
    let result = json!({"caseId": "shapes", "harness": "h@1", "trace": [], "snapshot": {"kind": "prompt"}, "scores": []});
    let calls = [
        (
            "heartbeat_job",
            with(json!({"status": "running", "statusLevel": "info"})),
        ),
        ("report_case_log", with(json!({"line": "hello"}))),
        ("report_case_screen", with(json!({"frame": "aGVsbG8="}))),
        (
            "report_case_trace",
            with(json!({"events": [{"t": 1, "kind": "error", "message": "m"}]})),
        ),
        ("poll_case_fs_requests", with(json!({}))),
        (
            "answer_case_fs_request",
            with(json!({"requestId": "fsreq-1", "result": {"kind": "fsTree"}})),
        ),
        ("submit_job_result", with(json!({"result": result}))),
        ("fail_job", with(json!({"message": "too late"}))),
    ];
    for (tool, arguments) in calls {
        let reply = client
            .call(tool, arguments)
            .await
            .unwrap_or_else(|text| panic!("{tool}: {text}"));
        replies.insert(tool, reply);
    }
    assert_eq!(replies["submit_job_result"]["accepted"], true);
    assert_eq!(replies["fail_job"]["accepted"], false);
    for (tool, entry) in table(REPLIES) {
        let mut shape = Shape::new();
        shape_of(&replies[tool.as_str()], "", &mut shape);
        assert_shape(&tool, &shape, &kinds(&entry, "required"));
    }
    refusals_are_results(&client).await;
}

/// An empty queue answers `null`; an outdated runner is told so at once.
async fn polls_without_a_job(client: &McpClient) {
    let empty = json!({"wait_ms": 0, "protocol": 2});
    assert_eq!(client.call("lease_job", empty).await, Ok(json!({"job": null})));
    let outdated = json!({"job": null, "updateRequired": true, "serverProtocol": 2});
    for old in [json!({"wait_ms": 5000}), json!({"wait_ms": 5000, "protocol": 1})] {
        assert_eq!(client.call("lease_job", old).await, Ok(outdated.clone()));
    }
}

/// Schema violations and unknown tools are results with `isError`, not protocol errors.
async fn refusals_are_results(client: &McpClient) {
    let too_long = client
        .call("lease_job", json!({"wait_ms": 60_001, "protocol": 2}))
        .await
        .expect_err("refused");
    assert!(
        too_long.starts_with("MCP error -32602: Input validation error"),
        "{too_long}"
    );
    let no_epoch = client
        .call("fail_job", json!({"jobId": "x", "message": "m"}))
        .await
        .expect_err("refused");
    assert!(no_epoch.contains("leaseEpoch"), "{no_epoch}");
    let unknown = client.call("no_such_tool", json!({})).await.expect_err("refused");
    assert_eq!(unknown, "MCP error -32602: Tool no_such_tool not found");
}

#[test]
fn the_tables_agree_with_the_recorded_traffic() {
    let Some(folder) = recorded_traffic() else {
        return skip(
            "the_tables_agree_with_the_recorded_traffic",
            "no recorded traffic beside the checkout",
        );
    };
    let (requests, replies) = recorded_shapes(&folder);
    for (tool, entry) in table(REQUESTS) {
        let seen = requests
            .get(&tool)
            .unwrap_or_else(|| panic!("{tool} is not in the recordings"));
        assert_shape(
            &format!("recorded {tool} request"),
            seen,
            &kinds(&entry, "required"),
        );
        for (path, kind) in kinds(&entry, "optional") {
            if let Some(types) = seen.get(&path) {
                assert!(
                    types.contains(kind.as_str()),
                    "recorded {tool}: {path} is {types:?}, not {kind}"
                );
            }
        }
    }
    for (tool, entry) in table(REPLIES) {
        let Some(seen) = replies.get(&tool) else { continue };
        assert_shape(
            &format!("recorded {tool} reply"),
            seen,
            &kinds(&entry, "required"),
        );
        for path in kinds(&entry, "ours").keys() {
            assert!(
                !seen.contains_key(path),
                "{tool}: {path} is listed as ours but is in the recordings"
            );
        }
    }
}

/// Shapes of the recorded runner's requests (scenario b, where nothing is malformed on purpose) and of the replies.
fn recorded_shapes(folder: &std::path::Path) -> (BTreeMap<String, Shape>, BTreeMap<String, Shape>) {
    let (mut requests, mut replies) = (BTreeMap::new(), BTreeMap::new());
    let text = std::fs::read_to_string(folder.join("b_process_job.jsonl")).expect("scenario b");
    let mut tool_of: BTreeMap<u64, String> = BTreeMap::new();
    for line in text.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let id = entry["id"].as_u64().unwrap_or_default();
        if entry["kind"] == "req" && entry["body"]["method"] == "tools/call" {
            let tool = entry["body"]["params"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            shape_of(
                &entry["body"]["params"]["arguments"],
                "",
                requests.entry(tool.clone()).or_default(),
            );
            tool_of.insert(id, tool);
        }
        let content = &entry["frame"]["data"]["result"]["content"][0]["text"];
        if let (Some(tool), Some(text)) = (tool_of.get(&id), content.as_str()) {
            let reply: Value = serde_json::from_str(text).unwrap_or(Value::Null);
            if tool != "lease_job" || reply["job"].is_object() {
                shape_of(&reply, "", replies.entry(tool.clone()).or_default());
            }
        }
    }
    (requests, replies)
}
