//! What a case gets from the process that runs it.

use std::path::PathBuf;
use std::sync::Arc;

use everdict_contracts::{Fault, TraceEvent, TrackEntry};
use everdict_exec::{HostEnv, Redactor};
use everdict_topology::case_container::CaseContainers;
use tokio_util::sync::CancellationToken;

use crate::service::TopologyPort;

/// Receives what a case shows while it runs. Called on the task that drives the case, so it must not block.
pub trait Progress: Send + Sync {
    /// One line of output or of the runner's own remarks, without its end, at most 16 000 characters.
    fn log(&self, line: &str);

    /// One line that a part of the case's surroundings printed, by its name: a service, a store, the browser. As
    /// [`Progress::log`] otherwise. Nobody has to look: the result carries the ends of these logs.
    fn log_of(&self, _part: &str, _line: &str) {}

    /// New trace events, in order; each event comes once.
    fn trace(&self, events: Vec<TraceEvent>);

    /// A request, a console line or a navigation of the case's browser. Nobody has to look.
    fn track(&self, _entry: TrackEntry) {}

    /// A picture of the case's browser: PNG in base64. Nobody has to look.
    fn frame(&self, _png_base64: String) {}
}

/// The outside world of one case.
#[derive(Clone)]
pub struct CaseContext {
    /// The environment of this process, as captured at start.
    pub host_env: Arc<HostEnv>,
    /// Scratch directories are created in here.
    pub work_root: PathBuf,
    /// Gets the live view.
    pub progress: Arc<dyn Progress>,
    /// Where service topologies run; without one a service case is refused.
    pub services: Option<Arc<dyn TopologyPort>>,
    /// Makes the containers of cases that name an image; without one such a case is refused.
    pub containers: Option<Arc<CaseContainers>>,
    /// What nothing of the case may show, beside the secrets of the job itself.
    pub mask: Arc<Redactor>,
    /// Stops the case.
    pub cancel: CancellationToken,
}

impl CaseContext {
    /// # Errors
    /// `CANCELLED` once the token is cancelled.
    pub(crate) fn still_wanted(&self) -> Result<(), Fault> {
        if self.cancel.is_cancelled() {
            Err(cancelled())
        } else {
            Ok(())
        }
    }
}

/// The fault of a case that was stopped from outside.
pub(crate) fn cancelled() -> Fault {
    Fault::cancelled("the run was cancelled")
}
