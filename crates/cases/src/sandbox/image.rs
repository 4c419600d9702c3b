//! A container of the case's image.
//!
//! The repository is made, and compared at the end, on this host: the image may have no git, and the one that an agent
//! left behind must not be the one that says what the agent did.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use everdict_contracts::{ErrorCode, Fault, SIGNAL_OOM};
use everdict_exec::{CaptureLimits, ChildEnv, OutputSink, Scratch, Stream, StreamTap};
use everdict_topology::case_container::{CaseContainer, CaseExec, CaseExit, CaseStream};

use super::{FileRead, Line, Ran, WORK};
use crate::context::CaseContext;

/// 128 and the number of KILL: what a shell says of a command that the kernel ended.
const KILLED: i32 = 137;

/// The end of what a command said that ran out of memory: the last thing that it was at.
const STARVED_TAIL_CHARS: usize = 2_000;

pub(super) struct ImagePlace<'a> {
    pub(super) container: &'a CaseContainer,
    pub(super) scratch: &'a Scratch,
    pub(super) ctx: &'a CaseContext,
}

/// On top of what the image itself declares; nothing of the host.
pub(super) fn env(container: &CaseContainer) -> ChildEnv {
    let mut env = ChildEnv::empty();
    for (name, value) in container.env() {
        env.set(name, value);
    }
    env
}

impl ImagePlace<'_> {
    pub(super) async fn run(&self, line: Line<'_>, sink: Option<Arc<dyn OutputSink>>) -> Result<Ran, Fault> {
        let tap = |stream| {
            StreamTap::new(stream, CaptureLimits::default(), sink.clone()).masked(Some(&self.ctx.mask))
        };
        let (mut stdout, mut stderr) = (tap(Stream::Stdout), tap(Stream::Stderr));
        let mut take = |stream, bytes: &[u8]| match stream {
            CaseStream::Stdout => stdout.accept(bytes),
            CaseStream::Stderr => stderr.accept(bytes),
        };
        let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
        let exec = CaseExec {
            command: line.command,
            cwd: line.cwd,
            env: line
                .env
                .vars()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            stdin: line.stdin,
            timeout: line.timeout,
        };
        let exit = self.container.exec(exec, &mut take, &self.ctx.cancel).await;
        let (stdout, stderr) = (stdout.finish(), stderr.finish());
        let ran = ran(exit?, stdout, stderr);
        match starved(&ran) {
            Some(fault) => Err(fault),
            None => Ok(ran),
        }
    }

    pub(super) async fn push_tree(&self) -> Result<(), Fault> {
        self.container
            .upload(self.scratch.work(), WORK, &self.ctx.cancel)
            .await
    }

    /// Keeps this side's repository, and takes everything else from the container.
    pub(super) async fn pull_tree(&self) -> Result<Vec<String>, Fault> {
        let tree = self.scratch.work();
        let before = self
            .scratch
            .path()
            .join(format!("before-{}", uuid::Uuid::now_v7().simple()));
        let failed = |error| {
            Fault::new(
                ErrorCode::DriverSnapshotFailed,
                "failed to make room for the case's files",
            )
            .caused_by(error)
        };
        std::fs::rename(tree, &before)
            .and_then(|()| DirBuilder::new().mode(0o700).create(tree))
            .and_then(|()| std::fs::rename(before.join(".git"), tree.join(".git")))
            .map_err(failed)?;
        self.container.download(WORK, tree, &self.ctx.cancel).await
    }

    pub(super) async fn read_file(&self, path: &str, max: u64) -> FileRead {
        match self.container.read_file(path, max).await {
            Ok(Some(file)) => FileRead::Bytes {
                bytes: file.bytes,
                cut: file.cut,
            },
            Ok(None) => FileRead::Missing,
            Err(fault) => FileRead::Unreadable(fault.full_message()),
        }
    }
}

fn ran(exit: CaseExit, stdout: everdict_exec::Captured, stderr: everdict_exec::Captured) -> Ran {
    Ran {
        exit_code: exit.code,
        // The shell in between has made a code of it.
        signal: None,
        timed_out: exit.timed_out,
        killed_after_grace: exit.killed_after_grace,
        // What resists is ended with its container.
        survivors: 0,
        oom_kills: exit.oom_kills,
        duration: exit.duration,
        stdout,
        stderr,
    }
}

/// A command that the kernel ended for want of memory says nothing about the task; one that lost a child of its own and
/// went on does.
fn starved(ran: &Ran) -> Option<Fault> {
    if ran.oom_kills == 0 || ran.exit_code != KILLED {
        return None;
    }
    let text = format!(
        "the command ran out of memory: the kernel ended {} of its processes; evalCase.resources.memoryMb sets the limit",
        ran.oom_kills
    );
    let said = ran.stderr.tail(STARVED_TAIL_CHARS);
    Some(
        Fault::new(ErrorCode::HarnessRunFailed, text)
            .with_signal(SIGNAL_OOM)
            .with_log_tail(said),
    )
}
