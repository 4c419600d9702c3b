//! What the machinery did for a case, and when.

use std::sync::Arc;

use everdict_contracts::{InfraEvent, InfraScope, TraceEvent};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::context::Progress;
use crate::harness::millis;

/// The marks of a case, in order. Their `t` counts milliseconds from its start; `at` is the time of day.
pub(crate) struct Marks {
    progress: Arc<dyn Progress>,
    begun: Instant,
    events: Vec<TraceEvent>,
}

impl Marks {
    /// Starts to count.
    pub(crate) fn new(progress: Arc<dyn Progress>) -> Self {
        Self {
            progress,
            begun: Instant::now(),
            events: Vec::new(),
        }
    }

    /// Records something about the placement, and shows it.
    pub(crate) fn mark(&mut self, event: &str, message: impl Into<String>) {
        let message = message.into();
        self.progress.log(&format!("[everdict] {message}"));
        let event = self.event(InfraEvent {
            event: Some(event.to_owned()),
            ..InfraEvent::new(InfraScope::Placement, message)
        });
        self.progress.trace(vec![event.clone()]);
        self.events.push(event);
    }

    /// An event of now.
    pub(crate) fn event(&self, event: InfraEvent) -> TraceEvent {
        let t = f64::from(millis(self.begun.elapsed()));
        TraceEvent::new(t, event).at(format!("{:.3}", Timestamp::now()))
    }

    /// Milliseconds since the case began.
    pub(crate) fn elapsed_ms(&self) -> u32 {
        millis(self.begun.elapsed())
    }

    /// The marks in words, for a failure.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.events.iter().filter_map(|event| match &event.kind {
            everdict_contracts::TraceEventKind::Infra(infra) => Some(format!(
                "+{}ms {}: {}",
                event.t,
                infra.event.as_deref().unwrap_or_default(),
                infra.message
            )),
            _ => None,
        });
        words.collect()
    }

    /// The marks for the trace.
    pub(crate) fn into_events(self) -> Vec<TraceEvent> {
        self.events
    }
}
