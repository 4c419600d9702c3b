//! Carries log lines, live trace events and what a browser shows of one attempt to the hub, beside the job.
//!
//! The job only ever appends to a bounded buffer, which goes on on disk when the hub is away or can't keep up. Beyond that
//! the newest lines are left out and an explicit gap says how many. Everything here is best effort: the result carries the whole trace.

mod buffer;
mod sights;
mod spool;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everdict_contracts::{AttemptToken, JobId, TraceEvent, TrackEntry};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::board::Board;
use crate::hub::{Hub, Push};
use buffer::{Batch, Buffer};

/// Whose stream of a job's log is the runner's own.
const OWN_STREAM: &str = "runner";
/// Whose is the agent's.
const AGENT_STREAM: &str = "agent";
/// Whose is the browser's.
const BROWSER_STREAM: &str = "browser";

/// Lines that come within this travel in one call: an agent prints in bursts, and nobody reads faster.
const LOG_WINDOW: Duration = Duration::from_millis(100);
/// How much of the live trace travels at once; the cadence that the existing runner has.
const TRACE_WINDOW: Duration = Duration::from_secs(1);
/// Before the result goes out, the rest of the log gets this long. A hub that is away must not hold the verdict.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// A hub that is just back takes what it missed for this long; the result is there within half a minute.
const FLUSH_LIMIT: Duration = Duration::from_secs(20);
/// First wait after a push without an answer. The session has by then tried twice.
const RETRY_BASE: Duration = Duration::from_millis(500);
/// Between two tries while the result waits for the log.
const LAST_RETRY: Duration = Duration::from_millis(200);
/// A log that lags by more than this would look stuck after the hub is back.
const RETRY_CAP: Duration = Duration::from_secs(10);

/// The job's side: appends and never waits. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Evidence {
    shared: Arc<Shared>,
}

struct Shared {
    job_id: JobId,
    board: Board,
    buffer: Mutex<Buffer>,
    /// How many pushes the hub has taken.
    taken: AtomicU64,
    grown: Notify,
    refused: Notify,
}

impl Evidence {
    /// `folder` is where lines wait on disk when the hub is away.
    pub(crate) fn new(job_id: JobId, board: Board, folder: PathBuf) -> Self {
        Self {
            shared: Arc::new(Shared {
                job_id,
                board,
                buffer: Mutex::new(Buffer::spooling_in(folder)),
                taken: AtomicU64::new(0),
                grown: Notify::new(),
                refused: Notify::new(),
            }),
        }
    }

    /// Waits until the hub has refused evidence by its authority: a reason to ask about the lease now, since a
    /// cancel shows here long before the next heartbeat is due. Ends at most once.
    pub(crate) async fn refused(&self) {
        self.shared.refused.notified().await;
    }

