//! Everything about a case that can be known, and be wrong, before anything is spent on it.

use std::time::Duration;

use everdict_contracts::{CaseJob, ExecutionManifest, Fault};
use everdict_exec::HostEnv;
use everdict_graders::Gradebook;
use everdict_topology::case_container::CaseSpec;

use crate::context::CaseContext;
use crate::harness::Harness;
use crate::span::own_run_id;
use crate::world;

/// An installer may take ten minutes even for a case that is quick itself.
const MIN_SETUP_LIMIT: Duration = Duration::from_secs(600);

/// A case that may run.
#[derive(Debug)]
pub(super) struct CasePlan {
    pub(super) manifest: ExecutionManifest,
    /// The container to run in; a host process when there is none.
    pub(super) container: Option<CaseSpec>,
    pub(super) run_id: String,
    pub(super) harness: Harness,
    pub(super) gradebook: Gradebook,
    /// For the agent.
    pub(super) timeout: Duration,
    /// For each setup step.
    pub(super) setup_limit: Duration,
}

impl CasePlan {
    pub(super) fn new(job: &CaseJob, ctx: &CaseContext) -> Result<Self, Fault> {
        let case = &job.eval_case;
        let (manifest, container) = world::admit(case, ctx)?;
        let run_id = job.run_id.as_ref().map_or_else(own_run_id, ToString::to_string);
        let harness = Harness::plan(job, &run_id, ctx)?;
        let gradebook = Gradebook::new(everdict_graders::plan(case)?);
        let timeout = agent_timeout(case.timeout_sec, &ctx.host_env)?;
        Ok(Self {
            manifest,
            container,
            run_id,
            harness,
            gradebook,
            timeout,
            setup_limit: timeout.max(MIN_SETUP_LIMIT),
        })
    }
}

/// The case's own limit, unless whoever runs this process set another one for all cases.
pub(crate) fn agent_timeout(case_seconds: u64, host: &HostEnv) -> Result<Duration, Fault> {
    let seconds = match host.get("EVERDICT_TIMEOUT_SEC").filter(|text| !text.is_empty()) {
        None => case_seconds,
        Some(text) => text
            .trim()
            .parse::<u32>()
            .ok()
            .filter(|seconds| *seconds > 0)
            .map(u64::from)
            .ok_or_else(|| {
                Fault::bad_request(format!(
                    "EVERDICT_TIMEOUT_SEC is `{text}`, which is no whole number of seconds above zero"
                ))
            })?,
    };
    Ok(Duration::from_secs(seconds))
}
