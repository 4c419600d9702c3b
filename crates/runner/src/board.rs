//! What the runner shows: a snapshot that is always current, and events for those who want every step.

mod state;
mod status;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everdict_contracts::{CaseJob, JobId, StatusLevel, clip_status};
use jiff::Timestamp;
use tokio::sync::{broadcast, watch};

use crate::attempt::{Outcome, StopReason};
use crate::capabilities::CapabilityReport;
use crate::session::CallError;
pub use state::{
    ActiveJob, Counters, JobSummary, OfflineCause, RunnerEvent, RunnerSnapshot, RunnerState, ScoreSummary,
};
use state::{Link, Phase};

/// Log lines of a burst that a view may lag behind. A view that lags more learns how many it missed.
const EVENT_BACKLOG: usize = 1024;
/// The time of the last answer is for people: more often than once a second would only wake the views.
const ANSWER_GRAIN: Duration = Duration::from_secs(1);

/// The one place where state becomes visible. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Board {
    shared: Arc<Shared>,
}

struct Shared {
    snapshot: watch::Sender<RunnerSnapshot>,
    events: broadcast::Sender<RunnerEvent>,
    hidden: Mutex<Hidden>,
}

/// What the visible state is derived from.
struct Hidden {
    link: Link,
    phase: Phase,
    note: Option<String>,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board")
            .field("state", &self.shared.snapshot.borrow().state)
            .finish_non_exhaustive()
    }
}

