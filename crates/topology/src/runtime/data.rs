//! The data of a case: what is seeded into the stores, read back, and taken away.

use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, ServiceHarness, StoreFixture};

use super::{CaseScope, TopologyLease};
use crate::engine::{Engine, EngineError};
use crate::stores::{StoreExec, StoreQuery, drops, kind_name, plan_seeds, read};

/// For seeding one store: a dump of a few hundred megabytes.
const SEED_LIMIT: Duration = Duration::from_secs(300);

/// For dropping a slice, or reading from one: a statement on data that fits a fixture.
const STATEMENT_LIMIT: Duration = Duration::from_secs(60);

/// Runs commands in the stores of one topology on behalf of a case.
pub(super) struct Stores<'a> {
    pub(super) engine: &'a Engine,
    pub(super) lease: &'a TopologyLease,
    pub(super) scope: &'a CaseScope,
}

impl Stores<'_> {
    pub(super) async fn seed(&self, spec: &ServiceHarness, fixtures: &[StoreFixture]) -> Result<(), Fault> {
        let plans = plan_seeds(spec, fixtures, &self.scope.run_id)?;
        // One after the other: a later fixture may build on an earlier one.
        for plan in &plans {
            self.run(&plan.exec()?, SEED_LIMIT).await?;
        }
        Ok(())
    }

    pub(super) async fn read(&self, spec: &ServiceHarness, query: &StoreQuery<'_>) -> Result<String, Fault> {
        self.run(&read(spec, &self.scope.run_id, query)?, STATEMENT_LIMIT)
            .await
    }

    pub(super) async fn drop_slices(&self, spec: &ServiceHarness) -> Result<(), Fault> {
        let drops = drops(spec, &self.scope.run_id);
        let runs = drops.iter().map(|exec| self.run(exec, STATEMENT_LIMIT));
        futures_util::future::try_join_all(runs).await.map(drop)
    }

    async fn run(&self, exec: &StoreExec, limit: Duration) -> Result<String, Fault> {
        let name = kind_name(exec.kind);
        let Some(container) = self.lease.containers().get(name).map(ToString::to_string) else {
            return Err(Fault::internal(format!("the topology has no {name}")));
        };
        let outcome = self
            .scope
            .bounded(self.engine.exec(&container, exec.request(limit)))
            .await?;
        match outcome {
            Ok(outcome) => exec.judge(&outcome),
            Err(error) => Err(self.failed(&container, name, error).await),
        }
    }

    /// A store that has ended in the meantime explains more than the call that failed on it.
    async fn failed(&self, container: &str, name: &str, error: EngineError) -> Fault {
        let text = match self.engine.inspect_container(container).await {
            Ok(view) if view.oom_killed => format!("store {name} ran out of memory: {error}"),
            _ => format!("store {name}: {error}"),
        };
        Fault::new(ErrorCode::UpstreamError, text)
    }
}
