//! Makes a topology stand: whatever of it is intact is kept, the rest is made, in parallel where the plan allows.
//!
//! One path serves the first deployment, the adoption of what another process has left or still uses, and the healing of
//! a half-dead set. The caller holds the site lock.

mod body;
mod golden;
mod member;
mod sequence;
mod survey;
mod teardown;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use everdict_contracts::Fault;
use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;

use crate::engine::{ContainerRow, Engine, EngineError, NetworkRequest};
use crate::labels::{self, Kind};
use crate::plan::{StorePlan, TopologyPlan};
use crate::runtime::Progress;

pub(crate) use body::{Common, browser as browser_body};
use golden::Prepared;
pub(crate) use golden::{BASE_LABEL, PreparedImages, REPOSITORY};
pub(crate) use member::{Member, Up};
use survey::is_member;
pub(crate) use survey::{Survey, filter, filter_install};
pub use teardown::{Debt, DebtObject};
pub(crate) use teardown::{Remover, tear_down};

/// How a topology came to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nothing was there.
    Deployed,
    /// All of it was there, made by an earlier or another process.
    Adopted,
    /// Part of it was there.
    Healed,
}

/// A topology that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) network: String,
    pub(crate) members: Vec<Up>,
    pub(crate) origin: Origin,
}

/// Where a topology is being made.
pub(crate) struct Site<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) plan: &'a TopologyPlan,
    pub(crate) network: String,
    /// Cancelled by the caller, and by the first member that fails.
    pub(crate) cancel: CancellationToken,
    pub(crate) progress: &'a Progress,
    /// Ids of the containers made so far: what a failure has to take back when others use the rest.
    made: &'a Mutex<Vec<String>>,
    prepared: Option<&'a PreparedImages>,
    in_use: bool,
    /// The log says once that egress rules are not enforced.
    told_unfenced: AtomicBool,
}

/// What a deployment works with beside its plan.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) progress: &'a Progress,
    /// Takes the ids of the containers that are made.
    pub(crate) made: &'a Mutex<Vec<String>>,
    pub(crate) prepared: Option<&'a PreparedImages>,
    /// Whether somebody uses what stands: then nothing that runs is removed, however slow it is.
    pub(crate) in_use: bool,
}

impl<'a> Site<'a> {
    /// The token is listened to, never cancelled.
    pub(crate) fn new(means: Means<'a>, plan: &'a TopologyPlan, network: &str) -> Self {
        let Means {
            engine,
            cancel,
            progress,
            made,
            prepared,
            in_use,
        } = means;
        let cancel = cancel.child_token();
        Self {
            engine,
            plan,
            network: network.to_owned(),
            cancel,
            progress,
            made,
            prepared,
            in_use,
            told_unfenced: AtomicBool::new(false),
        }
    }

    async fn prepared(&self, plan: &StorePlan) -> Option<Prepared> {
        self.prepared?.find(plan).await
    }

    pub(crate) fn created(&self, id: &str) {
        self.made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(id.to_owned());
    }

    pub(crate) fn note(&self, line: &str) {
        (self.progress)(line);
    }

    pub(crate) fn still_wanted(&self) -> Result<(), Fault> {
        if self.cancel.is_cancelled() {
            return Err(Fault::cancelled("the topology isn't wanted any more"));
        }
        Ok(())
    }
}

/// Makes the topology of `plan` stand.
///
/// Runs to its end: a call to the daemon that has been sent is waited for, so that nothing appears after a clean-up.
/// Cancelling the token ends it early, with an error. What was made stays for the caller to remove: its ids are in
/// `made`.
pub(crate) async fn stand_up(plan: &TopologyPlan, means: Means<'_>) -> Result<Standing, Fault> {
    let engine = means.engine;
    let survey = Survey::take(engine, install(plan), &plan.name)
        .await
        .map_err(EngineError::into_fault)?;
    let intact = survey.intact(plan);
    let network = match survey.network() {
        Some(network) => network.id.clone(),
        None => make_network(engine, plan).await?,
    };
    let site = Site::new(means, plan, &network);
    let kept = site.take_over_all(&intact).await?;
    site.clear(&survey, &kept).await;
    let origin = match kept.len() {
        0 => Origin::Deployed,
        count if count == plan.stores.len() + plan.services.len() => Origin::Adopted,
        _ => Origin::Healed,
    };
    if origin == Origin::Deployed {
        site.note(&format!(
            "deploying {} ({} containers)",
            plan.key,
            plan.containers().count()
        ));
    }
    make_volumes(engine, plan).await?;
    let members = site.make_missing(kept).await?;
    Ok(Standing {
        network: site.network,
        members,
        origin,
    })
}

/// The installation that a plan is for.
pub(crate) fn install(plan: &TopologyPlan) -> &str {
    plan.labels
        .get(labels::INSTALL)
        .map(String::as_str)
        .unwrap_or_default()
}

async fn make_network(engine: &Engine, plan: &TopologyPlan) -> Result<String, Fault> {
    let labels = labels::of_kind(&plan.labels, Kind::Network, None);
    let request = NetworkRequest {
        name: &plan.name,
        labels: &labels,
    };
    engine
        .create_network(&request)
        .await
        .map_err(EngineError::into_fault)
}

async fn make_volumes(engine: &Engine, plan: &TopologyPlan) -> Result<(), Fault> {
    let labels = labels::of_kind(&plan.labels, Kind::Volume, None);
    for volume in &plan.volumes {
        engine
            .create_volume(volume, &labels)
            .await
            .map_err(EngineError::into_fault)?;
    }
    Ok(())
}

impl Site<'_> {
    fn members(&self) -> impl Iterator<Item = Member<'_>> {
        self.plan
            .stores
            .iter()
            .map(Member::Store)
            .chain(self.plan.services.iter().map(Member::Service))
    }

    async fn take_over_all(
        &self,
        intact: &BTreeMap<&str, &ContainerRow>,
    ) -> Result<BTreeMap<String, Up>, Fault> {
        let looks = self.members().filter_map(|member| {
            let row = *intact.get(member.container())?;
            Some(async move { self.take_over(member, &row.id).await })
        });
        let kept = try_join_all(looks).await?.into_iter().flatten();
        Ok(kept.map(|up| (up.container.clone(), up)).collect())
    }

    /// Removes members that aren't kept, and networks that nobody is on.
    async fn clear(&self, survey: &Survey, kept: &BTreeMap<String, Up>) {
        let stale: Vec<ContainerRow> = survey
            .containers
            .iter()
            .filter(|row| is_member(row) && !kept.contains_key(&row.name))
            .cloned()
            .collect();
        let spare: Vec<_> = survey
            .networks
            .iter()
            .filter(|network| network.id != self.network)
            .cloned()
            .collect();
        let remover = Remover {
            engine: self.engine,
            install: install(self.plan),
            topology: &self.plan.name,
        };
        let mut left = remover.containers(&stale).await;
        left.extend(remover.networks(&spare).await);
        for debt in left {
            tracing::warn!(object = %debt.object, why = %debt.why, "something stale stays");
        }
    }
}
