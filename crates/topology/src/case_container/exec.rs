//! One command in a case's container, from its start until nothing of it is left.
//!
//! Docker can't kill what it executes. All that runs in the container besides init and the idle shell belongs to the
//! one command that was asked for, so ending a command means ending all of that, from within; if that fails (a fork
//! bomb has taken every process id), the container is started anew, which keeps its files.

use std::pin::Pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use everdict_contracts::{ErrorCode, Fault, SIGNAL_OOM};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::script::{self, Swept};
use super::{CaseContainer, absolute, cancelled};
use crate::engine::{AttachedExec, EngineError, EngineErrorKind, ExecState};

/// Between TERM and KILL at the time limit: enough to write a file, and a command with a limit of two seconds is still
/// gone within twelve.
const GRACE: Duration = Duration::from_secs(5);

/// How long the output may stay open once the main process has ended: a `tee` behind it writes its last bytes.
const SETTLE: Duration = Duration::from_millis(250);

/// How long the output may take to close once all that held it is dead. The daemon itself waits two seconds.
const DRAIN: Duration = Duration::from_secs(3);

/// For one round of signals: some 70 ms as a rule. Longer means that the processes leave it no room to run.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// How long killing may take before the container is started anew: more than one round.
const KILL_LIMIT: Duration = Duration::from_secs(8);

/// Between two rounds of killing: what dies needs a moment to be gone.
const KILL_PAUSE: Duration = Duration::from_millis(50);

/// Pauses between two looks at whether the main process has ended while its output is open. A look takes a millisecond.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(500);

pub(super) const TERM: &str = "TERM";
const KILL: &str = "KILL";

