//! `script-score`: a command prints a number.

use std::time::Duration;

use everdict_contracts::{Fault, Score};
use futures_util::future::{BoxFuture, FutureExt as _};
use regex::Regex;

use super::answer::captured_number;
use super::command::{COMMAND_TIMEOUT, explain, require};
use super::{measured, verdict};
use crate::compute::{Compute, ComputeExec};
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};
use crate::text::combined;

/// Where the number is when the config doesn't say.
const DEFAULT_PATTERN: &str = r"SCORE=([-\d.]+)";

/// What counts as a pass when the config doesn't say.
const DEFAULT_THRESHOLD: f64 = 0.6;

/// Runs a command and reads its score out of what it prints.
#[derive(Debug)]
pub(super) struct ScriptScore {
    id: String,
    metric: String,
    command: String,
    cwd: Option<String>,
    pattern: Regex,
    threshold: f64,
    timeout: Duration,
}

impl ScriptScore {
    pub(super) fn new(config: &Config<'_>) -> Result<Self, Fault> {
        let pattern = match config.capturing("scorePattern")? {
            Some(pattern) => pattern,
            None => Regex::new(DEFAULT_PATTERN).expect("BUG: the default score pattern compiles"),
        };
        let timeout = config
            .timeout("timeoutSec", COMMAND_TIMEOUT)?
            .min(COMMAND_TIMEOUT);
        Ok(Self {
            id: config.name("id")?.unwrap_or("script-score").to_owned(),
            metric: config.name("metric")?.unwrap_or("score").to_owned(),
            command: config.command("cmd")?.unwrap_or("true").to_owned(),
            cwd: config.name("cwd")?.map(str::to_owned),
            pattern,
            threshold: config.number("passThreshold")?.unwrap_or(DEFAULT_THRESHOLD),
            timeout,
        })
    }

    async fn measure(&self, compute: &dyn Compute) -> Result<Score, GradeError> {
        let mut exec = ComputeExec::new(&self.command, self.timeout);
        exec.cwd.clone_from(&self.cwd);
        let output = compute.exec(exec).await?;
        let report = explain(&output, self.timeout);
        let printed = (!output.timed_out)
            .then(|| captured_number(&self.pattern, &combined(&output.stdout, &output.stderr)))
            .flatten();
        Ok(match printed {
            Some(value) => measured(
                &self.id,
                &self.metric,
                value,
                Some(value >= self.threshold),
                Some(report),
            ),
            None => {
                let detail = format!("no score found (exit {})\n{report}", output.exit_code);
                verdict(&self.id, &self.metric, false, Some(detail))
            }
        })
    }
}

impl Grader for ScriptScore {
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
