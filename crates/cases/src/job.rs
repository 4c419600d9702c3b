//! The kind branch: which way a leased job goes.

use everdict_contracts::{CaseJob, CaseResult, Fault, HarnessSpec};

use crate::case::run_case;
use crate::context::CaseContext;
use crate::secrets;
use crate::service::ServiceTopologyBackend;

/// Runs a leased job to its result.
///
/// Cancel safe only through [`CaseContext::cancel`]: cancelling it ends the call with the processes dead and the
/// scratch directory removed. Dropping the future kills the processes; the directory is then removed on the way out
/// as far as that is possible without waiting.
///
/// # Errors
/// A [`Fault`] when there is no result to score: the job is wrong (`BAD_REQUEST`), the world or the harness could not
/// be set up, the run was cancelled (`CANCELLED`). [`Fault::failure`] classifies it.
pub async fn run_leased_job(job: &CaseJob, ctx: &CaseContext) -> Result<CaseResult, Fault> {
    let ctx = &secrets::covered(job, ctx);
    match run(job, ctx).await {
        Ok(result) => secrets::cover_result(&ctx.mask, result),
        Err(fault) => Err(secrets::cover_fault(&ctx.mask, fault)),
    }
}

async fn run(job: &CaseJob, ctx: &CaseContext) -> Result<CaseResult, Fault> {
    match &job.harness_spec {
        Some(HarnessSpec::Service(service)) => match &ctx.services {
            Some(port) => Box::pin(ServiceTopologyBackend::new(port.as_ref(), ctx).run(job, service)).await,
            None => Err(Fault::bad_request(format!(
                "harnessSpec.kind: harness `{}` is a service topology, and this runner has no topology runtime to start \
                 its services with",
                service.id
            ))),
        },
        Some(HarnessSpec::Command(_) | HarnessSpec::Process(_)) | None => Box::pin(run_case(job, ctx)).await,
    }
}
