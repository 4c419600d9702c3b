//! Our way: the runtime that cases use, in an installation of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{ListImagesOptionsBuilder, RemoveImageOptionsBuilder};
use everdict_contracts::{ServiceHarness, decode};
use everdict_topology::digest::DigestKey;
use everdict_topology::engine::Engine;
use everdict_topology::labels::INSTALL;
use everdict_topology::process::this_owner;
use everdict_topology::runtime::{CaseScope, DockerTopologyRuntime, RuntimeOptions, TopologyRuntime};
use everdict_topology::stores::StockImages;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{BROWSER, FRONT_DOOR, POSTGRES, REDIS, Round, since};
use crate::ToolResult;

/// The prepared database is made in the background after the first topology stands.
const PREPARE_DEADLINE: Duration = Duration::from_secs(120);

pub(super) struct Ours {
    runtime: Arc<DockerTopologyRuntime>,
    docker: Docker,
    install: String,
    _state: tempfile::TempDir,
}

impl Ours {
    pub(super) async fn open(address: &str, install: &str) -> ToolResult<Self> {
        let state = tempfile::tempdir()?;
        let owner = this_owner(install.to_owned(), "bench");
        let mut options = RuntimeOptions::new(state.path(), owner, DigestKey::new([7; 32]));
        options.images = StockImages {
            postgres: POSTGRES.to_owned(),
            redis: REDIS.to_owned(),
            browser: BROWSER.to_owned(),
            ..StockImages::default()
        };
        let runtime = DockerTopologyRuntime::open(Engine::connect(address).await?, options).await?;
        let docker = Docker::connect_with_unix(address, 60, bollard::API_DEFAULT_VERSION)?
            .negotiate_version()
            .await?;
        Ok(Self {
            runtime: Arc::new(runtime),
            docker,
            install: install.to_owned(),
            _state: state,
        })
    }

    /// Deploys once, so that the database image is prepared, and returns its tag.
    pub(super) async fn prepare(&self) -> ToolResult<String> {
        self.round(usize::MAX).await?;
        let end = Instant::now() + PREPARE_DEADLINE;
        loop {
            if let Some(tag) = self.images().await.into_iter().next() {
                return Ok(tag);
            }
            if Instant::now() > end {
                return Err("no database image was prepared".into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Each round has a harness version of its own, so that it starts cold.
    pub(super) async fn round(&self, n: usize) -> ToolResult<Round> {
        let spec = harness(n)?;
        let scope = scope(n);
        let start = Instant::now();
        let lease = self.runtime.ensure_topology(&spec, &scope).await?;
        let cold = since(start);
        let start = Instant::now();
        let again = self.runtime.ensure_topology(&spec, &scope).await?;
        let warm = since(start);
        again.release();
        let start = Instant::now();
        let browser = self.runtime.provision_browser(&lease, &scope).await?;
        let browser_ms = since(start);
        let start = Instant::now();
        let disposed = browser.dispose().await;
        let dispose = since(start);
        disposed.map_err(|debt| format!("the browser stays: {debt:?}"))?;
        let name = lease.plan().name.clone();
        lease.release();
        if !self.runtime.teardown(&name).await {
            return Err(format!("{name} could not be taken down").into());
        }
        self.runtime.settle().await;
        Ok(Round {
            cold,
            warm: Some(warm),
            browser: browser_ms,
            dispose,
        })
    }

    async fn images(&self) -> Vec<String> {
        let filters = HashMap::from([("label", vec![format!("{INSTALL}={}", self.install)])]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let images = self.docker.list_images(Some(options)).await.unwrap_or_default();
        images.into_iter().flat_map(|image| image.repo_tags).collect()
    }

    /// Takes down what this installation made, the prepared image included.
    pub(super) async fn remove_all(&self) {
        self.runtime.shut_down().await;
        for image in self.images().await {
            let options = RemoveImageOptionsBuilder::default().force(true).build();
            let _ = self.docker.remove_image(&image, Some(options), None).await;
        }
    }
}

fn harness(n: usize) -> ToolResult<ServiceHarness> {
    let spec = json!({
        "id": "bench",
        "version": format!("1.0.{n}"),
        "services": [{"name": "web", "image": FRONT_DOOR, "port": 8080}],
        "dependencies": [
            {"store": "postgres", "role": "db", "isolateBy": "schema"},
            {"store": "redis", "role": "cache", "isolateBy": "key-prefix"},
        ],
        "target": {"kind": "browser", "engine": "chromium"},
        "frontDoor": {"service": "web", "submit": "POST /runs"},
        "traceSource": {"kind": "otel", "endpoint": "http://127.0.0.1:1"},
    });
    Ok(decode(spec)?)
}

fn scope(n: usize) -> CaseScope {
    CaseScope {
        tenant: "bench".to_owned(),
        run_id: format!("bench-{n}"),
        attempt: format!("bench-{n}.1"),
        progress: Arc::new(|_: &str| {}),
        cancel: CancellationToken::new(),
        deadline: None,
        pins: BTreeMap::new(),
        credentials: Vec::new(),
        network: everdict_topology::egress::CaseNetwork::default(),
    }
}
