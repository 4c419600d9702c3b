//! `reward-file`: a verifier of the case's own writes its reward into a file.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_contracts::{EvalCase, Fault, Score, UnmeasuredReason};
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::Value;

use super::command::{explain, require};
use super::{measured, private};
use crate::compute::{Compute, ComputeExec};
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};

/// Where a verifier's files are in a case's image, when the config doesn't say.
const TESTS_DIR: &str = "/tests";
const REWARD_DIR: &str = "/logs/verifier";

/// A verifier that takes longer than ten minutes hangs more often than it works.
const TIMEOUT: Duration = Duration::from_secs(600);
const MAX_TIMEOUT: Duration = super::command::COMMAND_TIMEOUT;

/// Emptying two folders.
const CLEAN_TIMEOUT: Duration = Duration::from_secs(60);

const METRIC: &str = "tests_pass";

/// Writes the verifier's files once the agent is done, runs it, and reads the reward.
#[derive(Debug)]
pub(super) struct RewardFile {
    id: String,
    command: String,
    files: BTreeMap<String, String>,
    dirs: Dirs,
    cwd: Option<String>,
    env: BTreeMap<String, String>,
    threshold: f64,
    timeout: Duration,
}

/// Where the verifier's files and its reward go.
#[derive(Debug)]
enum Dirs {
    /// Paths of the case's image.
    Image { tests: String, reward: String },
    /// A folder made for them: on the member's machine no path outside the case is ever written.
    Private,
}

impl RewardFile {
    pub(super) fn new(config: &Config<'_>, case: &EvalCase) -> Result<Self, Fault> {
        let dir = |key, default: &str| -> Result<String, Fault> {
            let dir = config.name(key)?.unwrap_or(default);
            if dir.contains('\0')
                || dir.split('/').any(|part| part == "..")
                || dir.trim_matches('/').is_empty()
            {
                return Err(config.fault(key, "must name a folder, without `..`"));
            }
            Ok(dir.to_owned())
        };
        let (tests, reward) = (dir("testsDir", TESTS_DIR)?, dir("rewardDir", REWARD_DIR)?);
        let command = config.command("cmd")?;
        let dirs = if case.image.is_some() {
            Dirs::Image { tests, reward }
        } else {
            if let Some(named) = [&tests, &reward].into_iter().find(|dir| {
                dir.starts_with('/') && command.is_some_and(|command| command.contains(dir.as_str()))
            }) {
                return Err(config.fault(
                    "cmd",
                    format_args!(
                        "names {named}, which without an image is a folder of the machine; use $EVERDICT_TESTS_DIR and \
                         $EVERDICT_REWARD_DIR, or give the case an image"
                    ),
                ));
            }
            Dirs::Private
        };
        let files = config.texts("files")?;
        if let Some(bad) = files.keys().find(|path| !is_contained(path)) {
            return Err(config.fault(
                "files",
                format_args!("`{bad}` must be a relative path without `..`"),
            ));
        }
        let env = config.texts("env")?;
        if let Some(bad) = env
            .iter()
            .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
        {
            return Err(config.fault("env", format_args!("`{}` can't be a variable", bad.0)));
        }
        Ok(Self {
            id: config.name("id")?.unwrap_or("reward-file").to_owned(),
            command: command
                .unwrap_or("bash \"$EVERDICT_TESTS_DIR/test.sh\"")
                .to_owned(),
            files,
            dirs,
            cwd: config.name("cwd")?.map(str::to_owned),
            env,
            threshold: config.number("passThreshold")?.unwrap_or(1.0),
            timeout: config.timeout("timeoutSec", TIMEOUT)?.min(MAX_TIMEOUT),
        })
    }