/// A shell line to run in a case's container.
#[derive(Debug)]
pub struct CaseExec<'a> {
    pub command: &'a str,
    /// Made if it isn't there. A relative one counts from the case's root.
    pub cwd: &'a str,
    /// On top of the image's own.
    pub env: Vec<(String, String)>,
    /// `None` gives an empty input.
    pub stdin: Option<Vec<u8>>,
    pub timeout: Duration,
}

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CaseStream {
    Stdout,
    Stderr,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseExit {
    /// As the shell tells it: 126 and 127 for what can't be run, 128 and the signal for what a signal ended; 124 when
    /// the time limit did.
    pub code: i32,
    pub timed_out: bool,
    /// It went on after TERM.
    pub killed_after_grace: bool,
    /// How many of its processes the kernel killed for want of memory.
    pub oom_kills: u64,
    pub duration: Duration,
}

type Sink<'a> = &'a mut (dyn FnMut(CaseStream, &[u8]) + Send);

impl CaseContainer {
    /// Runs a command to its end and hands its output to `sink` as it comes. Then nothing of the command is left.
    ///
    /// Dropping the future leaves the command running until the next one is started or the container is removed.
    ///
    /// # Errors
    /// `CANCELLED`, with the command running until the container is removed; `DRIVER_PROVISION_FAILED` when the
    /// container or the daemon is gone, with the signal `OOM_KILLED` if memory was why. A command that fails is no
    /// error.
    pub async fn exec(
        &self,
        exec: CaseExec<'_>,
        sink: Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<CaseExit, Fault> {
        if cancel.is_cancelled() {
            return Err(cancelled());
        }
        if self.unsettled.swap(true, Ordering::SeqCst) {
            self.kill_all().await?;
        }
        let began = Instant::now();
        let argv = [
            &*self.shell,
            "-c",
            script::ENTER,
            &absolute(exec.cwd),
            exec.command,
            &self.shell,
        ];
        let argv = argv.map(str::to_owned).to_vec();
        let env = exec
            .env
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let started = self
            .shared
            .engine
            .exec_attached(&self.id, argv, env, exec.stdin.is_some())
            .await;
        let started = match started {
            Ok(started) => started,
            Err(error) => return Err(self.exec_fault(error).await),
        };
        let mut command = Command::new(started, exec.stdin, sink);
        let end = command.watch(self, began + exec.timeout, cancel).await?;
        let duration = began.elapsed();
        command.drain(SETTLE).await;
        let oom_kills = self.kill_all().await?;
        command.drain(DRAIN).await;
        self.unsettled.store(false, Ordering::SeqCst);
        Ok(CaseExit {
            code: if end.timed_out { 124 } else { end.code },
            timed_out: end.timed_out,
            killed_after_grace: end.killed_after_grace,
            oom_kills,
            duration,
        })
    }

    /// Ends every process of the case and tells how many were lost for want of memory since the last time.
    pub(super) async fn kill_all(&self) -> Result<u64, Fault> {
        let deadline = Instant::now() + KILL_LIMIT;
        loop {
            match self.sweep(KILL).await {
                Ok(swept) if swept.left == 0 => {
                    let before = self.oom_kills.swap(swept.oom_kills, Ordering::Relaxed);
                    return Ok(swept.oom_kills.saturating_sub(before));
                }
                Err(error) if is_gone(&error) => return Err(self.exec_fault(error).await),
                Ok(_) | Err(_) if Instant::now() < deadline => sleep(KILL_PAUSE).await,
                outcome => {
                    let why = outcome
                        .err()
                        .map_or("some don't die".to_owned(), |error| error.to_string());
                    tracing::warn!(container = %self.name, why, "starting a case's container anew to end its processes");
                    self.start_anew().await?;
                    return Ok(0);
                }
            }
        }
    }

    async fn start_anew(&self) -> Result<(), Fault> {
        self.shared
            .engine
            .restart_container(&self.id)
            .await
            .map_err(EngineError::into_fault)?;
        self.fence().await?;
        self.find_idle().await?;
        let swept = self.sweep(TERM).await.map_err(EngineError::into_fault)?;
        self.oom_kills.store(swept.oom_kills, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a signal to every process of the case, as the image's user: when that is root it may signal anybody, and
    /// when it isn't, nobody in the container can become somebody else.
    pub(super) async fn sweep(&self, signal: &str) -> Result<Swept, EngineError> {
        let keep = self.keep.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let argv = vec![script::SWEEP.to_owned(), signal.to_owned(), keep];
        let answer = timeout(SWEEP_LIMIT, self.run_script(argv, SWEEP_LIMIT))
            .await
            .unwrap_or_else(|_| Err(EngineError::timed_out("end the processes of a case", SWEEP_LIMIT)))?;
        Swept::parse(&answer)
            .ok_or_else(|| EngineError::new(EngineErrorKind::Other, "end the processes of a case", answer))
    }

    async fn exec_fault(&self, error: EngineError) -> Fault {
        if is_gone(&error) {
            self.ended_by_itself().await
        } else {
            error.into_fault()
        }
    }
}

/// The container has ended, or isn't there any more.
fn is_gone(error: &EngineError) -> bool {
    matches!(error.kind, EngineErrorKind::Conflict | EngineErrorKind::NotFound)
}

/// Marks a fault as one of memory.
pub(super) fn out_of_memory(mut fault: Fault) -> Fault {
    fault.code = ErrorCode::HarnessRunFailed;
    fault.message.push_str(": it ran out of memory");
    fault.with_signal(SIGNAL_OOM)
}

/// How the main process ended.
struct End {
    code: i32,
    timed_out: bool,
    killed_after_grace: bool,
}

/// A command that runs.
struct Command<'a> {
    id: String,
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    open: bool,
    feed: BoxFuture<'static, ()>,
    fed: bool,
    sink: Sink<'a>,
}

impl<'a> Command<'a> {
    fn new(started: AttachedExec, stdin: Option<Vec<u8>>, sink: Sink<'a>) -> Self {
        let mut input = started.input;
        let feed = async move {
            // A command that doesn't read its input is no error.
            if input.write_all(&stdin.unwrap_or_default()).await.is_ok() {
                let _ = input.shutdown().await;
            }
        };
        Self {
            id: started.id,
            output: started.output,
            open: true,
            feed: feed.boxed(),
            fed: false,
            sink,
        }
    }

    /// Waits for the end of the main process, or brings it about at the time limit.
    async fn watch(
        &mut self,
        container: &CaseContainer,
        limit: Instant,
        cancel: &CancellationToken,
    ) -> Result<End, Fault> {
        let mut end = End {
            code: 0,
            timed_out: false,
            killed_after_grace: false,
        };
        let (mut stop_at, mut pause) = (limit, FIRST_LOOK);
        let mut look_at = Instant::now() + pause;
        loop {
            tokio::select! {
                // The output comes last: a flood of it must not hold up the clock.
                biased;
                () = cancel.cancelled() => return Err(cancelled()),
                () = sleep_until(stop_at) => {
                    if end.timed_out || container.sweep(TERM).await.is_err() {
                        end.killed_after_grace = end.timed_out;
                        end.timed_out = true;
                        return Ok(end);
                    }
                    end.timed_out = true;
                    stop_at = Instant::now() + GRACE;
                    (pause, look_at) = (FIRST_LOOK, Instant::now());
                }
                () = sleep_until(look_at) => {
                    match container.shared.engine.exec_state(&self.id).await {
                        Ok(ExecState::Ended(code)) => {
                            end.code = i32::try_from(code).unwrap_or(1);
                            return Ok(end);
                        }
                        Ok(ExecState::Running) => {}
                        Err(error) => return Err(container.exec_fault(error).await),
                    }
                    pause = (pause * 2).min(LAST_LOOK);
                    look_at = Instant::now() + pause;
                }
                () = &mut self.feed, if !self.fed => self.fed = true,
                piece = self.output.next(), if self.open => {
                    self.take(piece);
                    if !self.open {
                        (pause, look_at) = (FIRST_LOOK, Instant::now());
                    }
                }
            }
        }
    }

    /// Takes what is still to come, for a while.
    async fn drain(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.open {
            let Ok(piece) = timeout_at(deadline, self.output.next()).await else {
                return;
            };
            self.take(piece);
        }
    }

    fn take(&mut self, piece: Option<Result<LogOutput, Error>>) {
        match piece {
            Some(Ok(LogOutput::StdErr { message })) => (self.sink)(CaseStream::Stderr, &message),
            Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message })) => {
                (self.sink)(CaseStream::Stdout, &message);
            }
            Some(Ok(LogOutput::StdIn { .. })) => {}
            // What a broken connection means shows in the state of the command.
            Some(Err(_)) | None => self.open = false,
        }
    }
}
