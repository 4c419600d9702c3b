use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::digest::DigestKey;
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
    /// Never taken down for being idle when `None`.
    pub idle_ttl: Option<Duration>,
}

impl RuntimeOptions {
    /// The defaults.
    pub fn new(state_dir: impl Into<PathBuf>, owner: Owner, digest_key: DigestKey) -> Self {
        Self {
            state_dir: state_dir.into(),
            owner,
            images: StockImages::default(),
            policy: PlanPolicy::default(),
            store_env: BTreeMap::new(),
            digest_key,
            readiness: ReadinessPlan::default(),
            idle_ttl: Some(IDLE_TTL),
        }
    }
}
