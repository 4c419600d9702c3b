//! The one way from a topology's containers to this machine: the port on which a case waits for its call.

use std::time::Duration;

use futures_util::future::join_all;

use super::{CaseScope, DockerTopologyRuntime, TopologyLease};
use crate::deploy::install;
use crate::engine::{ContainerView, EngineError};
use crate::labels::{INSTALL, KIND, Kind, RUN, TOPOLOGY};

impl DockerTopologyRuntime {
    /// Lets the topology's services, and the run's own browser, reach a port of this machine. It ends by itself after
    /// `limit`, should nobody be left to close it.
    ///
    /// # Errors
    /// Any [`EngineError`] of finding the containers.
    pub async fn open_to_callbacks(
        &self,
        lease: &TopologyLease,
        scope: &CaseScope,
        port: u16,
        limit: Duration,
    ) -> Result<(), EngineError> {
        let callers = self.callers(lease, scope).await?;
        join_all(
            callers
                .iter()
                .map(|view| self.engine().open_port(view, port, limit)),
        )
        .await;
        Ok(())
    }

    /// Closes the port again.
    ///
    /// # Errors
    /// Any [`EngineError`] of finding the containers.
    pub async fn close_to_callbacks(
        &self,
        lease: &TopologyLease,
        scope: &CaseScope,
        port: u16,
    ) -> Result<(), EngineError> {
        let callers = self.callers(lease, scope).await?;
        join_all(callers.iter().map(|view| self.engine().close_port(view, port))).await;
        Ok(())
    }

    async fn callers(
        &self,
        lease: &TopologyLease,
        scope: &CaseScope,
    ) -> Result<Vec<ContainerView>, EngineError> {
        let plan = lease.plan();
        let labels = [
            format!("{INSTALL}={}", install(plan)),
            format!("{TOPOLOGY}={}", plan.name),
        ];
        let rows = self.engine().list_containers(&labels).await?;
        let calls = rows
            .iter()
            .filter(
                |row| match row.labels.get(KIND).and_then(|kind| Kind::parse(kind)) {
                    Some(Kind::Service) => true,
                    Some(Kind::Browser) => row.labels.get(RUN) == Some(&scope.run_id),
                    _ => false,
                },
            )
            .map(|row| self.engine().inspect_container(&row.id));
        // One that has gone in the meantime calls nobody.
        Ok(join_all(calls).await.into_iter().filter_map(Result::ok).collect())
    }
}
