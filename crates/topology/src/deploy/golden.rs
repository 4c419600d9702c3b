//! Databases that are initialised beforehand.
//!
//! The first start of PostgreSQL takes two seconds, nearly all of it for making an empty database. That is done once, and
//! kept as a local image: the next topology that wants the same gets a start of a tenth of a second. The data folder is
//! moved out of the image's declared volume, which no commit would keep. Only for databases whose data nobody keeps.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bollard::models::{ContainerConfig, ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
    StopContainerOptionsBuilder,
};
use everdict_contracts::StoreKind;
use tokio_util::sync::CancellationToken;

use super::body::STEP_DOWN;
use crate::digest::short_hash;
use crate::engine::{Engine, EngineError, READ_LIMIT, REMOVE_LIMIT};
use crate::labels::{self, Kind, Owner};
use crate::plan::StorePlan;
use crate::readiness::{Blame, Probe, Wait, until_ready};

/// Repository of the prepared images; their tags are hashes of what is in them.
pub(crate) const REPOSITORY: &str = "everdict-prepared";

/// Names what a prepared image was made from, so that it goes when it is outdated.
pub(crate) const BASE_LABEL: &str = "everdict.prepared-from";

/// The data folder in a prepared image.
const DATA: &str = "/everdict/pgdata";

/// For an orderly end of the database; it takes a tenth of a second.
const STOP_SECONDS: i32 = 20;

/// For writing the image: about 40 MB.
const COMMIT_LIMIT: Duration = Duration::from_secs(60);

/// A quarter of the usual share of the processors: a case that is running comes first.
const CPU_SHARES: i64 = 256;

/// An image with an initialised database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) image: String,
}

impl Prepared {
    /// Makes the container start on the prepared data instead of an empty folder in memory.
    pub(crate) fn apply(&self, body: &mut ContainerCreateBody) {
        body.image = Some(self.image.clone());
        body.env.get_or_insert_default().push(format!("PGDATA={DATA}"));
        if let Some(host) = &mut body.host_config {
            host.tmpfs = None;
        }
    }
}

/// The prepared images of one installation on one daemon.
pub(crate) struct PreparedImages {
    engine: Engine,
    owner: Owner,
    /// Tags that are being made, or could not be.
    begun: Mutex<BTreeSet<String>>,
}

impl PreparedImages {
    pub(crate) fn new(engine: Engine, owner: Owner) -> Self {
        Self {
            engine,
            owner,
            begun: Mutex::default(),
        }
    }

    /// Finds the image that is prepared for a store, in two quick calls.
    pub(crate) async fn find(&self, plan: &StorePlan) -> Option<Prepared> {
        let image = self.tag(plan).await?;
        self.image_id(&image).await.map(|_| Prepared { image })
    }

    /// Prepares an image for a store that could use one and has none. Meant for the background.
    pub(crate) async fn prepare(&self, plan: &StorePlan, cancel: &CancellationToken) {
        let Some(tag) = self.tag(plan).await else { return };
        if self.image_id(&tag).await.is_some() || !self.begin(&tag) {
            return;
        }
        if let Err(error) = self.make(plan, &tag, cancel).await {
            tracing::warn!(image = %plan.image, %error, "no database could be prepared");
            return;
        }
        self.remove_outdated(plan, &tag).await;
    }

    fn begin(&self, tag: &str) -> bool {
        self.begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(tag.to_owned())
    }

    /// The tag of the image that fits a store exactly: same image, environment and settings.
    async fn tag(&self, plan: &StorePlan) -> Option<String> {
        if plan.kind != StoreKind::Postgres || plan.tmpfs.is_empty() {
            return None;
        }
        let base = self.image_id(&plan.image).await?;
        let env = plan.env.to_engine();
        let parts: Vec<&str> = [self.owner.install.as_str(), base.as_str(), DATA]
            .into_iter()
            .chain(env.iter().map(String::as_str))
            .chain(plan.cmd.iter().map(String::as_str))
            .collect();
        Some(format!("{REPOSITORY}:{}", short_hash(&parts, 24)))
    }

    async fn image_id(&self, image: &str) -> Option<String> {
        let call = self.engine.docker().inspect_image(image);
        self.engine
            .call("look for an image", READ_LIMIT, call)
            .await
            .ok()?
            .id
    }

    async fn make(&self, plan: &StorePlan, tag: &str, cancel: &CancellationToken) -> Result<(), String> {
        let name = format!("{}-{}", REPOSITORY, tag.rsplit(':').next().unwrap_or_default());
        let words = |error: EngineError| error.to_string();
        let id = self
            .engine
            .create_container(&name, self.body(plan))
            .await
            .map_err(words)?;
        let made = self.initialise_and_keep(plan, &id, tag, cancel).await;
        let removed = self.engine.remove_container(&id).await.map_err(words);
        made.and(removed)
    }

