use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::output::{StreamPump, feed};
use crate::unix::{ExitWatch, Pipes, ProcessId, Spawned};
use crate::{CaptureLimits, Captured, ChildEnv, ExecError, OutputSink, Redactor, Stream, StreamTap};

/// How long after the main process' end its pipes may stay open. Enough for a `tee` behind it to write its last bytes,
/// too short for a daemon that inherited the pipes to hold up a job.
const SETTLE: Duration = Duration::from_millis(250);

/// How long the pipes may take to close once everything that held them has been killed.
const DRAIN: Duration = Duration::from_millis(50);

/// How long the main process may take to die by KILL. Longer means that the kernel holds it (a dead network mount).
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How often descendants are counted while they wind down after TERM: a scan costs about a millisecond.
const WIND_DOWN_POLL: Duration = Duration::from_millis(20);

/// How often ended orphans are reaped while a launch runs; the look costs one read of a small file.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Debug, Clone)]
pub enum Program {
    /// A line for `/bin/sh -c`.
    Shell(String),
    /// A program, searched in the PATH of the child, and its arguments.
    Argv(Vec<OsString>),
}

/// One process to start, with everything it gets and every limit it has.
#[derive(Debug, Clone)]
pub struct Launch {
    /// What to run.
    pub program: Program,
    /// Where; must exist.
    pub cwd: PathBuf,
    /// The whole environment of the child, but for a marker that is added.
    pub env: ChildEnv,
    /// Bytes for standard input, which is empty when `None`.
    pub stdin: Option<Vec<u8>>,
    /// When to stop it; never when `None`.
    pub timeout: Option<Duration>,
    /// Time between TERM and KILL.
    pub grace: Duration,
    /// How much of each output stream to keep.
    pub capture: CaptureLimits,
    /// What its output must not show.
    pub mask: Option<Arc<Redactor>>,
}

impl Launch {
    /// Ten seconds: an agent saves its session in that time, and a cancelled job is still gone within 15.
    pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

    /// A launch without input and time-out, with the default grace and capture.
    #[must_use]
    pub fn new(program: Program, cwd: impl Into<PathBuf>, env: ChildEnv) -> Self {
        Self {
            program,
            cwd: cwd.into(),
            env,
            stdin: None,
            timeout: None,
            grace: Self::DEFAULT_GRACE,
            capture: CaptureLimits::default(),
            mask: None,
        }
    }

    /// A launch of a shell line.
    #[must_use]
    pub fn shell(line: impl Into<String>, cwd: impl Into<PathBuf>, env: ChildEnv) -> Self {
        Self::new(Program::Shell(line.into()), cwd, env)
    }

    /// A launch of a program with arguments.
    pub fn argv<A: Into<OsString>>(
        argv: impl IntoIterator<Item = A>,
        cwd: impl Into<PathBuf>,
        env: ChildEnv,
    ) -> Self {
        Self::new(
            Program::Argv(argv.into_iter().map(Into::into).collect()),
            cwd,
            env,
        )
    }
}

/// How the main process ended, as the system tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

/// How a launch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited by itself with this code.
    Exited(i32),
    /// A signal that we did not send ended it.
    Signaled(i32),
    /// Its time was over. [`Exit::ended`] has its own last word.
    TimedOut,
    /// It was cancelled. [`Exit::ended`] has its own last word; without one it never started.
    Cancelled,
}

/// The end of a launch.
#[derive(Debug, Clone)]
pub struct Exit {
    /// Why it ended.
    pub status: ExitStatus,
    /// How the main process ended, also after a time-out or a cancel. `None` when it never started, or could not be
    /// killed.
    pub ended: Option<Ended>,
    /// Something outlived the grace and got KILL.
    pub killed_after_grace: bool,
    /// From start to the end of the clean-up.
    pub duration: Duration,
    /// What it printed.
    pub stdout: Captured,
    /// What it complained about.
    pub stderr: Captured,
    /// Processes of this launch that could not be killed; empty as a rule.
    pub survivors: Vec<ProcessId>,
}

impl Exit {
    /// Whether it exited by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status == ExitStatus::Exited(0)
    }

    fn never_started() -> Self {
        Self {
            status: ExitStatus::Cancelled,
            ended: None,
            killed_after_grace: false,
            duration: Duration::ZERO,
            stdout: Captured::default(),
            stderr: Captured::default(),
            survivors: Vec::new(),
        }
    }
}

