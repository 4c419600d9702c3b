//! Where a case's shell lines run: a scratch directory on this host, or a container of the case's image.

mod host;
mod image;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::Fault;
use everdict_exec::{Captured, ChildEnv, OutputSink, Scratch, Stream};
use everdict_topology::case_container::CaseContainer;

use self::host::HostPlace;
use self::image::ImagePlace;
use crate::context::{CaseContext, Progress};

/// Where a case's files are, relative to the sandbox.
pub(crate) const WORK: &str = "work";

/// The place of a case with what every command in it shares.
pub(crate) struct Sandbox<'a> {
    /// For the case's own commands.
    pub(crate) env: ChildEnv,
    pub(crate) ctx: &'a CaseContext,
    scratch: &'a Scratch,
    place: Place<'a>,
}

enum Place<'a> {
    Host(HostPlace<'a>),
    Image(ImagePlace<'a>),
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
    pub(crate) killed_after_grace: bool,
    /// How many of its processes could not be ended.
    pub(crate) survivors: usize,
    /// How many of its processes the kernel ended for want of memory.
    pub(crate) oom_kills: u64,
    pub(crate) duration: Duration,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
}

/// What a look at a file of the sandbox gave.
pub(crate) enum FileRead {
    Missing,
    /// Why it can't be read.
    Unreadable(String),
    /// As much of it as was asked for.
    Bytes {
        bytes: Vec<u8>,
        cut: bool,
    },
}

impl<'a> Sandbox<'a> {
    /// The container when there is one, else the scratch directory.
    pub(crate) fn new(
        scratch: &'a Scratch,
        container: Option<&'a CaseContainer>,
        ctx: &'a CaseContext,
    ) -> Self {
        match container {
            None => Self {
                env: host::env(scratch, ctx),
                ctx,
                scratch,
                place: Place::Host(HostPlace { scratch, ctx }),
            },
            Some(container) => Self {
                env: image::env(container),
                ctx,
                scratch,
                place: Place::Image(ImagePlace {
                    container,
                    scratch,
                    ctx,
                }),
            },
        }
    }

    /// The directory on this host in which the case's repository is made, and compared at the end.
    pub(crate) fn host_tree(&self) -> &Path {
        self.scratch.work()
    }

    /// What git on this host gets to see.
    pub(crate) fn host_env(&self) -> ChildEnv {
        host::env(self.scratch, self.ctx)
    }

    /// Whether commands run where [`Sandbox::host_tree`] isn't.
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self.place, Place::Image(_))
    }

    /// Hands the tree that was made on this host to the case.
    ///
    /// # Errors
    /// `DRIVER_PROVISION_FAILED`, `CANCELLED`.
    pub(crate) async fn push_tree(&self) -> Result<(), Fault> {
        match &self.place {
            Place::Host(_) => Ok(()),
            Place::Image(image) => image.push_tree().await,
        }
    }

    /// Makes the tree on this host what the case has made of it, and names what could not be taken over.
    ///
    /// # Errors
    /// `DRIVER_SNAPSHOT_FAILED`, `CANCELLED`.
    pub(crate) async fn pull_tree(&self) -> Result<Vec<String>, Fault> {
        match &self.place {
            Place::Host(_) => Ok(Vec::new()),
            Place::Image(image) => image.pull_tree().await,
        }
    }

    /// Runs a shell line to its end, live on `sink`.
    ///
    /// # Errors
    /// `CANCELLED`, the fault of a shell that could not be started, or `OOM_KILLED` as a signal when the line's own
    /// shell went down with its container's memory. A non-zero exit is no error.
    pub(crate) async fn run(&self, line: Line<'_>, sink: Option<Arc<dyn OutputSink>>) -> Result<Ran, Fault> {
        match &self.place {
            Place::Host(host) => host.run(line, sink).await,
            Place::Image(image) => image.run(line, sink).await,
        }
    }

    /// Reads at most `max` bytes of a regular file of the sandbox. On the host an absolute path counts from the
    /// sandbox's root.
    ///
    /// # Errors
    /// `BAD_REQUEST` when the path leads out of the sandbox.
    pub(crate) async fn read_file(&self, path: &str, max: u64) -> Result<FileRead, Fault> {
        match &self.place {
            Place::Host(host) => host.read_file(path, max),
            Place::Image(image) => Ok(image.read_file(path, max).await),
        }
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
        trimmed(self.stdout.tail(chars))
    }

    /// Standard error's last characters with the note about a time-out, without the newline at the end.
    pub(crate) fn stderr_tail(&self, chars: usize, limit: Duration) -> String {
        let text = trimmed(self.stderr.tail(chars));
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
