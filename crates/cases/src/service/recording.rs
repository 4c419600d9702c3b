//! Watches a case's browser while the case runs.

use std::sync::Arc;
use std::time::Duration;

use everdict_browser::{CdpEndpoint, Recorder, RecorderOptions, TrackSink};
use everdict_contracts::TrackEntry;

use super::patience::Patience;
use crate::context::Progress;

/// A recorder that is slow to start is one that the case goes on without.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Ends a recording in order; what comes later would not be in the trace any more.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A recording, or none where the browser can't be watched: it is evidence, and never a reason to fail.
pub(crate) struct Recording(Option<Recorder>);

struct Shown(Arc<dyn Progress>);

impl TrackSink for Shown {
    fn track(&self, entry: TrackEntry) {
        self.0.track(entry);
    }

    fn frame(&self, png_base64: String) {
        self.0.frame(png_base64);
    }
}

impl Recording {
    pub(crate) async fn start(base: Option<&str>, progress: &Arc<dyn Progress>, patience: &Patience) -> Self {
        let Some(base) = base else {
            return Self(None);
        };
        let start = async {
            let endpoint = CdpEndpoint::new(base)?;
            Recorder::start(
                &endpoint,
                Arc::new(Shown(Arc::clone(progress))),
                RecorderOptions::default(),
            )
            .await
        };
        match patience.within(START_LIMIT).wait(start).await {
            Ok(Ok(recorder)) => Self(Some(recorder)),
            Ok(Err(error)) => {
                progress.log(&format!("[everdict] the browser is not recorded: {error}"));
                Self(None)
            }
            Err(_) => Self(None),
        }
    }

    /// Ends it and gives out the console lines.
    pub(crate) async fn stop(self) -> Vec<String> {
        let Some(recorder) = self.0 else {
            return Vec::new();
        };
        let lines = recorder.console_lines();
        tokio::time::timeout(STOP_LIMIT, recorder.stop())
            .await
            .unwrap_or(lines)
    }
}
