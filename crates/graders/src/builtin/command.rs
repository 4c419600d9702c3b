//! `tests-pass` and `command`: the exit code of a shell line decides.

use std::time::Duration;

use everdict_contracts::{Fault, Score};
use futures_util::future::{BoxFuture, FutureExt as _};
use regex::Regex;

use super::verdict;
use crate::compute::{Compute, ComputeExec, ComputeOutput};
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};
use crate::text::{DETAIL_CHARS, combined, tail};

/// A unit-test run that takes longer than ten minutes hangs more often than it works.
const TESTS_TIMEOUT: Duration = Duration::from_secs(600);

/// Half an hour: the longest any grader command gets, equal to a case's default budget.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(1_800);

/// Applying a patch reads a few files; a minute covers a cold, busy disk.
const PATCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a shell line after the agent is done; passes when the line does.
#[derive(Debug)]
pub(super) struct CommandGrader {
    id: String,
    metric: String,
    command: String,
    cwd: Option<String>,
    patch: Option<String>,
    pass_pattern: Option<Regex>,
    timeout: Duration,
}

impl CommandGrader {
    pub(super) fn tests_pass(config: &Config<'_>) -> Result<Self, Fault> {
        Ok(Self {
            id: "tests-pass".to_owned(),
            metric: "tests_pass".to_owned(),
            command: config.command("cmd")?.unwrap_or("true").to_owned(),
            cwd: None,
            patch: None,
            pass_pattern: None,
            timeout: TESTS_TIMEOUT,
        })
    }

    pub(super) fn command(config: &Config<'_>) -> Result<Self, Fault> {
        Ok(Self {
            id: config.name("id")?.unwrap_or("command").to_owned(),
            metric: config.name("metric")?.unwrap_or("command").to_owned(),
            command: config.command("cmd")?.unwrap_or("true").to_owned(),
            cwd: config.name("cwd")?.map(str::to_owned),
            patch: config.name("applyPatch")?.map(str::to_owned),
            pass_pattern: config.pattern("passPattern")?,
            timeout: COMMAND_TIMEOUT,
        })
    }

    async fn measure(&self, compute: &dyn Compute) -> Result<Score, GradeError> {
        if let Some(patch) = &self.patch {
            let applied = self.apply(compute, patch).await?;
            if applied.exit_code != 0 {
                let detail = format!("the patch does not apply\n{}", report(&applied));
                return Ok(verdict(&self.id, &self.metric, false, Some(detail)));
            }
        }
        let mut exec = ComputeExec::new(&self.command, self.timeout);
        exec.cwd.clone_from(&self.cwd);
        let output = compute.exec(exec).await?;
        let pass = !output.timed_out
            && match &self.pass_pattern {
                Some(pattern) => pattern.is_match(&combined(&output.stdout, &output.stderr)),
                None => output.exit_code == 0,
            };
        Ok(verdict(
            &self.id,
            &self.metric,
            pass,
            Some(explain(&output, self.timeout)),
        ))
    }

    async fn apply(&self, compute: &dyn Compute, patch: &str) -> Result<ComputeOutput, Fault> {
        let mut exec = ComputeExec::new("git apply --whitespace=nowarn -", PATCH_TIMEOUT);
        exec.cwd.clone_from(&self.cwd);
        exec.stdin = Some(patch.as_bytes().to_vec());
        compute.exec(exec).await
    }
}

/// What a reader needs to understand the verdict: the end of the output, after a note when time ran out.
pub(super) fn explain(output: &ComputeOutput, limit: Duration) -> String {
    if output.timed_out {
        format!(
            "stopped after {} s, its time limit\n{}",
            limit.as_secs(),
            report(output)
        )
    } else {
        report(output)
    }
}

fn report(output: &ComputeOutput) -> String {
    tail(combined(&output.stdout, &output.stderr).trim_end(), DETAIL_CHARS).to_owned()
}

impl Grader for CommandGrader {
    fn grader_id(&self) -> &str {
        &self.id
    }

    fn metric(&self) -> &str {
        &self.metric
    }

    fn needs(&self) -> Needs {
        Needs::Compute
    }

    fn grade<'a>(
        &'a self,
        _input: GradeInput<'a>,
        compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        async move { Ok(vec![self.measure(require(compute)?).await?]) }.boxed()
    }
}

/// The sandbox, which a compute grader can't do without.
pub(super) fn require(compute: Option<&dyn Compute>) -> Result<&dyn Compute, GradeError> {
    compute.ok_or_else(|| GradeError::Failed("the sandbox is already released".to_owned()))
}
