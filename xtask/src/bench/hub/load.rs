//! The load: whoever submits, and runners that lease and report without running anything.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ToolResult;

/// Submitters at a time while the queue is filled.
const SUBMITTERS: usize = 32;
/// How long a runner waits at the hub; the value of the existing runners.
const POLL_MS: u64 = 25_000;

/// The hubs under test.
#[derive(Clone)]
pub(super) struct Hubs {
    http: reqwest::Client,
    urls: Arc<[String]>,
    key: String,
}

impl Hubs {
    pub(super) fn new(urls: &[String], key: &str) -> ToolResult<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(120))
            .build()?;
        Ok(Self {
            http,
            urls: urls.into(),
            key: key.to_owned(),
        })
    }

    async fn post(&self, hub: usize, path: &str, body: &Value) -> ToolResult<Value> {
        let url = format!("{}{path}", self.urls[hub % self.urls.len()]);
        let response = self
            .http
            .post(url)
            .bearer_auth(&self.key)
            .json(body)
            .send()
            .await?;
        let status = response.status();
        let text = response.text().await?;
        if !status.is_success() {
            return Err(format!("{path}: {status}: {text}").into());
        }
        Ok(serde_json::from_str(&text)?)
    }

    async fn submit(&self, n: usize) -> ToolResult<String> {
        let body = json!({
            "harness": {"id": "bench-true", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "bench-true", "version": "1.0.0", "command": "true"},
            "case": {"id": format!("case-{n}"), "env": {"kind": "prompt"}, "task": "do nothing",
                     "graders": [{"id": "steps"}], "timeoutSec": 60},
            "runtime": "self",
            // Ten lots that take turns.
            "batchId": format!("lot-{}", n % 10),
            "priority": "batch",
        });
        let reply = self.post(n, "/runs", &body).await?;
        let id = reply["id"].as_str().ok_or("POST /runs reply has no id")?;
        Ok(id.to_owned())
    }

    pub(super) async fn fill(&self, jobs: usize) -> ToolResult<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut submitters = JoinSet::new();
        for _ in 0..SUBMITTERS {
            let (hubs, next) = (self.clone(), next.clone());
            submitters.spawn(async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= jobs {
                        return ToolResult::Ok(());
                    }
                    hubs.submit(n).await?;
                }
            });
        }
        while let Some(joined) = submitters.join_next().await {
            joined??;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Tally {
    leased: HashMap<String, usize>,
    accepted: HashMap<String, usize>,
    done: usize,
    /// How long each lease call took.
    leases: Vec<f64>,
    /// When a job reached its runner.
    arrived: HashMap<String, Instant>,
}

/// What the runners are to do.
#[derive(Clone, Copy)]
struct Order {
    /// Jobs that may be done in all; then everybody rests.
    until: usize,
    pace: Duration,
}

/// Runners with a session each.
pub(super) struct Fleet {
    order: watch::Sender<Order>,
    tally: Arc<Mutex<Tally>>,
    done: watch::Receiver<usize>,
    _runners: JoinSet<ToolResult<()>>,
}

impl Fleet {
    pub(super) async fn pair(hubs: &Hubs, count: usize) -> ToolResult<Self> {
        let rest = Order {
            until: 0,
            pace: Duration::ZERO,
        };
        let order = watch::Sender::new(rest);
        let tally = Arc::new(Mutex::new(Tally::default()));
        let (said, done) = watch::channel(0);
        let said = Arc::new(said);
        let mut runners = JoinSet::new();
        for n in 0..count {
            let body = json!({"label": format!("r{n}"), "capabilities": ["git"]});
            let paired = hubs.post(n, "/runners", &body).await?;
            let token = paired["token"].as_str().ok_or("pairing reply has no token")?;
            let session = Session::open(hubs, n, token).await?;
            let runner = Runner {
                session,
                tally: tally.clone(),
                said: said.clone(),
                order: order.subscribe(),
            };
            runners.spawn(runner.run());
        }
        Ok(Self {
            order,
            tally,
            done,
            _runners: runners,
        })
    }

    /// Has jobs done until there are `until` in all; returns how long each lease call took meanwhile.
    pub(super) async fn drain(&self, until: usize, pace: Duration) -> ToolResult<Vec<f64>> {
        lock(&self.tally).leases.clear();
        self.order.send_replace(Order { until, pace });
        let mut done = self.done.clone();
        let all = done.wait_for(|done| *done >= until);
        tokio::time::timeout(Duration::from_secs(1_200), all)
            .await
            .map_err(|_| "the queue was not drained within 20 minutes")??;
        Ok(std::mem::take(&mut lock(&self.tally).leases))
    }

    /// Submits jobs one by one while everybody waits; returns how long each took to its runner.
    pub(super) async fn single(&self, hubs: &Hubs, count: usize) -> ToolResult<Vec<f64>> {
        let mut took = Vec::with_capacity(count);
        let start = *self.done.borrow();
        let until = usize::MAX;
        self.order.send_replace(Order {
            until,
            pace: Duration::ZERO,
        });
        // The runners that rested ask again.
        tokio::time::sleep(Duration::from_secs(1)).await;
        for n in 0..count {
            let submitted = Instant::now();
            let run = hubs.submit(n).await?;
            let mut done = self.done.clone();
            let one = done.wait_for(|done| *done > start + n);
            tokio::time::timeout(Duration::from_secs(60), one)
                .await
                .map_err(|_| "a single job was not done within a minute")??;
            let arrived = lock(&self.tally).arrived.get(&run).copied();
            let arrived = arrived.ok_or("a job was done that never arrived")?;
            took.push(arrived.duration_since(submitted).as_secs_f64() * 1e3);
        }
        Ok(took)
    }

    /// Jobs that nobody reported, and jobs that were leased or counted twice.
    pub(super) fn balance(&self, submitted: usize) -> (usize, usize) {
        let tally = lock(&self.tally);
        let doubled = tally.leased.values().chain(tally.accepted.values());
        (
            submitted.saturating_sub(tally.accepted.len()),
            doubled.filter(|count| **count > 1).count(),
        )
    }
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Runner {
    session: Session,
    tally: Arc<Mutex<Tally>>,
    said: Arc<watch::Sender<usize>>,
    order: watch::Receiver<Order>,
}

impl Runner {
    async fn run(mut self) -> ToolResult<()> {
        loop {
            let order = *self
                .order
                .wait_for(|order| order.until > *self.said.borrow())
                .await?;
            let asked = Instant::now();
            let args = json!({
                "wait_ms": POLL_MS, "capabilities": ["git"], "protocol": 2, "version": "0.1.0", "os": "linux",
            });
            let leased = self.session.call("lease_job", args).await?;
            let Some(id) = leased["jobId"].as_str().map(ToOwned::to_owned) else {
                continue;
            };
            {
                let mut tally = lock(&self.tally);
                tally.leases.push(asked.elapsed().as_secs_f64() * 1e3);
                *tally.leased.entry(id.clone()).or_default() += 1;
                tally.arrived.insert(id.clone(), Instant::now());
            }
            if !order.pace.is_zero() {
                tokio::time::sleep(order.pace).await;
            }
            let report = json!({
                "jobId": id, "leaseEpoch": leased["attempt"]["leaseEpoch"],
                "result": {
                    "caseId": leased["job"]["evalCase"]["id"], "harness": "bench-true@1.0.0", "evidenceVersion": 2,
                    "trace": [{"t": 0, "kind": "message", "role": "assistant", "text": "done"}],
                    "snapshot": {"kind": "prompt", "output": "done"},
                    "scores": [{"graderId": "steps", "metric": "tool_calls", "value": 0}],
                },
            });
            let reply = self.session.call("submit_job_result", report).await?;
            let mut tally = lock(&self.tally);
            if reply["accepted"] == true {
                *tally.accepted.entry(id).or_default() += 1;
                tally.done += 1;
                let done = tally.done;
                drop(tally);
                self.said.send_modify(|said| *said = done.max(*said));
            }
        }
    }
}

struct Session {
    http: reqwest::Client,
    url: String,
    token: String,
    id: String,
}

impl Session {
    async fn open(hubs: &Hubs, n: usize, token: &str) -> ToolResult<Self> {
        let mut session = Self {
            http: hubs.http.clone(),
            url: format!("{}/mcp", hubs.urls[n % hubs.urls.len()]),
            token: token.to_owned(),
            id: String::new(),
        };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                            "clientInfo": {"name": "bench", "version": "0"}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = session.send(&hello).await?;
        let id = response.headers().get("mcp-session-id").ok_or("no session id")?;
        session.id = id.to_str()?.to_owned();
        response.bytes().await?;
        Ok(session)
    }

    async fn send(&self, message: &Value) -> ToolResult<reqwest::Response> {
        let mut request = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .json(message);
        if !self.id.is_empty() {
            request = request.header("mcp-session-id", &self.id);
        }
        Ok(request.send().await?)
    }

    async fn call(&self, tool: &str, arguments: Value) -> ToolResult<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let body = self.send(&message).await?.text().await?;
        let data = body
            .lines()
            .find_map(|line| line.strip_prefix("data: "))
            .ok_or_else(|| format!("{tool}: no answer in {body:?}"))?;
        let reply: Value = serde_json::from_str(data)?;
        let text = reply["result"]["content"][0]["text"]
            .as_str()
            .ok_or_else(|| format!("{tool}: {data}"))?;
        Ok(serde_json::from_str(text)?)
    }
}
