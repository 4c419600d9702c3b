//! A runtime on a fake daemon.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everdict_contracts::ServiceHarness;
use everdict_testkit::fake_engine::{FakeEngine, FakeImage};
use everdict_topology::digest::DigestKey;
use everdict_topology::engine::Engine;
use everdict_topology::plan::ReadinessPlan;
use everdict_topology::process::this_owner;
use everdict_topology::runtime::{CaseScope, DockerTopologyRuntime, RuntimeOptions};
use everdict_topology::stores::StockImages;
use serde_json::Value;

use crate::case::{full_harness_of, harness_of, scope_of};
pub use crate::skip::skip;

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
        scope_of(run, &self.lines)
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
    harness_of(WEB, change)
}

/// The same with PostgreSQL, Redis and a browser.
pub fn full_harness() -> ServiceHarness {
    full_harness_of(WEB)
}

/// Runs `work` and tells how long it took.
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let begin = Instant::now();
    let value = work.await;
    (value, begin.elapsed())
}