    async fn measure(&self, compute: &dyn Compute) -> Result<Vec<Score>, GradeError> {
        let (tests, reward) = self.prepare(compute).await?;
        for (path, content) in &self.files {
            private::write(compute, &format!("{tests}/{path}"), content.as_bytes()).await?;
        }
        let mut exec = ComputeExec::new(&self.command, self.timeout);
        exec.cwd.clone_from(&self.cwd);
        exec.env.clone_from(&self.env);
        exec.env.insert("EVERDICT_TESTS_DIR".to_owned(), tests);
        exec.env.insert("EVERDICT_REWARD_DIR".to_owned(), reward.clone());
        let output = compute.exec(exec).await?;
        let report = explain(&output, self.timeout);
        if let Some(text) = private::read(compute, &format!("{reward}/reward.json")).await? {
            return self.read_json(&text, report);
        }
        if let Some(text) = private::read(compute, &format!("{reward}/reward.txt")).await? {
            let value = number(text.trim())
                .ok_or_else(|| GradeError::Failed(format!("reward.txt holds no number: {}", text.trim())))?;
            return Ok(vec![self.primary(value, report)]);
        }
        let why = format!(
            "the verifier published no reward (exit {})\n{report}",
            output.exit_code
        );
        Ok(vec![self.unmeasured(UnmeasuredReason::MissingEvidence, why)])
    }

    /// Makes both folders, empty, and returns their absolute paths.
    async fn prepare(&self, compute: &dyn Compute) -> Result<(String, String), GradeError> {
        let (line, (tests, reward)) = match &self.dirs {
            Dirs::Image { tests, reward } => (
                "rm -rf -- \"$T\" \"$R\" && mkdir -p -- \"$T\" \"$R\" && cd -- \"$T\" && pwd && cd - >/dev/null && cd -- \"$R\" && pwd",
                (tests.clone(), reward.clone()),
            ),
            Dirs::Private => {
                let own = private::folder(compute).await?;
                (
                    "mkdir -- \"$T\" \"$R\" && printf '%s\\n%s\\n' \"$T\" \"$R\"",
                    (format!("{own}/tests"), format!("{own}/verifier")),
                )
            }
        };
        let mut exec = ComputeExec::new(line, CLEAN_TIMEOUT);
        exec.cwd = Some(".".to_owned());
        exec.env = BTreeMap::from([("T".to_owned(), tests), ("R".to_owned(), reward)]);
        let output = compute.exec(exec).await?;
        let mut made = output.stdout.lines().map(str::to_owned);
        match (output.exit_code, made.next(), made.next()) {
            (0, Some(tests), Some(reward)) => Ok((tests, reward)),
            _ => Err(GradeError::Failed(format!(
                "the verifier's folders could not be made: {}",
                output.stderr.trim()
            ))),
        }
    }

    fn read_json(&self, text: &str, report: String) -> Result<Vec<Score>, GradeError> {
        let broken = |why: String| GradeError::Failed(format!("reward.json {why}"));
        let value: Value =
            serde_json::from_str(text).map_err(|error| broken(format!("is no JSON: {error}")))?;
        let Value::Object(map) = value else {
            return Err(broken("is no object of numbers".to_owned()));
        };
        let mut rewards = Vec::with_capacity(map.len());
        for (key, value) in map {
            let number = value.as_f64().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| broken(format!("has no number under `{key}`")))?;
            rewards.push((key, number));
        }
        let parts = rewards
            .iter()
            .map(|(key, value)| measured(&self.id, &format!("reward:{key}"), *value, None, None));
        let primary = match rewards.as_slice() {
            [] => {
                let why = format!("reward.json names no reward\n{report}");
                return Ok(vec![self.unmeasured(UnmeasuredReason::MissingEvidence, why)]);
            }
            [(_, only)] => Some(*only),
            several => several
                .iter()
                .find_map(|(key, value)| (key == "reward").then_some(*value)),
        };
        let first = match primary {
            Some(value) => self.primary(value, report),
            None => self.unmeasured(
                UnmeasuredReason::Unsupported,
                format!("reward.json has several rewards, and none is called `reward`\n{report}"),
            ),
        };
        let alone = rewards.len() == 1;
        Ok(std::iter::once(first).chain(parts.filter(|_| !alone)).collect())
    }

    fn primary(&self, value: f64, report: String) -> Score {
        measured(
            &self.id,
            METRIC,
            value,
            Some(value >= self.threshold),
            Some(report),
        )
    }

    fn unmeasured(&self, reason: UnmeasuredReason, why: String) -> Score {
        Score::unmeasured(&self.id, METRIC, reason, false).with_detail(why)
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn is_contained(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with('/')
        && !path.contains('\0')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

impl Grader for RewardFile {
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
        async move { self.measure(require(compute)?).await }.boxed()
    }
}
