//! A runtime of its own installation id, and a daemon that is left as it was found.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bollard::query_parameters::ListVolumesOptions;
use everdict_contracts::ServiceHarness;
use everdict_topology::digest::DigestKey;
use everdict_topology::egress::EgressMode;
use everdict_topology::engine::Engine;
use everdict_topology::labels::{INSTALL, Owner};
use everdict_topology::process::this_owner;
use everdict_topology::runtime::{CaseScope, DockerTopologyRuntime, RuntimeOptions};
use everdict_topology::stores::StockImages;
use futures_util::FutureExt as _;
use serde_json::Value;

use crate::case::{full_harness_of, harness_of, scope_of};
pub use crate::skip::skip;

/// The images that stand in for the default ones, and must be there.
pub const FRONT_DOOR: &str = "everdict/front-door:dev";
const POSTGRES: &str = "postgres:16-alpine";
const REDIS: &str = "redis:7-alpine";
const MINIO: &str = "minio/minio:latest";
const BROWSER: &str = "chromedp/headless-shell:latest";

/// Where the daemon is expected.
pub const DAEMON: &str = "unix:///var/run/docker.sock";

/// One test's installation.
pub struct World {
    pub engine: Engine,
    pub docker: bollard::Docker,
    pub state: tempfile::TempDir,
    pub install: String,
    pub lines: Arc<Mutex<Vec<String>>>,
    key: [u8; 32],
}

/// Runs a test in a world of its own and removes what it made, also when it fails.
pub async fn in_world<F: Future<Output = ()>>(test: &str, body: impl FnOnce(Arc<World>) -> F) {
    in_world_with(test, EgressMode::Fence, body).await;
}

