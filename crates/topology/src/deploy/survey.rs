use std::collections::BTreeMap;

use crate::engine::{ContainerRow, Engine, EngineError, NetworkRow, RunState};
use crate::labels::{self, Kind};
use crate::plan::TopologyPlan;

/// What the daemon has of one topology.
#[derive(Debug, Clone, Default)]
pub(crate) struct Survey {
    pub(crate) containers: Vec<ContainerRow>,
    /// Oldest first. More than one is left behind by processes that raced without the lock.
    pub(crate) networks: Vec<NetworkRow>,
}

/// The labels that all objects of one topology of one installation have.
pub(crate) fn filter(install: &str, topology: &str) -> [String; 2] {
    [
        format!("{}={install}", labels::INSTALL),
        format!("{}={topology}", labels::TOPOLOGY),
    ]
}

/// The label that all objects of one installation have.
pub(crate) fn filter_install(install: &str) -> [String; 1] {
    [format!("{}={install}", labels::INSTALL)]
}

impl Survey {
    /// Looks, in two calls at once.
    pub(crate) async fn take(engine: &Engine, install: &str, topology: &str) -> Result<Self, EngineError> {
        let filter = filter(install, topology);
        let (containers, networks) =
            tokio::try_join!(engine.list_containers(&filter), engine.list_networks(&filter))?;
        let mut survey = Self { containers, networks };
        survey
            .networks
            .sort_by(|a, b| (&a.created, &a.id).cmp(&(&b.created, &b.id)));
        Ok(survey)
    }

    /// The network that the topology's containers are on, else the oldest.
    pub(crate) fn network(&self) -> Option<&NetworkRow> {
        let members = |network: &&NetworkRow| {
            self.containers
                .iter()
                .any(|container| container.addresses.contains_key(&network.id))
        };
        self.networks
            .iter()
            .find(members)
            .or_else(|| self.networks.first())
    }

    /// Stores and services that are as the plan wants them, by container name.
    pub(crate) fn intact<'s>(&'s self, plan: &TopologyPlan) -> BTreeMap<&'s str, &'s ContainerRow> {
        let digest = plan.digest.to_string();
        let network = self
            .network()
            .map(|network| network.id.as_str())
            .unwrap_or_default();
        self.containers
            .iter()
            .filter(|row| {
                let may_finish = plan
                    .services
                    .iter()
                    .any(|service| service.container == row.name && service.may_finish);
                is_member(row)
                    && row.labels.get(labels::DIGEST) == Some(&digest)
                    && (finished_well(row) && may_finish
                        || row.state == RunState::Running && row.addresses.contains_key(network))
            })
            .map(|row| (row.name.as_str(), row))
            .collect()
    }
}

/// Whether a container is a store or a service, rather than a case's own.
pub(crate) fn is_member(row: &ContainerRow) -> bool {
    let kind = row.labels.get(labels::KIND).and_then(|kind| Kind::parse(kind));
    matches!(kind, Some(Kind::Store | Kind::Service))
}

/// Whether a container has ended with code 0; the list tells it only in words.
fn finished_well(row: &ContainerRow) -> bool {
    row.state == RunState::Ended && row.status.starts_with("Exited (0)")
}
