//! A scratch directory on this host.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use everdict_contracts::{ErrorCode, Fault};
use everdict_exec::{
    CaptureLimits, ChildEnv, ExitStatus, GroupNotes, Launch, OutputSink, ProcessId, Program, Scratch, Stream,
};

use super::{FileRead, Line, Ran};
use crate::context::{CaseContext, cancelled};

pub(super) struct HostPlace<'a> {
    pub(super) scratch: &'a Scratch,
    pub(super) ctx: &'a CaseContext,
}

/// What every process of the case on this host gets to see.
pub(super) fn env(scratch: &Scratch, ctx: &CaseContext) -> ChildEnv {
    let mut env = ChildEnv::for_scratch(&ctx.host_env, scratch);
    // A git command in a case without a repository must not find the one the scratch directory may lie in.
    env.set("GIT_CEILING_DIRECTORIES", scratch.path());
    env
}

/// Writes down which process group is the case's, before anything else is told of it.
struct Noting {
    scratch: GroupNotes,
    inner: Option<Arc<dyn OutputSink>>,
}

impl OutputSink for Noting {
    fn line(&self, stream: Stream, line: &str) {
        if let Some(inner) = &self.inner {
            inner.line(stream, line);
        }
    }

    fn started(&self, process: ProcessId) {
        self.scratch.note(process);
        if let Some(inner) = &self.inner {
            inner.started(process);
        }
    }
}

impl HostPlace<'_> {
    pub(super) async fn run(&self, line: Line<'_>, sink: Option<Arc<dyn OutputSink>>) -> Result<Ran, Fault> {
        let launch = Launch {
            program: Program::Shell(line.command.to_owned()),
            cwd: self.dir(line.cwd)?,
            env: line.env.clone(),
            stdin: line.stdin,
            timeout: Some(line.timeout),
            grace: Launch::DEFAULT_GRACE,
            capture: CaptureLimits::default(),
            mask: Some(Arc::clone(&self.ctx.mask)),
        };
        let sink = Arc::new(Noting {
            scratch: self.scratch.group_notes(),
            inner: sink,
        });
        let exit = everdict_exec::run(launch, Some(sink), &self.ctx.cancel).await?;
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
            killed_after_grace: exit.killed_after_grace,
            survivors: exit.survivors.len(),
            oom_kills: 0,
            duration: exit.duration,
            stdout: exit.stdout,
            stderr: exit.stderr,
        })
    }

    /// Looked at before it is opened: opening a pipe would wait for a writer that is dead by now.
    pub(super) fn read_file(&self, path: &str, max: u64) -> Result<FileRead, Fault> {
        let place = self.locate(path)?;
        let mut bytes = Vec::new();
        let read = std::fs::metadata(&place).and_then(|meta| {
            if !meta.is_file() {
                return Err(std::io::Error::other("not a regular file"));
            }
            File::open(&place)?
                .take(max.saturating_add(1))
                .read_to_end(&mut bytes)
        });
        Ok(match read {
            Ok(_) => {
                let cut = bytes.len() as u64 > max;
                bytes.truncate(usize::try_from(max).unwrap_or(usize::MAX));
                FileRead::Bytes { bytes, cut }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => FileRead::Missing,
            Err(error) => FileRead::Unreadable(error.to_string()),
        })
    }

    /// The directory `cwd` of the sandbox, made if it isn't there. An absolute one counts from the sandbox's root.
    fn dir(&self, cwd: &str) -> Result<PathBuf, Fault> {
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
    fn locate(&self, path: &str) -> Result<PathBuf, Fault> {
        match path.trim_start_matches('/') {
            "" | "." => Ok(self.scratch.path().to_owned()),
            relative => Ok(self.scratch.contained(relative)?),
        }
    }
}