/// The same where egress rules are put up in another way.
pub async fn in_world_with<F: Future<Output = ()>>(
    test: &str,
    egress: EgressMode,
    body: impl FnOnce(Arc<World>) -> F,
) {
    let Some(mut world) = World::open(test).await else {
        return;
    };
    world.engine = world.engine.with_egress(egress);
    let world = Arc::new(world);
    let result = AssertUnwindSafe(body(Arc::clone(&world))).catch_unwind().await;
    world.remove_all().await;
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

impl World {
    async fn open(test: &str) -> Option<Self> {
        let engine = match Engine::connect(DAEMON).await {
            Ok(engine) => engine,
            Err(error) => {
                skip(test, &error.to_string());
                return None;
            }
        };
        let docker = bollard::Docker::connect_with_unix(DAEMON, 60, bollard::API_DEFAULT_VERSION).unwrap();
        let docker = docker.negotiate_version().await.unwrap();
        for image in [FRONT_DOOR, POSTGRES, REDIS, MINIO, BROWSER] {
            if docker.inspect_image(image).await.is_err() {
                skip(test, &format!("image {image} isn't there"));
                return None;
            }
        }
        let install = format!("test-{test}-{}-{}", std::process::id(), nanos());
        Some(Self::with(engine, docker, install))
    }

    fn with(engine: Engine, docker: bollard::Docker, install: String) -> Self {
        let key = install
            .bytes()
            .cycle()
            .take(32)
            .collect::<Vec<u8>>()
            .try_into()
            .unwrap();
        Self {
            engine,
            docker,
            state: tempfile::tempdir().unwrap(),
            install,
            lines: Arc::default(),
            key,
        }
    }

    /// The world of another process' test: only its installation is the same.
    pub async fn join(install: String, egress: EgressMode) -> Self {
        let engine = Engine::connect(DAEMON).await.unwrap().with_egress(egress);
        let docker = bollard::Docker::connect_with_unix(DAEMON, 60, bollard::API_DEFAULT_VERSION).unwrap();
        Self::with(engine, docker.negotiate_version().await.unwrap(), install)
    }

    /// Tells this world's images and containers from those of others.
    pub fn tag(&self) -> String {
        self.install.rsplit('-').next().unwrap().to_owned()
    }

    /// A runtime of this installation, as another process would have it when `owner` is another one.
    pub async fn runtime_of(&self, owner: Owner) -> Arc<DockerTopologyRuntime> {
        self.runtime_in(self.state.path(), owner, false).await
    }

    /// A runtime that prepares databases for the next topology.
    pub async fn preparing_runtime(&self) -> Arc<DockerTopologyRuntime> {
        self.runtime_in(
            self.state.path(),
            this_owner(self.install.clone(), "runner"),
            true,
        )
        .await
    }

    /// The same with another state folder than this world's own.
    pub async fn runtime_in(&self, state: &Path, owner: Owner, prepare: bool) -> Arc<DockerTopologyRuntime> {
        self.runtime_over(self.engine.clone(), state, owner, prepare)
            .await
    }

    /// The same over another way to the daemon.
    pub async fn runtime_over(
        &self,
        engine: Engine,
        state: &Path,
        owner: Owner,
        prepare: bool,
    ) -> Arc<DockerTopologyRuntime> {
        let mut options = RuntimeOptions::new(state, owner, DigestKey::new(self.key));
        options.images = StockImages {
            postgres: POSTGRES.to_owned(),
            redis: REDIS.to_owned(),
            minio: MINIO.to_owned(),
            browser: BROWSER.to_owned(),
        };
        // Its maker would show up among the containers that tests count.
        options.prepare_databases = prepare;
        Arc::new(DockerTopologyRuntime::open(engine, options).await.unwrap())
    }

    pub async fn runtime(&self) -> Arc<DockerTopologyRuntime> {
        self.runtime_of(this_owner(self.install.clone(), "runner")).await
    }

    pub fn scope(&self, run: &str) -> CaseScope {
        scope_of(run, &self.lines)
    }

    pub fn label(&self) -> String {
        format!("{INSTALL}={}", self.install)
    }

    /// Names of all containers, networks and volumes of this installation.
    pub async fn ours(&self) -> Vec<String> {
        let label = [self.label()];
        let mut names: Vec<String> = Vec::new();
        names.extend(
            self.engine
                .list_containers(&label)
                .await
                .unwrap()
                .into_iter()
                .map(|row| row.name),
        );
        names.extend(
            self.engine
                .list_networks(&label)
                .await
                .unwrap()
                .into_iter()
                .map(|row| row.name),
        );
        names.extend(
            self.engine
                .list_volumes(&label)
                .await
                .unwrap()
                .into_iter()
                .map(|row| row.name),
        );
        names
    }

    /// Id and image of each container of this installation, by name.
    pub async fn container_ids(&self) -> BTreeMap<String, String> {
        let rows = self.engine.list_containers(&[self.label()]).await.unwrap();
        rows.into_iter().map(|row| (row.name, row.id)).collect()
    }

    /// The anonymous volumes of this installation's containers.
    pub async fn mounted_volumes(&self) -> Vec<String> {
        let mut volumes = Vec::new();
        for id in self.container_ids().await.values() {
            let view = self.docker.inspect_container(id, None).await.unwrap();
            volumes.extend(
                view.mounts
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(|mount| mount.name),
            );
        }
        volumes
    }

    pub async fn volume_names(&self) -> Vec<String> {
        let list = self
            .docker
            .list_volumes(None::<ListVolumesOptions>)
            .await
            .unwrap();
        list.volumes
            .unwrap_or_default()
            .into_iter()
            .map(|volume| volume.name)
            .collect()
    }

    /// Tags of the images that this installation has made.
    pub async fn images(&self) -> Vec<String> {
        let filters = std::collections::HashMap::from([("label", vec![self.label()])]);
        let options = bollard::query_parameters::ListImagesOptionsBuilder::default()
            .filters(&filters)
            .build();
        let images = self.docker.list_images(Some(options)).await.unwrap_or_default();
        images.into_iter().flat_map(|image| image.repo_tags).collect()
    }

    async fn remove_all(&self) {
        let label = [self.label()];
        for row in self.engine.list_containers(&label).await.unwrap_or_default() {
            let _ = self.engine.remove_container(&row.id).await;
        }
        for row in self.engine.list_networks(&label).await.unwrap_or_default() {
            let _ = self.engine.remove_network(&row.id).await;
        }
        for row in self.engine.list_volumes(&label).await.unwrap_or_default() {
            let _ = self.engine.remove_volume(&row.name).await;
        }
        for image in self.images().await {
            let options = bollard::query_parameters::RemoveImageOptionsBuilder::default().build();
            let _ = self.docker.remove_image(&image, Some(options), None).await;
        }
    }
}

/// A harness with one front door, and what `change` makes of it.
pub fn harness(change: impl FnOnce(&mut Value)) -> ServiceHarness {
    harness_of(FRONT_DOOR, change)
}

/// The same with PostgreSQL, Redis and a browser.
pub fn full_harness() -> ServiceHarness {
    full_harness_of(FRONT_DOOR)
}

/// Looks until `condition` holds.
pub async fn eventually<F: Future<Output = bool>>(what: &str, limit: Duration, condition: impl Fn() -> F) {
    let end = Instant::now() + limit;
    while !condition().await {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn nanos() -> u128 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos()
}