impl Board {
    pub(crate) fn new(capabilities: CapabilityReport) -> Self {
        Self {
            shared: Arc::new(Shared {
                snapshot: watch::Sender::new(RunnerSnapshot::starting(capabilities)),
                events: broadcast::Sender::new(EVENT_BACKLOG),
                hidden: Mutex::new(Hidden {
                    link: Link::Connecting,
                    phase: Phase::Serving,
                    note: None,
                }),
            }),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<RunnerSnapshot> {
        self.shared.snapshot.subscribe()
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<RunnerEvent> {
        self.shared.events.subscribe()
    }

    /// The hub answered in a way that a healthy one does.
    pub(crate) fn answered(&self) {
        self.set_link(Link::Online);
        let now = Timestamp::now();
        self.shared.snapshot.send_if_modified(|snapshot| {
            let recent = snapshot
                .last_answer
                .is_some_and(|last| now.duration_since(last).unsigned_abs() < ANSWER_GRAIN);
            if !recent {
                snapshot.last_answer = Some(now);
            }
            !recent
        });
    }

    /// A call failed for good.
    pub(crate) fn failed(&self, error: &CallError) {
        self.set_link(Link::from_error(error));
    }

    /// What the hub says about pausing this machine; `None` ends a pause.
    pub(crate) fn hub_paused(&self, reason: Option<&String>) {
        self.shared.snapshot.send_if_modified(|snapshot| {
            let changed = snapshot.hub_pause.as_ref() != reason;
            if changed {
                tracing::info!(reason = reason.map(String::as_str), "pause at the hub");
                snapshot.hub_pause = reason.map(|reason| clip_status(reason));
            }
            changed
        });
    }

    pub(crate) fn update_required(&self, server_protocol: Option<i64>) {
        self.set_link(Link::UpdateRequired { server_protocol });
    }

    fn set_link(&self, link: Link) {
        let changed = {
            let mut hidden = self.hidden();
            let changed = hidden.link != link;
            if changed {
                // The text of a failure varies from try to try; people want one line per change of kind.
                if hidden.link.kind() == link.kind() {
                    tracing::debug!(%link, "hub");
                } else if link.is_trouble() {
                    tracing::warn!(%link, "hub");
                } else {
                    tracing::info!(%link, "hub");
                }
                hidden.link = link;
            }
            changed
        };
        if changed {
            self.refresh(|_| {});
        }
    }

    pub(crate) fn draining(&self) {
        {
            let mut hidden = self.hidden();
            // A wish that comes after the end changes nothing.
            if hidden.phase == Phase::Serving {
                hidden.phase = Phase::Draining;
            }
        }
        self.refresh(|_| {});
    }

    pub(crate) fn stopped(&self) {
        self.hidden().phase = Phase::Stopped;
        self.refresh(|_| {});
    }

    pub(crate) fn capabilities(&self, report: CapabilityReport) {
        self.shared.snapshot.send_if_modified(|snapshot| {
            let changed = snapshot.capabilities != report;
            if changed {
                snapshot.capabilities = report;
            }
            changed
        });
    }

    /// The words to offer with a lease or a heartbeat.
    pub(crate) fn offered(&self) -> Vec<String> {
        self.shared.snapshot.borrow().capabilities.words()
    }

    pub(crate) fn job_started(&self, job_id: &JobId, lease_epoch: u64, job: &CaseJob) -> ActiveJob {
        let active = ActiveJob::new(job_id, lease_epoch, job);
        self.refresh(|snapshot| {
            snapshot.counters.leased += 1;
            snapshot.active.push(active.clone());
        });
        self.emit(RunnerEvent::JobStarted(active.clone()));
        active
    }

    pub(crate) fn job_stopping(&self, job_id: &JobId, reason: StopReason) {
        self.refresh(|snapshot| {
            if let Some(job) = snapshot.active.iter_mut().find(|job| job.job_id == *job_id) {
                job.stopping = Some(reason);
            }
        });
    }

    pub(crate) fn job_finished(&self, summary: JobSummary) {
        let note = summary.failure.as_ref().map(status::failure_note);
        self.hidden().note.clone_from(&note);
        self.refresh(|snapshot| {
            snapshot.note = note;
            snapshot.active.retain(|job| job.job_id != summary.job_id);
            snapshot.counters.count(summary.outcome);
        });
        self.emit(RunnerEvent::JobFinished(Box::new(summary)));
    }

    /// A leased job that could not be read.
    pub(crate) fn job_unreadable(&self, outcome: Outcome) {
        self.refresh(|snapshot| {
            snapshot.counters.leased += 1;
            snapshot.counters.count(outcome);
        });
    }

    /// A result of an earlier process has its answer.
    pub(crate) fn job_delivered(&self, outcome: Outcome) {
        self.refresh(|snapshot| snapshot.counters.count(outcome));
    }

    pub(crate) fn log_line(&self, job_id: &JobId, part: Option<&str>, line: &str) {
        if self.shared.events.receiver_count() > 0 {
            self.emit(RunnerEvent::LogLine {
                job_id: job_id.clone(),
                part: part.map(str::to_owned),
                line: line.to_owned(),
            });
        }
    }

    /// The note that goes with every lease and heartbeat, within the protocol's limit.
    pub(crate) fn status(&self) -> (String, StatusLevel) {
        let hidden = self.hidden();
        status::status(
            &hidden.link,
            &self.shared.snapshot.borrow().active,
            hidden.note.as_deref(),
        )
    }

    fn emit(&self, event: RunnerEvent) {
        // Nobody watching is fine.
        let _ = self.shared.events.send(event);
    }

    /// Applies a change and derives the visible state anew, under one lock of the snapshot.
    fn refresh(&self, change: impl FnOnce(&mut RunnerSnapshot)) {
        let hidden = self.hidden();
        self.shared.snapshot.send_modify(|snapshot| {
            change(snapshot);
            snapshot.state = hidden.link.state(hidden.phase, snapshot.active.len());
        });
    }

    fn hidden(&self) -> std::sync::MutexGuard<'_, Hidden> {
        self.shared.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::UnreachableCause;

    fn state(board: &Board) -> RunnerState {
        board.subscribe().borrow().state.clone()
    }

    #[test]
    fn the_state_follows_the_link_and_the_phase() {
        let board = Board::new(CapabilityReport::default());
        assert_eq!(state(&board), RunnerState::Connecting);
        board.answered();
        assert_eq!(state(&board), RunnerState::Idle);
        board.failed(&CallError::Unreachable {
            cause: UnreachableCause::Dns,
            detail: "no such host".to_owned(),
        });
        assert!(matches!(
            state(&board),
            RunnerState::Offline {
                cause: OfflineCause::Dns,
                ..
            }
        ));
        board.draining();
        assert_eq!(state(&board), RunnerState::Draining);
        board.stopped();
        board.answered();
        board.draining();
        assert_eq!(state(&board), RunnerState::Stopped);
    }

    #[test]
    fn an_answer_each_millisecond_does_not_wake_the_views() {
        let board = Board::new(CapabilityReport::default());
        board.answered();
        let mut seen = board.subscribe();
        seen.mark_unchanged();
        board.answered();
        assert!(!seen.has_changed().unwrap());
    }

    #[test]
    fn status_over_200_is_clipped() {
        let board = Board::new(CapabilityReport::default());
        board.answered();
        board.hidden().note = Some("ü😀".repeat(300));
        let (text, level) = board.status();
        assert_eq!(level, StatusLevel::Error);
        assert!(text.encode_utf16().count() <= 200, "{text}");
    }
}
