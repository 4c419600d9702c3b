//! A runtime on a fake daemon.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everdict_contracts::{ServiceHarness, decode};
use everdict_testkit::fake_engine::{FakeEngine, FakeImage};
use everdict_topology::digest::DigestKey;
use everdict_topology::engine::Engine;
use everdict_topology::plan::ReadinessPlan;
use everdict_topology::process::this_owner;
use everdict_topology::runtime::{CaseScope, DockerTopologyRuntime, RuntimeOptions};
use everdict_topology::stores::StockImages;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub const WEB: &str = "fake/web:1";
pub const POSTGRES: &str = "fake/postgres:16";
pub const REDIS: &str = "fake/redis:7";
pub const BROWSER: &str = "fake/browser:1";

/// Long enough on a busy machine for what takes milliseconds.
pub const SOON: Duration = Duration::from_secs(10);

/// One test's daemon and installation.
pub struct World {
    pub fake: FakeEngine,
    pub state: tempfile::TempDir,
    pub install: String,
    pub lines: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// A daemon that has every image.
    pub fn new() -> Self {
        let world = Self::without_images();
        for image in stock() {
            world.fake.load(image);
        }
        world
    }

    pub fn without_images() -> Self {
        Self {
            fake: FakeEngine::start(),
            state: tempfile::tempdir().unwrap(),
            install: "install-of-the-test".to_owned(),
            lines: Arc::default(),
        }
    }

    pub async fn engine(&self) -> Engine {
        Engine::connect(&self.fake.address()).await.unwrap()
    }

    pub async fn runtime(&self) -> Arc<DockerTopologyRuntime> {
        self.runtime_with(|_| {}).await
    }

    /// One that gives a removal a second, and a whole clean-up two.
    pub async fn impatient_runtime(&self) -> Arc<DockerTopologyRuntime> {
        let engine = self.engine().await.with_removal_limit(Duration::from_secs(1));
        self.runtime_on(engine, |_| {}).await
    }

    pub async fn runtime_with(&self, change: impl FnOnce(&mut RuntimeOptions)) -> Arc<DockerTopologyRuntime> {
        self.runtime_on(self.engine().await, change).await
    }

    pub async fn runtime_on(
        &self,
        engine: Engine,
        change: impl FnOnce(&mut RuntimeOptions),
    ) -> Arc<DockerTopologyRuntime> {
        let owner = this_owner(self.install.clone(), "runner");
        let mut options = RuntimeOptions::new(self.state.path(), owner, DigestKey::new([7; 32]));
        options.images = StockImages {
            postgres: POSTGRES.to_owned(),
            redis: REDIS.to_owned(),
            minio: "fake/minio:1".to_owned(),
            browser: BROWSER.to_owned(),
        };
        options.readiness = ReadinessPlan {
            timeout: Duration::from_secs(60),
            interval: Duration::from_secs(1),
        };
        // Its maker would show up among the containers that tests count.
        options.prepare_databases = false;
        change(&mut options);
        Arc::new(DockerTopologyRuntime::open(engine, options).await.unwrap())
    }

    pub fn scope(&self, run: &str) -> CaseScope {
        let lines = Arc::clone(&self.lines);
        CaseScope {
            tenant: "acme".to_owned(),
            run_id: run.to_owned(),
            attempt: format!("{run}.1"),
            progress: Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned())),
            cancel: CancellationToken::new(),
            deadline: None,
            pins: BTreeMap::new(),
            credentials: Vec::new(),
            network: everdict_topology::egress::CaseNetwork::default(),
        }
    }

    pub fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// Containers, networks and volumes that are there.
    pub fn everything(&self) -> Vec<String> {
        [self.fake.containers(), self.fake.networks(), self.fake.volumes()].concat()
    }

    /// Waits until nothing is left of what a runtime made.
    pub async fn until_empty(&self, limit: Duration) {
        self.fake
            .until("everything is gone", limit, |fake| {
                fake.containers().is_empty() && fake.networks().is_empty() && fake.volumes().is_empty()
            })
            .await;
    }
}

/// The images that a full harness needs.
pub fn stock() -> Vec<FakeImage> {
    vec![
        FakeImage::web(WEB),
        FakeImage::postgres(POSTGRES),
        FakeImage::redis(REDIS),
        FakeImage::browser(BROWSER),
    ]
}

/// A harness with one front door, and what `change` makes of it.
pub fn harness(change: impl FnOnce(&mut Value)) -> ServiceHarness {
    let mut spec = json!({
        "id": "shop",
        "version": "1.0.0",
        "services": [{"name": "web", "image": WEB, "port": 8080}],
        "frontDoor": {"service": "web", "submit": "POST /runs"},
        "traceSource": {"kind": "otel", "endpoint": "http://127.0.0.1:1"}
    });
    change(&mut spec);
    decode::<ServiceHarness>(spec).unwrap()
}

/// The same with PostgreSQL, Redis and a browser.
pub fn full_harness() -> ServiceHarness {
    harness(|spec| {
        spec["dependencies"] = json!([
            {"store": "postgres", "role": "db", "isolateBy": "schema"},
            {"store": "redis", "role": "cache", "isolateBy": "key-prefix"}
        ]);
        spec["target"] = json!({"kind": "browser", "engine": "chromium"});
    })
}

/// Runs `work` and tells how long it took.
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let begin = Instant::now();
    let value = work.await;
    (value, begin.elapsed())
}

/// Reports a test that cannot run here.
pub fn skip(test: &str, why: &str) {
    use std::io::Write as _;
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
