use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::time::Instant;

use super::ProcessId;
use super::registry::{MARKER, REGISTRY};
use super::tree::{self, Tree};
use super::watch::ExitWatch;
use crate::{ExecError, Launch, Program};

/// A sweep that finds new processes for this long is up against something it can't win (a process that the kernel
/// won't let die): the survivors are reported instead.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// First pause between two scans: a killed process is gone in well under a millisecond.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause between two scans, so that a slow death costs little CPU.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The main process of a launch and all that came from it.
pub(crate) struct Spawned {
    launch: u64,
    pid: Pid,
    /// `None` once reaped.
    child: Option<Child>,
    tree: Tree,
}

/// This side's ends of the child's standard streams.
pub(crate) struct Pipes {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl Spawned {
    /// Starts the program as leader of a new process group.
    pub(crate) fn start(launch: &Launch) -> Result<(Self, ExitWatch, Pipes), ExecError> {
        let (mut command, program) = command(launch)?;
        let number = REGISTRY.next_launch();
        command.env(MARKER, REGISTRY.marker(number));
        let (mut child, root) = REGISTRY.register(number, || {
            let child = super::within_share(|| command.spawn())
                .map_err(|source| spawn_error(launch, &program, source))?;
            let root = tree::root_id(&child);
            Ok((child, root))
        })?;
        let pipes = Pipes {
            stdin: child.stdin.take().map(OwnedFd::from),
            stdout: child
                .stdout
                .take()
                .map(OwnedFd::from)
                .expect("BUG: stdout was asked for as a pipe"),
            stderr: child
                .stderr
                .take()
                .map(OwnedFd::from)
                .expect("BUG: stderr was asked for as a pipe"),
        };
        let pid = Pid::from_child(&child);
        let spawned = Self {
            launch: number,
            pid,
            child: Some(child),
            tree: Tree::new(number, root),
        };
        // From here on a return drops `spawned`, which kills what was started.
        let watch = ExitWatch::new(pid).map_err(|source| ExecError::Watch { program, source })?;
        Ok((spawned, watch, pipes))
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.tree.root()
    }

    /// Signals the whole group, and whoever of this launch has left it. Only before [`Spawned::reap`].
    pub(crate) fn signal_all(&mut self, signal: Signal) {
        self.signal_group(signal);
        self.tree.signal_strays(signal);
    }

    /// Signals the group only: no scan.
    pub(crate) fn signal_group(&self, signal: Signal) {
        if self.child.is_some() {
            // The unreaped leader holds the number, so this can't reach another group; a group without living members
            // takes the signal without effect.
            let _ = rustix::process::kill_process_group(self.pid, signal);
        }
    }

    /// Whether anything of this launch beside the main process is alive. Walks over all processes.
    pub(crate) fn has_descendants(&mut self) -> bool {
        let root = self.tree.root();
        self.tree.members().iter().any(|member| *member != root)
    }

    /// Collects the main process' exit status, which frees its number.
    pub(crate) fn reap(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => self.tree.root_is_reaped(),
            Ok(None) => self.child = Some(child),
        }
    }

    /// Kills what is left until a scan finds nothing, and gives out what could not be killed.
    pub(crate) async fn sweep(&mut self) -> Vec<ProcessId> {
        self.signal_group(Signal::KILL);
        self.reap();
        if self.child.is_none() && !self.tree.may_have_leftovers() {
            return Vec::new();
        }
        let deadline = Instant::now() + SWEEP_LIMIT;
        let mut pause = FIRST_PAUSE;
        loop {
            self.signal_group(Signal::KILL);
            let left = self.tree.signal_members(Signal::KILL);
            self.reap();
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reaps orphans that were handed to this process and have ended.
    pub(crate) fn reap_orphans(&self) {
        self.tree.reap_orphans();
    }
}

/// The safety net for a launch whose future was dropped: one kill pass, no waiting.
impl Drop for Spawned {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.signal_group(Signal::KILL);
            self.tree.signal_members(Signal::KILL);
            self.reap();
        }
        if let Some(child) = self.child.take() {
            REGISTRY.abandon(child);
        }
        REGISTRY.forget(self.launch);
        tree::reap_abandoned();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where processes are spawned"
)]
fn command(launch: &Launch) -> Result<(std::process::Command, String), ExecError> {
    let mut command = match &launch.program {
        Program::Shell(line) => {
            let mut command = std::process::Command::new("/bin/sh");
            command.arg("-c").arg(line);
            command
        }
        Program::Argv(argv) => {
            let name = argv.first().cloned().unwrap_or_default();
            let missing = || ExecError::ProgramNotFound {
                program: name.to_string_lossy().into_owned(),
            };
            // Resolved here because std forks instead of using posix_spawn when it has to search a PATH of the child.
            let file = launch.env.resolve(&name, &launch.cwd).ok_or_else(missing)?;
            let mut command = std::process::Command::new(file);
            command.arg0(&name).args(&argv[1..]);
            command
        }
    };
    command
        .env_clear()
        .envs(launch.env.vars())
        .current_dir(&launch.cwd)
        .stdin(if launch.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let program = command.get_program().to_string_lossy().into_owned();
    Ok((command, program))
}

fn spawn_error(launch: &Launch, program: &str, source: io::Error) -> ExecError {
    if launch.cwd.is_dir() {
        ExecError::Spawn {
            program: program.to_owned(),
            source,
        }
    } else {
        ExecError::WorkDir {
            path: launch.cwd.clone(),
            source,
        }
    }
}
