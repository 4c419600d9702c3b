//! A daemon, a registry and an installation that nobody else knows.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bollard::models::EventMessage;
use bollard::query_parameters::EventsOptionsBuilder;
use everdict_contracts::ServiceHarness;
use everdict_testkit::{Registry, RegistryImage};
use everdict_topology::digest::DigestKey;
use everdict_topology::engine::Engine;
use everdict_topology::process::this_owner;
use everdict_topology::runtime::{CaseScope, DockerTopologyRuntime, RuntimeOptions};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::engine::{PrivateEngine, loopback_up};
use crate::program::{front_door, program};
use crate::world::skip;

use crate::case::{harness_of, scope_of};

/// One test's own machine, so to speak.
pub struct PrivateWorld {
    pub daemon: PrivateEngine,
    pub engine: Engine,
    pub docker: bollard::Docker,
    pub registry: Registry,
    pub state: tempfile::TempDir,
    pub lines: Arc<Mutex<Vec<String>>>,
}

/// Runs a test beside a daemon that was started with these flags.
pub fn in_private_world<F: Future<Output = ()>>(
    test: &str,
    flags: &[&str],
    body: impl FnOnce(PrivateWorld) -> F + Send,
) {
    in_prepared_world(test, flags, || {}, body);
}

/// The same; `before` runs in the daemon's network before the daemon does, and what it made goes when the daemon is up.
pub fn in_prepared_world<B, F: Future<Output = ()>>(
    test: &str,
    flags: &[&str],
    before: impl FnOnce() -> B + Send,
    body: impl FnOnce(PrivateWorld) -> F + Send,
) {
    let daemon = match program().map(drop).and_then(|()| PrivateEngine::prepare(flags)) {
        Ok(daemon) => daemon,
        Err(why) => return skip(test, &why),
    };
    let enter = daemon.entrance();
    // A thread of its own: whoever called goes on in the machine's network.
    let thread = || {
        enter();
        loopback_up();
        let before = before();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all().on_thread_start(enter);
        runtime.build().unwrap().block_on(async {
            let world = PrivateWorld::open(daemon, before).await;
            body(world).await;
        });
    };
    let result = std::thread::scope(|scope| scope.spawn(thread).join());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

impl PrivateWorld {
    async fn open<B>(daemon: PrivateEngine, before: B) -> Self {
        let engine = daemon.start().await;
        drop(before);
        let docker = bollard::Docker::connect_with_unix(&daemon.address(), 60, bollard::API_DEFAULT_VERSION);
        Self {
            docker: docker.unwrap().negotiate_version().await.unwrap(),
            daemon,
            engine,
            registry: Registry::start().await,
            state: tempfile::tempdir().unwrap(),
            lines: Arc::default(),
        }
    }

    /// Publishes an image, and gives out its reference.
    pub fn publish(&self, name: &str, image: &RegistryImage) -> String {
        self.registry.publish(name, "1", image);
        self.registry.reference(name, "1")
    }

    pub async fn runtime(&self) -> Arc<DockerTopologyRuntime> {
        self.runtime_on(self.engine.clone()).await
    }

    /// One that gives a removal a second, and a whole clean-up two.
    pub async fn impatient_runtime(&self) -> Arc<DockerTopologyRuntime> {
        self.runtime_on(self.engine.clone().with_removal_limit(Duration::from_secs(1)))
            .await
    }

    async fn runtime_on(&self, engine: Engine) -> Arc<DockerTopologyRuntime> {
        let owner = this_owner("install-of-the-test".to_owned(), "runner");
        let mut options = RuntimeOptions::new(self.state.path(), owner, DigestKey::new([7; 32]));
        options.prepare_databases = false;
        // Answers like a browser as far as these tests get with one.
        options.images.browser = self.publish("browser", &front_door("browser"));
        Arc::new(DockerTopologyRuntime::open(engine, options).await.unwrap())
    }

    pub fn scope(&self, run: &str) -> CaseScope {
        scope_of(run, &self.lines)
    }

    /// The job's log.
    pub fn log(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// A harness whose front door is an image of this test's own, and what `change` makes of it.
    pub fn harness(&self, change: impl FnOnce(&mut Value)) -> ServiceHarness {
        let web = self.publish("web", &front_door("web"));
        harness_of(&web, change)
    }

    /// All that the daemon tells of what has happened so far.
    pub async fn events(&self) -> Vec<EventMessage> {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        // With an end that is past, the stream ends.
        let now = format!("{}.{:09}", now.as_secs(), now.subsec_nanos());
        let options = EventsOptionsBuilder::default().since("0").until(&now).build();
        self.docker
            .events(Some(options))
            .map(Result::unwrap)
            .collect()
            .await
    }

    /// All containers, networks and volumes that the daemon has, whoever made them.
    pub async fn everything(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let containers = self.engine.list_containers(&[]).await.unwrap();
        names.extend(containers.into_iter().map(|row| row.name));
        let networks = self.engine.list_networks(&[]).await.unwrap();
        // The daemon's own three.
        let own = ["bridge", "host", "none"];
        let made = networks
            .into_iter()
            .filter(|row| !own.contains(&row.name.as_str()));
        names.extend(made.map(|row| row.name));
        let volumes = self.engine.list_volumes(&[]).await.unwrap();
        names.extend(volumes.into_iter().map(|row| row.name));
        names.sort();
        names
    }
}

/// Looks until `condition` holds; a test that waits for longer has failed.
pub async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    crate::world::eventually(what, Duration::from_secs(20), condition).await;
}

/// Runs `work` and tells how long it took.
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let begin = Instant::now();
    let value = work.await;
    (value, begin.elapsed())
}
