//! Real processes, real git, one promise per test.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod bad_input;
mod cancel;
mod command;
mod grading;
mod harnesses;
mod secrets;
mod verifiers;
mod world;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everdict_cases::{CaseContext, Progress, run_leased_job};
use everdict_contracts::{CaseJob, CaseResult, Fault, Role, Score, TraceEvent, TraceEventKind, decode};
use everdict_exec::HostEnv;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A place to run cases in, and what they showed.
struct World {
    dir: TempDir,
    host: Vec<(String, String)>,
    seen: Arc<Seen>,
    cancel: CancellationToken,
}

#[derive(Default)]
struct Seen {
    lines: Mutex<Vec<(Instant, String)>>,
    batches: Mutex<Vec<Vec<TraceEvent>>>,
}

impl Progress for Seen {
    fn log(&self, line: &str) {
        self.lines.lock().unwrap().push((Instant::now(), line.to_owned()));
    }

    fn trace(&self, events: Vec<TraceEvent>) {
        self.batches.lock().unwrap().push(events);
    }
}

impl World {
    fn new() -> Self {
        let host = vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
        Self {
            dir: TempDir::new().unwrap(),
            host,
            seen: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }

    fn with_host(mut self, name: &str, value: &str) -> Self {
        self.host.retain(|(known, _)| known != name);
        self.host.push((name.to_owned(), value.to_owned()));
        self
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("work-root")
    }

    fn context(&self) -> CaseContext {
        std::fs::create_dir_all(self.root()).unwrap();
        CaseContext {
            host_env: Arc::new(HostEnv::from_pairs(self.host.clone())),
            work_root: self.root(),
            progress: self.seen.clone(),
            services: None,
            containers: None,
            mask: Arc::new(everdict_exec::Redactor::none()),
            cancel: self.cancel.clone(),
        }
    }

    async fn run(&self, job: Value) -> Result<CaseResult, Fault> {
        let job: CaseJob = decode(job).expect("a well-formed job");
        let outcome = run_leased_job(&job, &self.context()).await;
        assert_eq!(
            leftovers(&self.root()),
            Vec::<String>::new(),
            "the scratch directory stays behind"
        );
        outcome
    }

    fn lines(&self) -> Vec<String> {
        self.seen
            .lines
            .lock()
            .unwrap()
            .iter()
            .map(|(_, line)| line.clone())
            .collect()
    }
}

fn leftovers(root: &Path) -> Vec<String> {
    std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// A command job on an empty prompt environment; `change` is merged over it, objects key by key.
fn command_job(command: &str, change: Value) -> Value {
    let mut job = json!({
        "evalCase": { "id": "case-1", "env": { "kind": "prompt" }, "task": "say hi", "graders": [], "timeoutSec": 60 },
        "harness": { "id": "cmd", "version": "1.0.0" },
        "harnessSpec": { "kind": "command", "id": "cmd", "version": "1.0.0", "command": command },
        "runId": "evd-run-1",
    });
    merge(&mut job, change);
    job
}

/// An inline-files repository for `command_job`.
fn repo(files: Value) -> Value {
    json!({ "kind": "repo", "source": { "files": files } })
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            // A tagged object is replaced as a whole: its keys belong to its kind.
            for (key, value) in change {
                let slot = into.entry(key.clone()).or_insert(Value::Null);
                if key == "env" && value.get("kind").is_some() {
                    *slot = value;
                } else {
                    merge(slot, value);
                }
            }
        }
        (into, change) => *into = change,
    }
}

fn exit_detail(result: &CaseResult) -> Value {
    result
        .trace
        .iter()
        .find_map(|event| match &event.kind {
            TraceEventKind::EnvAction(event) if event.action == "command.exit" => event.detail.clone(),
            _ => None,
        })
        .expect("a command.exit event")
}

fn errors(result: &CaseResult) -> Vec<&str> {
    result
        .trace
        .iter()
        .filter_map(|event| match &event.kind {
            TraceEventKind::Error(event) => Some(event.message.as_str()),
            _ => None,
        })
        .collect()
}

/// What the agent said, message by message.
fn answers(result: &CaseResult) -> Vec<&str> {
    result
        .trace
        .iter()
        .filter_map(|event| match &event.kind {
            TraceEventKind::Message(said) if said.role == Role::Assistant => Some(said.text.as_str()),
            _ => None,
        })
        .collect()
}

fn score(result: &CaseResult, index: usize) -> Value {
    let score: &Score = &result.scores[index];
    serde_json::to_value(score).unwrap()
}

/// Waits for `done`, looking every few milliseconds.
async fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
