//! Promise: hubs that share a PostgreSQL database lose and double nothing when one of them is killed with hundreds of jobs
//! in flight, whichever hub each word of a runner then goes to.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    reason = "the binary under test is started from outside"
)]

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use everdict_acceptance::{Child, eventually, free_port};
use everdict_testkit::Postgres;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

/// Jobs that are leased when the hub is killed.
const IN_FLIGHT: usize = 500;
/// Jobs that wait at that moment.
const WAITING: usize = 100;
const LANES: usize = 50;

struct Hub {
    url: String,
    child: Child,
}

fn start_hub(home: &Path, database: &str, log: &str) -> Hub {
    let port = free_port();
    let mut command = Command::new(BINARY);
    command
        .args([
            "hub",
            "--lease-ttl-ms",
            "4000",
            "--listen",
            &format!("127.0.0.1:{port}"),
        ])
        .env("EVERDICT_HOME", home)
        .env("EVERDICT_HUB_DATABASE", database);
    Hub {
        url: format!("http://127.0.0.1:{port}"),
        child: Child::start(command, &home.join(log)),
    }
}

fn api_key(home: &Path, database: &str) -> String {
    let output = Command::new(BINARY)
        .args(["hub", "key", "create", "--workspace", "acme", "--json"])
        .env("EVERDICT_HOME", home)
        .env("EVERDICT_HUB_DATABASE", database)
        .output()
        .expect("the binary under test starts");
    let reply: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    reply["apiKey"].as_str().expect("apiKey").to_owned()
}

/// A client that goes on at another hub, with the same session, when one does not answer.
struct Caller {
    http: reqwest::Client,
    urls: Vec<String>,
    first: usize,
    token: String,
    session: String,
}

impl Caller {
    async fn open(http: &reqwest::Client, urls: &[String], first: usize, token: &str) -> Self {
        let mut caller = Self {
            http: http.clone(),
            urls: urls.to_vec(),
            first,
            token: token.to_owned(),
            session: String::new(),
        };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                            "clientInfo": {"name": "acceptance", "version": "0"}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = caller.send(first, &hello).await.expect("the hub answers");
        caller.session = response.headers()["mcp-session-id"]
            .to_str()
            .expect("ascii")
            .to_owned();
        caller
    }

    async fn send(&self, hub: usize, message: &Value) -> reqwest::Result<reqwest::Response> {
        let mut request = self
            .http
            .post(format!("{}/mcp", self.urls[hub]))
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .json(message);
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        request.send().await
    }

    /// `None` when no hub answered this time; whether one took the call is not known then.
    async fn call(&self, tool: &str, arguments: &Value) -> Option<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        for turn in 0..self.urls.len() {
            let hub = (self.first + turn) % self.urls.len();
            let Ok(response) = self.send(hub, &message).await else {
                continue;
            };
            assert_eq!(response.status(), 200, "any hub knows the session");
            let Ok(body) = response.text().await else { continue };
            let Some(data) = body.lines().find_map(|line| line.strip_prefix("data: ")) else {
                continue;
            };
            let Ok(reply) = serde_json::from_str::<Value>(data) else {
                continue;
            };
            let text = reply["result"]["content"][0]["text"].as_str().expect("text");
            return Some(serde_json::from_str(text).expect("JSON"));
        }
        None
    }
}

fn job() -> Value {
    json!({
        "harness": {"id": "echo", "version": "1"},
        "harnessSpec": {"kind": "command", "id": "echo", "version": "1", "command": "true"},
        "case": {"id": "c-1", "env": {"kind": "prompt"}, "task": "t", "graders": [{"id": "steps"}]},
        "runtime": "self",
    })
}

fn result_of(leased: &Value) -> Value {
    json!({
        "jobId": leased["attempt"]["jobId"], "leaseEpoch": leased["attempt"]["leaseEpoch"],
        "result": {
            "caseId": "c-1", "harness": "echo@1", "evidenceVersion": 2, "trace": [],
            "snapshot": {"kind": "prompt", "output": ""}, "scores": [],
        },
    })
}

struct Tally {
    /// How often a result of each job was accepted.
    accepted: Mutex<HashMap<String, usize>>,
    leased: AtomicUsize,
    over: AtomicBool,
}

