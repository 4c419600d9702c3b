//! Collects a case's trace and lets it be watched.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everdict_contracts::{LogEvent, OutputStream, TraceEvent, TraceEventKind};
use jiff::Timestamp;

use crate::context::Progress;

/// The trace so far. Events come from the harness as they happen; [`Recorder::flush`] shows the new ones.
pub(crate) struct Recorder {
    progress: Arc<dyn Progress>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: Vec<TraceEvent>,
    shown: usize,
}

impl Recorder {
    pub(crate) fn new(progress: Arc<dyn Progress>) -> Self {
        Self {
            progress,
            state: Mutex::default(),
        }
    }

    /// Records something that happens now.
    pub(crate) fn now(&self, kind: impl Into<TraceEventKind>) {
        self.record(event_at(Timestamp::now(), kind));
    }

    pub(crate) fn record(&self, event: TraceEvent) {
        self.state().events.push(event);
    }

    /// Records, and logs, something the reader of the result should know about how it came about.
    pub(crate) fn remark(&self, text: &str) {
        let text = format!("[everdict] {text}");
        self.progress.log(&text);
        self.now(LogEvent {
            stream: OutputStream::Stderr,
            text,
        });
    }

    /// Hands the events since the last flush to the live view.
    pub(crate) fn flush(&self) {
        let fresh = {
            let mut state = self.state();
            let end = state.events.len();
            let from = std::mem::replace(&mut state.shown, end);
            state.events[from..].to_vec()
        };
        if !fresh.is_empty() {
            self.progress.trace(fresh);
        }
    }

    /// What was recorded so far.
    pub(crate) fn copy(&self) -> Vec<TraceEvent> {
        self.state().events.clone()
    }

    /// Ends the recording.
    pub(crate) fn take(&self) -> Vec<TraceEvent> {
        let mut state = self.state();
        state.shown = 0;
        std::mem::take(&mut state.events)
    }

    /// A panic while holding the lock can't leave half an event behind, so the trace stays usable.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event of the given instant: `t` in milliseconds since the epoch, `at` the same as text.
pub(crate) fn event_at(instant: Timestamp, kind: impl Into<TraceEventKind>) -> TraceEvent {
    TraceEvent::new(epoch_ms(instant), kind).at(format!("{instant:.3}"))
}

/// Whole milliseconds, which a JSON number holds exactly for the next 285 000 years.
fn epoch_ms(instant: Timestamp) -> f64 {
    instant.as_millisecond() as f64
}
