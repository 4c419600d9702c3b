//! An installation of its own per test, and a daemon that is left as it was found.

use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everdict_cases::{CaseContext, Progress, run_leased_job};
use everdict_contracts::{CaseJob, CaseResult, Fault, Role, TraceEvent, TraceEventKind, decode};
use everdict_exec::HostEnv;
use everdict_topology::case_container::CaseContainers;
use everdict_topology::engine::Engine;
use everdict_topology::images::{ImageOptions, Images};
use everdict_topology::labels::INSTALL;
use everdict_topology::process::this_owner;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub const REDIS: &str = "redis:7-alpine";
pub const POSTGRES: &str = "postgres:16-alpine";
pub const FRONT_DOOR: &str = "everdict/front-door:dev";

const DAEMON: &str = "unix:///var/run/docker.sock";

/// What a case showed.
#[derive(Default)]
struct Seen(Mutex<Vec<(Instant, String)>>);

impl Progress for Seen {
    fn log(&self, line: &str) {
        self.0.lock().unwrap().push((Instant::now(), line.to_owned()));
    }

    fn trace(&self, _events: Vec<TraceEvent>) {}
}

#[derive(Clone)]
pub struct World {
    pub dir: Arc<TempDir>,
    pub containers: Arc<CaseContainers>,
    pub cancel: CancellationToken,
    engine: Engine,
    install: String,
    host: Vec<(String, String)>,
    seen: Arc<Seen>,
}

/// Runs a test on the daemon and removes what it made, also when it fails.
pub async fn in_world(test: &str, body: impl AsyncFnOnce(World)) {
    let engine = match Engine::connect(DAEMON).await {
        Ok(engine) => engine,
        Err(error) => return skip(test, &error.to_string()),
    };
    let dir = Arc::new(TempDir::new().unwrap());
    let images = Images::new(ImageOptions {
        state_dir: dir.path().join("state"),
        budget_bytes: None,
        refresh_after: None,
        emulates: false,
    });
    let install = format!("test-{test}-{}", std::process::id());
    let owner = this_owner(install.clone(), "runner");
    let world = World {
        dir,
        containers: Arc::new(CaseContainers::new(engine.clone(), Arc::new(images), owner)),
        cancel: CancellationToken::new(),
        engine,
        install,
        host: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
        seen: Arc::default(),
    };
    let result = AssertUnwindSafe(body(world.clone())).catch_unwind().await;
    world.containers.settle().await;
    let left = world.ours().await;
    for name in &left {
        let _ = world.engine.remove_container(name).await;
    }
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(left, Vec::<String>::new(), "containers were left");
}

/// Runs a job where there is no daemon.
pub async fn without_docker(job: Value) -> Result<CaseResult, Fault> {
    let dir = TempDir::new().unwrap();
    let host = HostEnv::from_pairs([("PATH", "/usr/bin:/bin")]);
    let context = CaseContext {
        host_env: Arc::new(host),
        work_root: dir.path().to_owned(),
        progress: Arc::new(Seen::default()),
        services: None,
        containers: None,
        mask: Arc::new(everdict_exec::Redactor::none()),
        cancel: CancellationToken::new(),
    };
    let job: CaseJob = decode(job).expect("a well-formed job");
    run_leased_job(&job, &context).await
}

impl World {
    pub fn with_host(mut self, name: &str, value: &str) -> Self {
        self.host.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn run(&self, job: Value) -> Result<CaseResult, Fault> {
        let root = self.dir.path().join("work-root");
        std::fs::create_dir_all(&root).unwrap();
        let context = CaseContext {
            host_env: Arc::new(HostEnv::from_pairs(self.host.clone())),
            work_root: root.clone(),
            progress: self.seen.clone(),
            services: None,
            containers: Some(Arc::clone(&self.containers)),
            mask: Arc::new(everdict_exec::Redactor::none()),
            cancel: self.cancel.clone(),
        };
        let job: CaseJob = decode(job).expect("a well-formed job");
        let outcome = run_leased_job(&job, &context).await;
        assert_eq!(
            std::fs::read_dir(&root).unwrap().count(),
            0,
            "the scratch directory stays behind"
        );
        assert_eq!(
            self.ours().await,
            Vec::<String>::new(),
            "the container stays behind"
        );
        outcome
    }

    pub fn lines(&self) -> Vec<String> {
        self.seen
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|(_, line)| line.clone())
            .collect()
    }

    /// The first line with that text, and when it came.
    pub fn line(&self, text: &str) -> (Instant, String) {
        let seen = self.seen.0.lock().unwrap();
        seen.iter()
            .find(|(_, line)| line == text)
            .cloned()
            .unwrap_or_else(|| panic!("no line {text}: {seen:?}"))
    }

    pub async fn until_line(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.lines().iter().any(|line| line == text) {
            assert!(Instant::now() < deadline, "never said: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Names of this installation's containers.
    pub async fn ours(&self) -> Vec<String> {
        let label = [format!("{INSTALL}={}", self.install)];
        let rows = self.engine.list_containers(&label).await.unwrap();
        rows.into_iter().map(|row| row.name).collect()
    }
}

/// A command job in an image; `change` is merged over it.
pub fn image_job(image: &str, command: &str, change: Value) -> Value {
    let mut job = json!({
        "evalCase": {
            "id": "case-1", "env": {"kind": "prompt"}, "task": "say hi", "graders": [], "timeoutSec": 60, "image": image
        },
        "harness": {"id": "cmd", "version": "1.0.0"},
        "harnessSpec": {"kind": "command", "id": "cmd", "version": "1.0.0", "command": command},
        "runId": "evd-run-1",
    });
    merge(&mut job, change);
    job
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                let slot = into.entry(key.clone()).or_insert(Value::Null);
                // A tagged object is replaced as a whole: its keys belong to its kind.
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

pub fn exit_detail(result: &CaseResult) -> Value {
    let detail = result.trace.iter().find_map(|event| match &event.kind {
        TraceEventKind::EnvAction(event) if event.action == "command.exit" => event.detail.clone(),
        _ => None,
    });
    detail.expect("a command.exit event")
}

/// What the agent said, message by message.
pub fn answers(result: &CaseResult) -> Vec<&str> {
    let said = result.trace.iter().filter_map(|event| match &event.kind {
        TraceEventKind::Message(said) if said.role == Role::Assistant => Some(said.text.as_str()),
        _ => None,
    });
    said.collect()
}

/// Reports a test that cannot run here.
fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    eprint!("{line}");
    #[expect(
        clippy::disallowed_methods,
        reason = "the test runner hands the path over in the environment"
    )]
    let path = std::env::var_os("EVERDICT_SKIP_LOG");
    if let Some(path) = path
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = file.write_all(line.as_bytes());
    }
}
