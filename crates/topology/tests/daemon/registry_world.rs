//! A registry beside the machine's daemon, and an end to the images that were pulled from it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use everdict_contracts::{RegistryAuth, ServiceHarness, decode};
use everdict_testkit::Registry;
use everdict_testkit::registry::{Transfer, TransferEnd};
use everdict_topology::images::{ImageOptions, Images, PullWatcher};
use everdict_topology::plan::ImageNeed;
use futures_util::FutureExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::program::program;
use crate::world::{World, harness, in_world, skip};

/// A test's installation and its registry.
#[derive(Clone)]
pub struct RegistryWorld {
    pub world: Arc<World>,
    pub registry: Arc<Registry>,
}

/// Runs a test with a registry that the daemon reaches.
pub async fn with_registry<F: Future<Output = ()>>(test: &str, body: impl FnOnce(RegistryWorld) -> F) {
    if let Err(why) = program() {
        return skip(test, &why);
    }
    in_world(test, |world| async move {
        let registry = Arc::new(Registry::start().await);
        // Only a daemon on this machine comes to this machine's loopback.
        let question = registry.reference("is/anybody", "there");
        let _ = world.docker.inspect_registry_image(&question, None).await;
        if registry.asked("is/anybody").is_empty() {
            return skip(test, "the daemon doesn't reach this machine's loopback");
        }
        let host = registry.host().to_owned();
        let case = RegistryWorld {
            world: Arc::clone(&world),
            registry,
        };
        let result = AssertUnwindSafe(body(case)).catch_unwind().await;
        remove_images(&world, &host).await;
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    })
    .await;
}

/// Removes all images that came from a host, and the containers that still have one.
async fn remove_images(world: &World, host: &str) {
    for id in world.container_ids().await.values() {
        let _ = world.engine.remove_container(id).await;
    }
    let options = bollard::query_parameters::ListImagesOptionsBuilder::default().build();
    let images = world.docker.list_images(Some(options)).await.unwrap_or_default();
    for image in images {
        let mut names = image.repo_tags.iter().chain(&image.repo_digests);
        if names.any(|name| name.starts_with(host)) {
            let force = bollard::query_parameters::RemoveImageOptionsBuilder::default()
                .force(true)
                .build();
            let _ = world.docker.remove_image(&image.id, Some(force), None).await;
        }
    }
}

impl RegistryWorld {
    /// Whether the daemon has an image.
    pub async fn has(&self, image: &str) -> bool {
        self.world.docker.inspect_image(image).await.is_ok()
    }

    /// Blobs of a repository that were sent to their end.
    pub fn sent(&self, repository: &str) -> Vec<Transfer> {
        let complete =
            |transfer: &Transfer| transfer.repository == repository && transfer.end == TransferEnd::Complete;
        self.registry.transfers().into_iter().filter(complete).collect()
    }

    pub fn log(&self) -> String {
        self.world.lines.lock().unwrap().join("\n")
    }

    /// A keeper of images with options of its own.
    pub fn keeper(&self, change: impl FnOnce(&mut ImageOptions)) -> Images {
        let mut options = ImageOptions {
            state_dir: self.world.state.path().join("images"),
            budget_bytes: None,
            refresh_after: None,
            emulates: false,
        };
        change(&mut options);
        Images::new(options)
    }

    /// Has a keeper see to an image. Gives out whether it pulled it.
    pub async fn ensure(&self, keeper: &Images, image: &str) -> bool {
        let need = ImageNeed {
            image: image.to_owned(),
            path: "image".to_owned(),
        };
        let watcher = PullWatcher {
            lines: &|_| {},
            cancel: &CancellationToken::new(),
        };
        let found = keeper.ensure(&self.world.engine, &need, &[], watcher).await;
        found.unwrap().pulled
    }
}

/// A harness whose front door is this image.
pub fn of_image(image: &str) -> ServiceHarness {
    harness(|spec| spec["services"][0]["image"] = json!(image))
}

pub fn login(host: &str, user: &str, password: &str) -> RegistryAuth {
    decode(json!({"host": host, "username": user, "password": password})).unwrap()
}
