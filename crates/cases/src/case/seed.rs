//! The environment of a case: how it comes to be, and what is read off it at the end.

use std::time::Duration;

use everdict_contracts::{CaseJob, EnvSnapshot, EnvSpec, ErrorCode, FailureStage, Fault, RepoSnapshot};
use everdict_exec::{Baseline, DiffRequest, SeedRequest};

use crate::recorder::Recorder;
use crate::sandbox::{Line, Sandbox, WORK};

/// Setup installs dependencies as a rule; the existing runner allows ten minutes for one command.
const SETUP_TIMEOUT: Duration = Duration::from_secs(600);

/// A screenful of an installer's last words.
const SETUP_TAIL_CHARS: usize = 2_000;

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
    let setup = repo.setup.as_deref().unwrap_or_default();
    let env = sandbox.host_env();
    let request = SeedRequest {
        source: &repo.source,
        dir: sandbox.host_tree(),
        // The job's commands run where the case runs.
        setup: if sandbox.is_apart() { &[] } else { setup },
        token: job.repo_token.as_ref(),
        env: &env,
    };
    let cancel = &sandbox.ctx.cancel;
    let baseline = everdict_exec::seed(request, Some(sandbox.live()), cancel).await?;
    sandbox.push_tree().await?;
    if !sandbox.is_apart() || setup.is_empty() {
        return Ok(Seeded::Repo(baseline));
    }
    for (at, command) in setup.iter().enumerate() {
        set_up(sandbox, at, command).await?;
    }
    for entry in sandbox.pull_tree().await? {
        sandbox
            .ctx
            .progress
            .log(&format!("[everdict] left out of the comparison: {entry}"));
    }
    let baseline = everdict_exec::rebase(sandbox.host_tree(), &baseline, &env, cancel).await?;
    Ok(Seeded::Repo(baseline))
}

/// # Errors
/// As of a setup command on the host: `DRIVER_PROVISION_FAILED`.
async fn set_up(sandbox: &Sandbox<'_>, at: usize, command: &str) -> Result<(), Fault> {
    let line = Line {
        command,
        cwd: WORK,
        env: &sandbox.env,
        stdin: None,
        timeout: SETUP_TIMEOUT,
    };
    let ran = sandbox.run(line, Some(sandbox.live())).await?;
    if ran.exit_code == 0 {
        return Ok(());
    }
    let said = match ran.stderr_tail(SETUP_TAIL_CHARS, SETUP_TIMEOUT) {
        said if said.is_empty() => ran.stdout_tail(SETUP_TAIL_CHARS),
        said => said,
    };
    let text = format!(
        "failed to set up the tree: evalCase.env.setup[{at}], `{command}`, exited with {}: {said}",
        ran.exit_code
    );
    Err(Fault::new(ErrorCode::DriverProvisionFailed, text)
        .with_log_tail(said)
        .at_stage(FailureStage::Install))
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
        let left_out = sandbox.pull_tree().await?;
        let env = sandbox.host_env();
        let request = DiffRequest {
            dir: sandbox.host_tree(),
            baseline,
            env: &env,
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
        let left_out =
            (!left_out.is_empty()).then(|| format!("left out of the comparison: {}", left_out.join(", ")));
        for remark in cut.into_iter().chain(incomplete).chain(left_out) {
            recorder.remark(&remark);
        }
        Ok(EnvSnapshot::Repo(RepoSnapshot {
            diff: diff.diff,
            changed_files: diff.changed_files,
            head_sha: diff.head_sha,
        }))
    }
}
