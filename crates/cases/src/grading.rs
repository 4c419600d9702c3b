//! The sandbox as the graders' compute, and how long grading may take.

use std::time::Duration;

use everdict_contracts::{CaseJob, Fault, JudgeProvider};
use everdict_exec::ChildEnv;
use everdict_graders::{Compute, ComputeExec, ComputeOutput};
use futures_util::future::{BoxFuture, FutureExt as _};

use crate::sandbox::{Line, Sandbox, WORK, with_env};

/// Grading gets at least a minute: a test suite that takes longer to start than the agent took to answer is common.
const MIN_BUDGET: Duration = Duration::from_secs(60);

/// And at most half an hour, the longest a single grader command may take: a lease is not held for a hanging grader.
const MAX_BUDGET: Duration = Duration::from_secs(1_800);

/// A grader whose time is up gets this long to stop what it started, as the gradebook has it.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(60);

/// The time for each grading phase. It is grading's own: an agent that used all of its time is graded all the same.
pub(crate) fn budget(case_timeout: Duration) -> Duration {
    case_timeout.clamp(MIN_BUDGET, MAX_BUDGET)
}

/// Runs grader commands in the case's sandbox, after the agent's processes are dead.
pub(crate) struct GraderCompute<'a> {
    sandbox: &'a Sandbox<'a>,
    env: ChildEnv,
}

impl<'a> GraderCompute<'a> {
    /// Graders also get the judge's model and key, which the agent never saw.
    pub(crate) fn new(sandbox: &'a Sandbox<'a>, job: &CaseJob) -> Self {
        Self {
            sandbox,
            env: with_env(&sandbox.env, judge_env(job)),
        }
    }

    async fn run(&self, exec: ComputeExec) -> Result<ComputeOutput, Fault> {
        let env = with_env(&self.env, exec.env);
        let cwd = exec.cwd.as_deref().unwrap_or(WORK);
        let line = Line {
            command: &exec.command,
            cwd,
            env: &env,
            stdin: exec.stdin,
            timeout: exec.timeout,
        };
        let ran = self.sandbox.run(line, None).await?;
        Ok(ComputeOutput {
            exit_code: ran.exit_code,
            stdout: ran.stdout.text(),
            stderr: ran.stderr.text(),
            timed_out: ran.timed_out,
        })
    }
}

impl Compute for GraderCompute<'_> {
    fn exec(&self, exec: ComputeExec) -> BoxFuture<'_, Result<ComputeOutput, Fault>> {
        self.run(exec).boxed()
    }
}

fn judge_env(job: &CaseJob) -> Vec<(String, String)> {
    let provider = job.judge.as_ref().and_then(|judge| judge.provider);
    let mut pairs = Vec::new();
    if let Some(judge) = &job.judge {
        pairs.push(("EVERDICT_JUDGE_MODEL", judge.model.name().to_owned()));
    }
    if let Some(provider) = provider {
        let name = match provider {
            JudgeProvider::Openai => "openai",
            JudgeProvider::Anthropic => "anthropic",
        };
        pairs.push(("EVERDICT_JUDGE_PROVIDER", name.to_owned()));
    }
    if let Some(auth) = &job.judge_auth {
        let (key, base) = match provider {
            Some(JudgeProvider::Anthropic) => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            Some(JudgeProvider::Openai) | None => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        };
        pairs.push((key, auth.api_key.expose().to_owned()));
        pairs.extend(auth.base_url.clone().map(|url| (base, url)));
    }
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
