//! `swe-bench`: the tests of the real fix decide.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_contracts::{Fault, Score};
use futures_util::future::{BoxFuture, FutureExt as _};

use super::command::{COMMAND_TIMEOUT, explain, require};
use super::{private, verdict};
use crate::compute::{Compute, ComputeExec};
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};

const TEST_COMMAND: &str = "python -m pytest -q --no-header";

/// Applying a patch reads a few files; a minute covers a cold, busy disk.
const PATCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Half of what one argument of a process may be long on Linux; a longer list is handed over by `xargs`.
const MAX_LINE: usize = 64 << 10;

/// What a shell says of a command that can't be run at all.
const CAN_NOT_RUN: [i32; 2] = [126, 127];

const METRIC: &str = "resolved";

/// Applies the test patch to what the agent made, and runs the tests that must pass.
#[derive(Debug)]
pub(super) struct SweBench {
    id: String,
    patch: Option<String>,
    tests: Vec<String>,
    command: String,
}

impl SweBench {
    pub(super) fn new(config: &Config<'_>) -> Result<Self, Fault> {
        let mut tests = config.list("failToPass")?;
        tests.extend(config.list("passToPass")?);
        Ok(Self {
            id: config.name("id")?.unwrap_or("swe-bench").to_owned(),
            patch: config
                .text("testPatch")?
                .filter(|patch| !patch.trim().is_empty())
                .map(str::to_owned),
            tests,
            command: config.command("testCmd")?.unwrap_or(TEST_COMMAND).to_owned(),
        })
    }

    async fn measure(&self, compute: &dyn Compute) -> Result<Score, GradeError> {
        if self.tests.is_empty() {
            let note = "there are no tests: neither `failToPass` nor `passToPass` names one";
            return Ok(self.verdict(false, note.to_owned()));
        }
        if let Some(patch) = &self.patch {
            let mut exec = ComputeExec::new("git apply --whitespace=nowarn -", PATCH_TIMEOUT);
            exec.stdin = Some(patch.as_bytes().to_vec());
            let applied = compute.exec(exec).await?;
            if CAN_NOT_RUN.contains(&applied.exit_code) {
                return Err(GradeError::Failed(format!(
                    "git can't be run: {}",
                    explain(&applied, PATCH_TIMEOUT)
                )));
            }
            if applied.exit_code != 0 {
                let detail = format!(
                    "the test patch does not apply\n{}",
                    explain(&applied, PATCH_TIMEOUT)
                );
                return Ok(self.verdict(false, detail));
            }
        }
        let output = compute.exec(self.run_tests()).await?;
        if CAN_NOT_RUN.contains(&output.exit_code) {
            // A machine without the test runner says nothing about the fix.
            return Err(GradeError::Failed(format!(
                "the tests can't be run (exit {}): {}",
                output.exit_code,
                explain(&output, COMMAND_TIMEOUT)
            )));
        }
        let pass = output.exit_code == 0 && !output.timed_out;
        Ok(self.verdict(pass, explain(&output, COMMAND_TIMEOUT)))
    }

    fn run_tests(&self) -> ComputeExec {
        let words: Vec<String> = self.tests.iter().map(|test| private::quoted(test)).collect();
        let line = format!("{} {}", self.command, words.join(" "));
        if line.len() <= MAX_LINE {
            return ComputeExec::new(line, COMMAND_TIMEOUT);
        }
        // As many runs as the list needs; each must be well.
        let line = r#"xargs -0 sh -c 'eval "$EVERDICT_TEST_CMD \"\$@\""' tests"#;
        let mut exec = ComputeExec::new(line, COMMAND_TIMEOUT);
        exec.env = BTreeMap::from([("EVERDICT_TEST_CMD".to_owned(), self.command.clone())]);
        exec.stdin = Some(self.tests.join("\0").into_bytes());
        exec
    }

    fn verdict(&self, pass: bool, detail: String) -> Score {
        verdict(&self.id, METRIC, pass, Some(detail))
    }
}

impl Grader for SweBench {
    fn grader_id(&self) -> &str {
        &self.id
    }

    fn metric(&self) -> &str {
        METRIC
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