/// Leases without reporting until enough are in flight, then, from the word "go", reports everything and drains the rest.
async fn lane(caller: Caller, tally: Arc<Tally>, mut go: tokio::sync::watch::Receiver<bool>) {
    let args = json!({"wait_ms": 0, "capabilities": ["git"], "protocol": 2, "version": "0.1.0"});
    let mut held = Vec::new();
    while held.len() < IN_FLIGHT / LANES {
        if let Some(leased) = caller.call("lease_job", &args).await
            && leased["jobId"].is_string()
        {
            held.push(leased);
            tally.leased.fetch_add(1, Ordering::Relaxed);
        }
    }
    // In the middle of this the hub dies: half of the results are on their way.
    go.wait_for(|go| *go).await.expect("the test goes on");
    let wait = json!({"wait_ms": 500, "capabilities": ["git"], "protocol": 2, "version": "0.1.0"});
    loop {
        for leased in held.drain(..) {
            let id = leased["jobId"].as_str().expect("id").to_owned();
            // A report that was cut off is sent again, as runners do: the fence makes it count once.
            let reply = loop {
                if let Some(reply) = caller.call("submit_job_result", &result_of(&leased)).await {
                    break reply;
                }
            };
            if reply["accepted"] == true {
                *tally.accepted.lock().await.entry(id).or_default() += 1;
            }
        }
        match caller.call("lease_job", &wait).await {
            Some(leased) if leased["jobId"].is_string() => held.push(leased),
            _ if tally.over.load(Ordering::Relaxed) => return,
            _ => {}
        }
    }
}

/// Two hubs on one database, and whoever asks them.
struct Scene {
    http: reqwest::Client,
    key: String,
    hubs: [Hub; 2],
    urls: [String; 2],
    _home: tempfile::TempDir,
}

impl Scene {
    async fn set(database: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::tempdir().expect("temporary folder");
        let key = api_key(home.path(), database);
        let hubs = ["hub-a.log", "hub-b.log"].map(|log| start_hub(home.path(), database, log));
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(20))
            .build()
            .expect("client");
        for hub in &hubs {
            eventually("the hub is ready", Duration::from_secs(30), || async {
                let ready = http.get(format!("{}/readyz", hub.url)).send().await.ok()?;
                ready.status().is_success().then_some(())
            })
            .await;
        }
        Self {
            http,
            key,
            urls: [hubs[0].url.clone(), hubs[1].url.clone()],
            hubs,
            _home: home,
        }
    }

    async fn post(&self, hub: usize, path: &str, body: Value) -> Value {
        let url = format!("{}{path}", self.urls[hub % 2]);
        let request = self.http.post(url).bearer_auth(&self.key).json(&body);
        request.send().await.expect("answer").json().await.expect("JSON")
    }

    async fn pair(&self, n: usize) -> String {
        let body = json!({"label": format!("r{n}"), "capabilities": ["git"]});
        let paired = self.post(n, "/runners", body).await;
        paired["token"].as_str().expect("token").to_owned()
    }

    /// Whether the second hub says that a run has its result.
    async fn has_result(&self, run: &str) -> Option<()> {
        let url = format!("{}/runs/{run}", self.urls[1]);
        let record = self.http.get(url).bearer_auth(&self.key).send().await.ok()?;
        let record: Value = record.json().await.ok()?;
        (record["status"] == "succeeded").then_some(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_killed_with_five_hundred_jobs_in_flight_loses_and_doubles_none() {
    let Some(server) = Postgres::start_or_skip("replicas_lose_nothing") else {
        return;
    };
    let mut scene = Scene::set(&server.url()).await;
    // A pool has to have a runner before a job can be sent to it.
    scene.pair(0).await;
    let mut runs = Vec::new();
    for n in 0..IN_FLIGHT + WAITING {
        let run = scene.post(n, "/runs", job()).await;
        runs.push(run["id"].as_str().expect("id").to_owned());
    }
    let tally = Arc::new(Tally {
        accepted: Mutex::default(),
        leased: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let (go, _) = tokio::sync::watch::channel(false);
    let mut lanes = JoinSet::new();
    for n in 0..LANES {
        let token = scene.pair(n).await;
        let caller = Caller::open(&scene.http, &scene.urls, n % 2, &token).await;
        lanes.spawn(lane(caller, tally.clone(), go.subscribe()));
    }
    eventually("the jobs are in flight", Duration::from_secs(60), || async {
        (tally.leased.load(Ordering::Relaxed) == IN_FLIGHT).then_some(())
    })
    .await;
    go.send_replace(true);
    eventually("results are coming in", Duration::from_secs(30), || async {
        (tally.accepted.lock().await.len() > IN_FLIGHT / 10).then_some(())
    })
    .await;
    scene.hubs[0].child.kill();

    for id in &runs {
        let what = format!("run {id} has its result");
        eventually(&what, Duration::from_secs(60), || scene.has_result(id)).await;
    }
    tally.over.store(true, Ordering::Relaxed);
    while let Some(lane) = lanes.join_next().await {
        lane.expect("a lane");
    }
    let accepted = tally.accepted.lock().await;
    let doubled: Vec<_> = accepted.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "accepted twice: {doubled:?}");
    // What the dying hub accepted without an answer is in the database, and refused when it is sent again.
    let answered = accepted.len();
    assert!(
        answered <= runs.len() && answered > runs.len() - LANES,
        "{answered}"
    );
}
