//! The scratch directory of a case as a place to run shell lines in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};
use everdict_exec::{
    CaptureLimits, ChildEnv, Exit, ExitStatus, Launch, OutputSink, Program, Scratch, Stream,
};

use crate::context::{CaseContext, Progress, cancelled};

/// Where a case's files are, relative to the scratch directory.
pub(crate) const WORK: &str = "work";

/// A case's own directory with what every command in it shares.
pub(crate) struct Sandbox<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) env: ChildEnv,
    pub(crate) ctx: &'a CaseContext,
}

/// A shell line to run.
pub(crate) struct Line<'a> {
    pub(crate) command: &'a str,
    pub(crate) cwd: &'a str,
    pub(crate) env: &'a ChildEnv,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
}

/// How a shell line ended.
pub(crate) struct Ran {
    /// 124 after a time-out, 1 after a death by signal.
    pub(crate) exit_code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    pub(crate) exit: Exit,
}

impl<'a> Sandbox<'a> {
    pub(crate) fn new(scratch: &'a Scratch, ctx: &'a CaseContext) -> Self {
        let mut env = ChildEnv::for_scratch(&ctx.host_env, scratch);
        // A git command in a case without a repository must not find the one the scratch directory may lie in.
        env.set("GIT_CEILING_DIRECTORIES", scratch.path());
        Self { scratch, env, ctx }
    }

    /// The directory `cwd` of the sandbox, made if it isn't there. An absolute one counts from the sandbox's root.
    pub(crate) fn dir(&self, cwd: &str) -> Result<PathBuf, Fault> {
        let dir = self.locate(cwd)?;
        std::fs::create_dir_all(&dir).map_err(|error| {
            Fault::new(
                ErrorCode::ComputeExecFailed,
                format!("failed to create working directory `{cwd}`: {error}"),
            )
        })?;
        Ok(dir)
    }

    /// A path of the sandbox. An absolute one counts from the sandbox's root.
    ///
    /// # Errors
    /// `BAD_REQUEST` when the path, or a link on it, leads out.
    pub(crate) fn locate(&self, path: &str) -> Result<PathBuf, Fault> {
        match path.trim_start_matches('/') {
            "" | "." => Ok(self.scratch.path().to_owned()),
            relative => Ok(self.scratch.contained(relative)?),
        }
    }

    /// Runs a shell line to its end, live on `sink`.
    ///
    /// # Errors
    /// `CANCELLED`, or the fault of a shell that could not be started. A non-zero exit is no error.
    pub(crate) async fn run(&self, line: Line<'_>, sink: Option<Arc<dyn OutputSink>>) -> Result<Ran, Fault> {
        let launch = Launch {
            program: Program::Shell(line.command.to_owned()),
            cwd: self.dir(line.cwd)?,
            env: line.env.clone(),
            stdin: line.stdin,
            timeout: Some(line.timeout),
            grace: Launch::DEFAULT_GRACE,
            capture: CaptureLimits::default(),
        };
        let exit = everdict_exec::run(launch, sink, &self.ctx.cancel).await?;
        if !exit.survivors.is_empty() {
            let pids: Vec<_> = exit
                .survivors
                .iter()
                .map(|process| process.pid.to_string())
                .collect();
            self.ctx.progress.log(&format!(
                "[everdict] these processes could not be ended: {}",
                pids.join(", ")
            ));
        }
        let (exit_code, signal, timed_out) = match exit.status {
            ExitStatus::Exited(code) => (code, None, false),
            ExitStatus::Signaled(signal) => (1, Some(signal), false),
            ExitStatus::TimedOut => (124, None, true),
            ExitStatus::Cancelled => return Err(cancelled()),
        };
        Ok(Ran {
            exit_code,
            signal,
            timed_out,
            exit,
        })
    }

    /// A sink that shows every line in the live log.
    pub(crate) fn live(&self) -> Arc<dyn OutputSink> {
        Arc::new(LiveLog(Arc::clone(&self.ctx.progress)))
    }
}

/// What the case wants in the environment of its commands, on top of the sandbox's own.
pub(crate) fn with_env(base: &ChildEnv, extra: impl IntoIterator<Item = (String, String)>) -> ChildEnv {
    let mut env = base.clone();
    for (name, value) in extra {
        env.set(OsString::from(name), OsString::from(value));
    }
    env
}

struct LiveLog(Arc<dyn Progress>);

impl OutputSink for LiveLog {
    fn line(&self, _stream: Stream, line: &str) {
        self.0.log(line);
    }
}

impl Ran {
    /// Standard output's last characters, without the newline at the end.
    pub(crate) fn stdout_tail(&self, chars: usize) -> String {
        trimmed(self.exit.stdout.tail(chars))
    }

    /// Standard error's last characters with the note about a time-out, without the newline at the end.
    pub(crate) fn stderr_tail(&self, chars: usize, limit: Duration) -> String {
        let text = trimmed(self.exit.stderr.tail(chars));
        if !self.timed_out {
            return text;
        }
        let note = format!("[everdict] exec timed out after {}s", limit.as_secs());
        if text.is_empty() {
            note
        } else {
            format!("{text}\n{note}")
        }
    }
}

fn trimmed(text: String) -> String {
    let end = text.trim_end().len();
    let mut text = text;
    text.truncate(end);
    text
}
