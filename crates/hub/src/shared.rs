//! Everything the parts of a hub have in common.

use std::sync::Arc;

use everdict_contracts::{ErrorCode, Fault, JobId};
use everdict_store::{RunStatus, Store, StoreError, Write};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{self, KeyRing, Principal};
use crate::config::HubConfig;
use crate::desk::Desk;
use crate::fs_requests::FsRequests;
use crate::jobs::JobTexts;
use crate::live::LiveRuns;
use crate::mcp::Sessions;
use crate::metrics::Metrics;
use crate::oidc::SignIn;
use crate::peers::News;
use crate::queue::Effect;
use crate::roster::Roster;
use crate::{clock, report};

/// The hub's state; handlers share it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: HubConfig,
    pub(crate) store: Store,
    pub(crate) keys: KeyRing,
    pub(crate) sign_in: Option<Arc<SignIn>>,
    pub(crate) roster: Roster,
    pub(crate) desk: Desk,
    pub(crate) jobs: JobTexts,
    pub(crate) live: LiveRuns,
    pub(crate) fs: FsRequests,
    pub(crate) sessions: Sessions,
    pub(crate) metrics: Metrics,
    /// Work that must be finished even when the caller hangs up.
    pub(crate) tasks: TaskTracker,
    /// Ends long polls and streams.
    pub(crate) closing: CancellationToken,
}

/// A handle on the hub's state.
pub(crate) type Hubbed = Arc<Shared>;

impl Shared {
    /// Finds out who presents a credential. `None` when nobody known does.
    pub(crate) async fn principal(&self, credential: &str) -> Result<Option<Arc<Principal>>, StoreError> {
        let hash = auth::hash(credential);
        if credential.starts_with("rnr_") {
            let mut found = self.roster.by_token(&hash);
            // It may have been paired at another hub a moment ago.
            if found.is_none() && self.store.is_shared() {
                if let Some(row) = self.store.runner_by_token(&hash).await? {
                    self.roster.refresh(row);
                }
                found = self.roster.by_token(&hash);
            }
            return Ok(found.map(|(member, workspace)| Arc::new(Principal::Runner { member, workspace })));
        }
        if credential.starts_with("ak_") {
            return self.keys.find(&self.store, &hash).await;
        }
        Ok(None)
    }

    /// Whether a credential was that of a runner that was removed.
    pub(crate) fn was_removed(&self, credential: &str) -> bool {
        credential.starts_with("rnr_") && self.roster.was_removed(&auth::hash(credential))
    }

    /// Carries out what the queue decided, beside the call that made it decide.
    pub(crate) fn carry_out(self: &Arc<Self>, effects: Vec<Effect>) {
        for effect in effects {
            let shared = self.clone();
            self.tasks.spawn(async move {
                if let Err(error) = shared.settle(effect).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "a decision of the queue could not be stored");
                }
            });
        }
    }

    /// The same, and waits until it is done.
    pub(crate) async fn carry_out_now(self: &Arc<Self>, effects: Vec<Effect>) {
        for effect in effects {
            if let Err(error) = self.settle(effect).await {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "a decision of the queue could not be stored");
            }
        }
    }

    async fn settle(&self, effect: Effect) -> Result<(), StoreError> {
        match effect {
            // Grants were delivered by the desk.
            Effect::Granted { .. } => Ok(()),
            Effect::Requeued { job, epoch, requeues } => self.requeued(&job, epoch, requeues).await,
            Effect::NoRunner { job } => {
                let fault = Fault::new(
                    ErrorCode::UpstreamError,
                    "no runner came for this job in time: start one that can run it, or pick another runtime",
                )
                .with_data("reason", "no_runner");
                report::reject(self, &job, fault).await
            }
            Effect::Mismatch { job, runner, missing } => {
                let names: Vec<_> = missing.iter().map(|capability| capability.to_string()).collect();
                let mut fault = Fault::new(
                    ErrorCode::UpstreamError,
                    format!(
                        "the runner lacks what this job needs ({}): install it there or pick another runner",
                        names.join(", ")
                    ),
                )
                .with_data("runnerId", runner.as_str())
                .with_data("reason", "capability_mismatch")
                .with_data("missing", names);
                fault.extra.runner_id = Some(runner.into_string());
                report::reject(self, &job, fault).await
            }
        }
    }

    async fn requeued(&self, job: &JobId, epoch: u64, requeues: u32) -> Result<(), StoreError> {
        let write = Write::RequeueRun {
            id: job.to_string(),
            epoch,
            requeues,
            at: clock::now(),
        };
        self.store.write(write).await?;
        self.live.show_status(job.as_str(), RunStatus::Queued);
        Ok(())
    }

    /// Stores what a runner said about itself, if a write is due, without holding the call up.
    pub(crate) fn store_touch(self: &Arc<Self>, touch: Option<everdict_store::RunnerTouch>) {
        let Some(touch) = touch else { return };
        let shared = self.clone();
        let presence = self.roster.presence(&touch.id.as_str().into());
        let seen: Vec<_> = presence
            .map(|presence| News::Seen(Box::new(presence)))
            .into_iter()
            .collect();
        let news = self.news(&seen);
        self.tasks.spawn(async move {
            if let Err(error) = shared.store.write_telling(Write::TouchRunner(touch), news).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "a runner's presence could not be stored");
            }
        });
    }
}