    async fn initialise_and_keep(
        &self,
        plan: &StorePlan,
        id: &str,
        tag: &str,
        cancel: &CancellationToken,
    ) -> Result<(), String> {
        let words = |error: EngineError| error.to_string();
        self.engine.start_container(id).await.map_err(words)?;
        let user = plan.env.get("POSTGRES_USER").unwrap_or("postgres");
        let argv = ["pg_isready", "-h", "127.0.0.1", "-U", user]
            .map(str::to_owned)
            .to_vec();
        until_ready(&Wait {
            engine: &self.engine,
            container: id,
            what: "the database that is being prepared",
            probe: &Probe::Exec { argv },
            blame: Blame::Machine,
            may_finish: false,
            budget: plan.budget.timeout,
            interval: plan.budget.interval,
            cancel,
        })
        .await
        .map_err(|error| error.to_string())?;
        let options = StopContainerOptionsBuilder::default().t(STOP_SECONDS).build();
        let stop = self.engine.docker().stop_container(id, Some(options));
        self.engine
            .call("stop a container", REMOVE_LIMIT, stop)
            .await
            .map_err(words)?;
        self.keep(plan, id, tag).await.map_err(words)
    }

    fn body(&self, plan: &StorePlan) -> ContainerCreateBody {
        let labels = labels::of_kind(&self.owner.labels(), Kind::Store, None);
        let mut body = ContainerCreateBody {
            image: Some(plan.image.clone()),
            env: Some(plan.env.to_engine()),
            cmd: Some(plan.cmd.clone()),
            labels: Some(labels.into_iter().collect()),
            host_config: Some(HostConfig {
                network_mode: Some("none".to_owned()),
                memory: Some(plan.limits.memory_bytes),
                memory_swap: Some(plan.limits.memory_bytes),
                pids_limit: Some(plan.limits.pids),
                cpu_shares: Some(CPU_SHARES),
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(STEP_DOWN.iter().map(ToString::to_string).collect()),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        Prepared {
            image: plan.image.clone(),
        }
        .apply(&mut body);
        body
    }

    /// Commits the container. What the image says of itself is replaced: the maker's owner is nobody's business later.
    async fn keep(&self, plan: &StorePlan, id: &str, tag: &str) -> Result<(), EngineError> {
        let (repository, version) = tag.rsplit_once(':').unwrap_or((tag, "latest"));
        let options = CommitContainerOptionsBuilder::default()
            .container(id)
            .repo(repository)
            .tag(version)
            .build();
        let labels = HashMap::from([
            (labels::INSTALL.to_owned(), self.owner.install.clone()),
            (BASE_LABEL.to_owned(), plan.image.clone()),
        ]);
        let config = ContainerConfig {
            labels: Some(labels),
            ..ContainerConfig::default()
        };
        let call = self.engine.docker().commit_container(options, config);
        self.engine
            .call("write an image", COMMIT_LIMIT, call)
            .await
            .map(drop)
    }

    /// Removes what was prepared from the same image reference before it, or its settings, changed.
    async fn remove_outdated(&self, plan: &StorePlan, tag: &str) {
        for old in self.list(Some(&plan.image)).await {
            if old != tag {
                self.remove(&old).await;
            }
        }
    }

    /// The tags of all prepared images, or of those that were made from one reference.
    pub(crate) async fn list(&self, base: Option<&str>) -> Vec<String> {
        let from = base.map_or_else(|| BASE_LABEL.to_owned(), |base| format!("{BASE_LABEL}={base}"));
        let ours = format!("{}={}", labels::INSTALL, self.owner.install);
        let filters = HashMap::from([("label", vec![from, ours])]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let call = self.engine.docker().list_images(Some(options));
        let images = self
            .engine
            .call("list images", READ_LIMIT, call)
            .await
            .unwrap_or_default();
        images.into_iter().flat_map(|image| image.repo_tags).collect()
    }

    /// Removes a prepared image, unless a container is made of it.
    pub(crate) async fn remove(&self, tag: &str) {
        let options = RemoveImageOptionsBuilder::default().build();
        let call = self.engine.docker().remove_image(tag, Some(options), None);
        if let Err(error) = self.engine.call("remove an image", REMOVE_LIMIT, call).await {
            tracing::debug!(image = %tag, %error, "a prepared image stays for now");
        }
    }
}
