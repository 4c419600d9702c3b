//! A runtime of its own installation id, and a daemon that is left as it was found.

use std::io::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use everdict_cases::{CaseContext, DockerTopologies, Progress, run_leased_job};
use everdict_contracts::{CaseJob, CaseResult, Fault, TraceEvent, TrackEntry, decode};
use everdict_exec::HostEnv;
use everdict_topology::digest::DigestKey;
use everdict_topology::engine::Engine;
use everdict_topology::labels::{INSTALL, KIND};
use everdict_topology::process::this_owner;
use everdict_topology::runtime::{DockerTopologyRuntime, RuntimeOptions};
use everdict_topology::stores::StockImages;
use futures_util::FutureExt as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub const FRONT_DOOR: &str = "everdict/front-door:dev";
const POSTGRES: &str = "postgres:16-alpine";
const REDIS: &str = "redis:7-alpine";
const BROWSER: &str = "chromedp/headless-shell:latest";
const DAEMON: &str = "unix:///var/run/docker.sock";

#[derive(Default)]
struct Seen {
    tracks: Mutex<Vec<String>>,
}

impl Progress for Seen {
    fn log(&self, line: &str) {
        eprintln!("{line}");
    }

    fn log_of(&self, part: &str, _line: &str) {
        self.tracks.lock().unwrap().push(format!("log of {part}"));
    }

    fn trace(&self, _events: Vec<TraceEvent>) {}

    fn track(&self, entry: TrackEntry) {
        let name = match entry {
            TrackEntry::Nav(_) => "nav",
            TrackEntry::Network(_) => "network",
            _ => "other",
        };
        self.tracks.lock().unwrap().push(name.to_owned());
    }
}

pub struct World {
    engine: Engine,
    install: String,
    runtime: Arc<DockerTopologyRuntime>,
    seen: Arc<Seen>,
    dir: TempDir,
}

/// Runs a test in a world of its own and removes what it made, also when it fails.
pub async fn in_world(test: &str, body: impl AsyncFnOnce(&World)) {
    let Some(world) = World::open(test).await else {
        return;
    };
    let result = AssertUnwindSafe(body(&world)).catch_unwind().await;
    world.remove_all().await;
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

impl World {
    async fn open(test: &str) -> Option<Self> {
        let engine = match Engine::connect(DAEMON).await {
            Ok(engine) => engine,
            Err(error) => return skip(test, &error.to_string()),
        };
        let dir = TempDir::new().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let install = format!("test-{test}-{}-{now}", std::process::id());
        let owner = this_owner(install.clone(), "runner");
        let mut options = RuntimeOptions::new(dir.path().join("state"), owner, DigestKey::new([7; 32]));
        options.images = StockImages {
            postgres: POSTGRES.to_owned(),
            redis: REDIS.to_owned(),
            browser: BROWSER.to_owned(),
            ..StockImages::default()
        };
        options.prepare_databases = false;
        let runtime = Arc::new(
            DockerTopologyRuntime::open(engine.clone(), options)
                .await
                .unwrap(),
        );
        Some(Self {
            engine,
            install,
            runtime,
            seen: Arc::default(),
            dir,
        })
    }

    pub async fn run(&self, job: Value) -> Result<CaseResult, Fault> {
        let job: CaseJob = decode(job).expect("a well-formed job");
        let ctx = CaseContext {
            host_env: Arc::new(HostEnv::from_pairs(Vec::<(String, String)>::new())),
            work_root: self.dir.path().to_owned(),
            progress: self.seen.clone(),
            services: Some(Arc::new(DockerTopologies::new(Arc::clone(&self.runtime)))),
            containers: None,
            mask: Arc::new(everdict_exec::Redactor::none()),
            cancel: CancellationToken::new(),
        };
        run_leased_job(&job, &ctx).await
    }

    /// How many browsers there are.
    pub async fn browsers(&self) -> usize {
        let filter = [format!("{INSTALL}={}", self.install), format!("{KIND}=browser")];
        self.engine.list_containers(&filter).await.unwrap().len()
    }

    /// The containers that serve every case, by id.
    pub async fn containers(&self) -> Vec<String> {
        let filter = [format!("{INSTALL}={}", self.install)];
        let rows = self.engine.list_containers(&filter).await.unwrap();
        let mut ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
        ids.sort();
        ids
    }

    pub fn seen(&self, track: &str) -> bool {
        self.seen.tracks.lock().unwrap().iter().any(|seen| seen == track)
    }

    async fn remove_all(&self) {
        self.runtime.shut_down().await;
        let label = [format!("{INSTALL}={}", self.install)];
        for row in self.engine.list_containers(&label).await.unwrap_or_default() {
            let _ = self.engine.remove_container(&row.id).await;
        }
        for row in self.engine.list_networks(&label).await.unwrap_or_default() {
            let _ = self.engine.remove_network(&row.id).await;
        }
        for row in self.engine.list_volumes(&label).await.unwrap_or_default() {
            let _ = self.engine.remove_volume(&row.name).await;
        }
    }
}

fn skip(test: &str, why: &str) -> Option<World> {
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
    None
}