/// Runs a launch to its end, and returns when nothing of it is left.
///
/// On time-out and on cancel the whole group and every descendant get TERM, and after the grace KILL. When the main
/// process ends by itself, whatever it left behind is killed; pipes held open by a descendant delay the end by 250 ms at
/// most. A token cancelled beforehand starts nothing. A failing command is not an error; that it can't be started is.
///
/// Dropping the future kills the launch without waiting for its end.
pub async fn run(
    mut launch: Launch,
    sink: Option<Arc<dyn OutputSink>>,
    cancel: &CancellationToken,
) -> Result<Exit, ExecError> {
    if cancel.is_cancelled() {
        return Ok(Exit::never_started());
    }
    let begin = Instant::now();
    let (mut process, watch, pipes) = Spawned::start(&launch)?;
    let watch_failed = |source| ExecError::Watch {
        program: describe(&launch.program),
        source,
    };
    if let Some(sink) = &sink {
        sink.started(process.id());
    }
    let Pipes {
        stdin,
        stdout,
        stderr,
    } = pipes;
    let tap = |stream| StreamTap::new(stream, launch.capture, sink.clone()).masked(launch.mask.as_ref());
    let mut out = StreamPump::new(stdout, tap(Stream::Stdout)).map_err(watch_failed)?;
    let mut err = StreamPump::new(stderr, tap(Stream::Stderr)).map_err(watch_failed)?;
    let input = stdin.zip(launch.stdin.take());
    let end = {
        let streams = async {
            tokio::join!(out.run(), err.run());
        };
        let pump = Pump {
            streams: Box::pin(streams),
            input: Box::pin(feed(input)),
            open: true,
            feeding: true,
        };
        let drive = Drive {
            process: &mut process,
            watch,
            pump,
            limits: &launch,
            begin,
        };
        drive.drive_to_end(cancel).await.map_err(watch_failed)?
    };
    Ok(Exit {
        status: end.status,
        ended: end.ended,
        killed_after_grace: end.killed_after_grace,
        duration: begin.elapsed(),
        stdout: out.finish(),
        stderr: err.finish(),
        survivors: end.survivors,
    })
}

fn describe(program: &Program) -> String {
    match program {
        Program::Shell(_) => "/bin/sh".to_owned(),
        Program::Argv(argv) => argv
            .first()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
    }
}

/// Moves bytes between the child and us for as long as its pipes are open.
struct Pump<'a> {
    streams: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    input: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    open: bool,
    feeding: bool,
}

impl Pump<'_> {
    /// Waits for `event` while bytes move.
    async fn during<T>(&mut self, event: impl Future<Output = T>) -> T {
        tokio::pin!(event);
        loop {
            tokio::select! {
                biased;
                value = &mut event => return value,
                () = &mut self.streams, if self.open => self.open = false,
                () = &mut self.input, if self.feeding => self.feeding = false,
            }
        }
    }

    /// Waits until both output streams are closed, or for `limit`.
    async fn until_closed(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        if self.open && timeout_at(deadline, &mut self.streams).await.is_ok() {
            self.open = false;
        }
    }
}

/// What ends the wait for a running process.
enum Wake {
    Ended(Ended),
    TimedOut,
    Cancelled,
}

struct End {
    status: ExitStatus,
    ended: Option<Ended>,
    killed_after_grace: bool,
    survivors: Vec<ProcessId>,
}

/// A started launch on its way to its end.
struct Drive<'a> {
    process: &'a mut Spawned,
    watch: ExitWatch,
    pump: Pump<'a>,
    limits: &'a Launch,
    begin: Instant,
}

impl Drive<'_> {
    async fn drive_to_end(mut self, cancel: &CancellationToken) -> std::io::Result<End> {
        let mut killed_after_grace = false;
        let (status, ended) = match self.wait(cancel).await? {
            Wake::Ended(ended) => (own_status(ended), Some(ended)),
            stopped => {
                let status = if matches!(stopped, Wake::TimedOut) {
                    ExitStatus::TimedOut
                } else {
                    ExitStatus::Cancelled
                };
                let ended = self.stop(&mut killed_after_grace).await?;
                (status, ended)
            }
        };
        self.pump.until_closed(SETTLE).await;
        let survivors = self.process.sweep().await;
        self.pump.until_closed(DRAIN).await;
        Ok(End {
            status,
            ended,
            killed_after_grace,
            survivors,
        })
    }

    async fn wait(&mut self, cancel: &CancellationToken) -> std::io::Result<Wake> {
        let deadline = self
            .limits
            .timeout
            .and_then(|limit| self.begin.checked_add(limit));
        let (process, watch) = (&*self.process, &mut self.watch);
        let event = async {
            let time_out = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::pin!(time_out);
            loop {
                tokio::select! {
                    biased;
                    ended = watch.ended() => return ended.map(Wake::Ended),
                    () = cancel.cancelled() => return Ok(Wake::Cancelled),
                    () = &mut time_out => return Ok(Wake::TimedOut),
                    () = sleep(REAP_EVERY) => process.reap_orphans(),
                }
            }
        };
        self.pump.during(event).await
    }

    /// TERM to all, grace, KILL to the rest.
    async fn stop(&mut self, killed_after_grace: &mut bool) -> std::io::Result<Option<Ended>> {
        let deadline = Instant::now() + self.limits.grace;
        self.process.signal_all(Signal::TERM);
        let mut ended = self.ended_by(deadline).await?;
        if ended.is_some() {
            // The main process may be a shell that died at once, in front of an agent that is still saving its work.
            while self.process.has_descendants() {
                if Instant::now() >= deadline {
                    *killed_after_grace = true;
                    break;
                }
                self.pump.during(sleep(WIND_DOWN_POLL)).await;
            }
        } else {
            *killed_after_grace = true;
            self.process.signal_all(Signal::KILL);
            ended = self.ended_by(Instant::now() + KILL_LIMIT).await?;
        }
        Ok(ended)
    }

    async fn ended_by(&mut self, deadline: Instant) -> std::io::Result<Option<Ended>> {
        match self.pump.during(timeout_at(deadline, self.watch.ended())).await {
            Ok(ended) => ended.map(Some),
            Err(_) => Ok(None),
        }
    }
}

fn own_status(ended: Ended) -> ExitStatus {
    match ended {
        Ended::Exited(code) => ExitStatus::Exited(code),
        Ended::Signaled(signal) => ExitStatus::Signaled(signal),
    }
}
