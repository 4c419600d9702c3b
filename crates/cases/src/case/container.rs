//! The container of a case that names an image.

use std::collections::BTreeMap;
use std::sync::Arc;

use everdict_contracts::{CaseJob, Fault};
use everdict_topology::case_container::CaseContainer;
use everdict_topology::egress::CaseNetwork;
use everdict_topology::runtime::CaseScope;
use uuid::Uuid;

use super::plan::CasePlan;
use crate::context::CaseContext;

/// Starts the container that the plan asks for, if it does.
///
/// # Errors
/// What [`everdict_topology::case_container::CaseContainers::start`] says.
pub(super) async fn start(
    job: &CaseJob,
    plan: &CasePlan,
    ctx: &CaseContext,
) -> Result<Option<CaseContainer>, Fault> {
    let (Some(spec), Some(containers)) = (&plan.container, &ctx.containers) else {
        return Ok(None);
    };
    let progress = Arc::clone(&ctx.progress);
    let scope = CaseScope {
        tenant: job
            .tenant
            .as_ref()
            .map_or_else(|| "default".to_owned(), ToString::to_string),
        run_id: plan.run_id.clone(),
        attempt: Uuid::now_v7().simple().to_string(),
        progress: Arc::new(move |line| progress.log(line)),
        cancel: ctx.cancel.clone(),
        deadline: None,
        pins: BTreeMap::new(),
        credentials: job.pull_credentials().to_vec(),
        // The container's spec has it.
        network: CaseNetwork::default(),
    };
    containers.start(spec, &scope).await.map(Some)
}