    /// Sends what is appended until `stop`, then the rest of the log, within a deadline.
    ///
    /// A push that the hub refuses by its authority ends the pushing: the lease is no longer ours. A push that it
    /// refuses by its schema becomes a gap, and the next ones go on.
    pub(crate) async fn pump(&self, hub: &Hub, attempt: &AttemptToken, stop: CancellationToken) {
        let deadline = async {
            stop.cancelled().await;
            let end = Instant::now() + FLUSH_LIMIT;
            loop {
                let before = self.shared.taken.load(Ordering::Relaxed);
                tokio::time::sleep(FLUSH_TIMEOUT).await;
                // A hub that takes the rest is given the time for it.
                let goes_on = self.shared.taken.load(Ordering::Relaxed) > before;
                if !goes_on || Instant::now() >= end {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = self.send_until(&stop, hub, attempt) => {}
            () = deadline => tracing::debug!(job = %attempt.job_id, "the end of the log did not get through"),
        }
    }

    /// A call in flight is never cut by `stop`: its lines would be lost.
    async fn send_until(&self, stop: &CancellationToken, hub: &Hub, attempt: &AttemptToken) {
        let mut backoff = Backoff::new(RETRY_BASE, RETRY_CAP);
        let started = Instant::now();
        let mut trace_due = started + TRACE_WINDOW;
        loop {
            let last_round = self.rest(stop, trace_due).await;
            loop {
                // The rest of a trace that was shown live is shown too. That of a shorter job is in the result.
                let trace_now = if last_round {
                    started.elapsed() >= TRACE_WINDOW
                } else {
                    Instant::now() >= trace_due
                };
                let Some(batch) = self.next_batch(trace_now) else {
                    break;
                };
                if matches!(batch, Batch::Trace(_)) {
                    trace_due = Instant::now() + TRACE_WINDOW;
                }
                match self.send(hub, attempt, batch).await {
                    Ok(()) => backoff.reset(),
                    Err(Stop::Refused) => {
                        self.shared.refused.notify_one();
                        return;
                    }
                    // The hub may be back in this very moment; how long that is worth is the caller's to say.
                    Err(Stop::Away) if stop.is_cancelled() => tokio::time::sleep(LAST_RETRY).await,
                    Err(Stop::Away) => {
                        let _ = tokio::time::timeout(backoff.next(), stop.cancelled()).await;
                    }
                }
            }
            if last_round {
                return;
            }
        }
    }

    /// Waits for something to send. Returns whether this is the last round.
    async fn rest(&self, stop: &CancellationToken, trace_due: Instant) -> bool {
        let something = async {
            if self.buffer().has_trace() {
                // Also when nothing more is printed.
                let _ = tokio::time::timeout_at(trace_due, self.shared.grown.notified()).await;
            } else {
                self.shared.grown.notified().await;
            }
            tokio::time::sleep(LOG_WINDOW).await;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => true,
            () = something => false,
        }
    }

    fn next_batch(&self, trace_now: bool) -> Option<Batch> {
        let mut buffer = self.buffer();
        match buffer.next_log() {
            Some(batch) => Some(batch),
            // Before the sights: a busy page must not hold up the trace.
            None if trace_now => buffer.next_trace().or_else(|| buffer.next_sight()),
            None => buffer.next_sight(),
        }
    }

    async fn send(&self, hub: &Hub, attempt: &AttemptToken, batch: Batch) -> Result<(), Stop> {
        let pushed = match &batch {
            Batch::Log { text, .. } => hub.push_log(attempt, text).await,
            Batch::Trace(events) => hub.push_trace(attempt, events).await,
            Batch::Track(item) => hub.push_track(attempt, item).await,
            Batch::Frame(frame) => hub.push_frame(attempt, frame).await,
        };
        match pushed {
            Push::Taken => {
                self.shared.taken.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Push::Refused => Err(Stop::Refused),
            Push::Unreadable => {
                self.buffer().gap_for(&batch);
                Ok(())
            }
            Push::Unanswered => {
                self.buffer().put_back(batch);
                Err(Stop::Away)
            }
        }
    }

    fn buffer(&self) -> std::sync::MutexGuard<'_, Buffer> {
        self.shared.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why pushing pauses or ends.
enum Stop {
    Refused,
    Away,
}

impl everdict_cases::Progress for Evidence {
    fn log(&self, line: &str) {
        self.shared.board.log_line(&self.shared.job_id, None, line);
        self.buffer().push_line(line);
        self.shared.grown.notify_one();
    }

    /// For who looks on here: the hub gets the ends of these logs with the result.
    fn log_of(&self, part: &str, line: &str) {
        // The streams of a log are told apart by name, and these names are taken.
        let taken = [OWN_STREAM, AGENT_STREAM, BROWSER_STREAM].contains(&part);
        let part = if taken {
            format!("{part} (container)")
        } else {
            part.to_owned()
        };
        self.shared.board.log_line(&self.shared.job_id, Some(&part), line);
    }

    fn trace(&self, events: Vec<TraceEvent>) {
        if events.is_empty() {
            return;
        }
        self.buffer().push_trace(events);
        self.shared.grown.notify_one();
    }

    fn track(&self, entry: TrackEntry) {
        if let Some(line) = sights::line(&entry) {
            self.shared
                .board
                .log_line(&self.shared.job_id, Some(BROWSER_STREAM), &line);
        }
        self.buffer().push_track(entry);
        self.shared.grown.notify_one();
    }

    fn frame(&self, png_base64: String) {
        self.buffer().push_frame(png_base64);
        self.shared.grown.notify_one();
    }
}
