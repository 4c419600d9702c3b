//! The environment of a case: how it comes to be, and what is read off it at the end.

use everdict_contracts::{CaseJob, EnvSnapshot, EnvSpec, Fault, RepoSnapshot};
use everdict_exec::{Baseline, DiffRequest, SeedRequest};

use crate::recorder::Recorder;
use crate::sandbox::Sandbox;

/// An environment that is there.
#[derive(Debug)]
pub(super) enum Seeded {
    /// Nothing but the task.
    Prompt,
    /// A working tree, and what it was like before the agent.
    Repo(Baseline),
}

/// Makes the environment of a case.
///
/// # Errors
/// What [`everdict_exec::seed`] says. A case whose environment isn't there is never run, let alone scored.
pub(super) async fn seed(job: &CaseJob, sandbox: &Sandbox<'_>) -> Result<Seeded, Fault> {
    let EnvSpec::Repo(repo) = &job.eval_case.env else {
        return Ok(Seeded::Prompt);
    };
    let request = SeedRequest {
        source: &repo.source,
        dir: sandbox.scratch.work(),
        setup: repo.setup.as_deref().unwrap_or_default(),
        token: job.repo_token.as_ref(),
        env: &sandbox.env,
    };
    let baseline = everdict_exec::seed(request, Some(sandbox.live()), &sandbox.ctx.cancel).await?;
    Ok(Seeded::Repo(baseline))
}

impl Seeded {
    /// Reads what the agent left behind. A diff that had to be cut says so in the trace.
    ///
    /// # Errors
    /// `DRIVER_SNAPSHOT_FAILED` when the repository can't be compared any more, `CANCELLED`.
    pub(super) async fn snapshot(
        &self,
        sandbox: &Sandbox<'_>,
        recorder: &Recorder,
    ) -> Result<EnvSnapshot, Fault> {
        let Self::Repo(baseline) = self else {
            return Ok(EnvSnapshot::prompt(""));
        };
        let request = DiffRequest {
            dir: sandbox.scratch.work(),
            baseline,
            env: &sandbox.env,
            max_bytes: DiffRequest::DEFAULT_MAX_BYTES,
        };
        let diff = everdict_exec::diff_since(request, &sandbox.ctx.cancel).await?;
        let cut = diff.cut.as_ref().map(|cut| {
            format!(
                "the diff of {} bytes was cut to {}; without their part: {}",
                cut.total_bytes,
                cut.kept_bytes,
                cut.left_out.join(", ")
            )
        });
        let incomplete = diff
            .incomplete
            .as_ref()
            .map(|why| format!("the diff is incomplete: {why}"));
        for remark in cut.into_iter().chain(incomplete) {
            recorder.remark(&remark);
        }
        Ok(EnvSnapshot::Repo(RepoSnapshot {
            diff: diff.diff,
            changed_files: diff.changed_files,
            head_sha: diff.head_sha,
        }))
    }
}
