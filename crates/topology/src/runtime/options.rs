use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::digest::DigestKey;
use crate::images::{ImageOptions, Images};
use crate::labels::Owner;
use crate::plan::{PlanPolicy, ReadinessPlan};
use crate::stores::StockImages;

/// How long a topology may stand unused: the pause between two batches of one harness is shorter as a rule.
pub const IDLE_TTL: Duration = Duration::from_secs(30 * 60);

/// What a runtime is opened with.
#[derive(Clone)]
pub struct RuntimeOptions {
    /// Where locks are kept; one folder for all processes of an installation.
    pub state_dir: PathBuf,
    pub owner: Owner,
    pub images: StockImages,
    pub policy: PlanPolicy,
    /// The member's overlay for the environment of services.
    pub store_env: BTreeMap<String, String>,
    pub digest_key: DigestKey,
    /// Of stores, browsers, and of services that have none of their own.
    pub readiness: ReadinessPlan,
    /// Looks after the machine's images; shared by all runtimes of a process.
    pub keeper: Arc<Images>,
    /// Whether an initialised database is kept as a local image, 40 MB each, so that the next topology starts two seconds
    /// sooner.
    pub prepare_databases: bool,
    /// Never taken down for being idle when `None`.
    pub idle_ttl: Option<Duration>,
}

impl RuntimeOptions {
    /// The defaults: no budget for images, and tags aren't asked about again.
    pub fn new(state_dir: impl Into<PathBuf>, owner: Owner, digest_key: DigestKey) -> Self {
        let state_dir: PathBuf = state_dir.into();
        let keeper = Arc::new(Images::new(ImageOptions {
            state_dir: state_dir.clone(),
            budget_bytes: None,
            refresh_after: None,
            emulates: false,
        }));
        Self {
            state_dir,
            owner,
            images: StockImages::default(),
            policy: PlanPolicy::default(),
            store_env: BTreeMap::new(),
            digest_key,
            readiness: ReadinessPlan::default(),
            keeper,
            prepare_databases: true,
            idle_ttl: Some(IDLE_TTL),
        }
    }
}
