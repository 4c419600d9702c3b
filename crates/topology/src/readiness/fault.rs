use std::fmt;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, SIGNAL_OOM};

use crate::engine::EngineError;

/// Whose container it is, and so who can help when it ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// A service of the harness: another attempt ends the same way.
    Harness,
    /// A store or a browser that this runtime chose.
    Machine,
}

/// A container that isn't ready, and why.
#[derive(Debug, Clone)]
pub struct NotReady {
    /// What people call it, such as `service web`.
    pub what: String,
    pub blame: Blame,
    /// Why.
    pub reason: NotReadyReason,
    /// Its last 50 lines.
    pub log: String,
}

/// Why a container isn't ready.
#[derive(Debug, Clone)]
pub enum NotReadyReason {
    /// It has ended.
    Ended {
        code: i64,
        /// The kernel killed it, or one of its processes, for want of memory.
        oom_killed: bool,
        /// The daemon's own word, when it never ran.
        error: String,
    },
    /// It is running, and still not ready at the deadline.
    TimedOut {
        budget: Duration,
        /// What the last look saw.
        last: String,
    },
    /// The caller doesn't want it any more.
    Cancelled,
    /// The daemon failed.
    Engine(EngineError),
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match &self.reason {
            NotReadyReason::Ended {
                oom_killed: true,
                code,
                ..
            } => {
                write!(
                    f,
                    "{what} ran out of memory before it was ready (exit code {code})"
                )
            }
            NotReadyReason::Ended { code, error, .. } if !error.is_empty() => {
                write!(f, "{what} ended before it was ready (exit code {code}): {error}")
            }
            NotReadyReason::Ended { code, .. } => {
                write!(f, "{what} ended before it was ready (exit code {code})")
            }
            NotReadyReason::TimedOut { budget, last } => {
                write!(
                    f,
                    "{what} was not ready within {:.1} s: {last}",
                    budget.as_secs_f32()
                )
            }
            NotReadyReason::Cancelled => write!(f, "the wait for {what} was cancelled"),
            NotReadyReason::Engine(error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for NotReady {}

impl NotReady {
    /// Turns it into the failure of a case that was being driven when a member ended.
    pub(crate) fn into_broken_fault(self) -> Fault {
        let message = self
            .to_string()
            .replace("before it was ready", "while the case was driven");
        let code = match self.blame {
            Blame::Harness => ErrorCode::HarnessRunFailed,
            Blame::Machine => ErrorCode::UpstreamError,
        };
        let mut fault = Fault::new(code, message);
        if matches!(self.reason, NotReadyReason::Ended { oom_killed: true, .. }) {
            fault = fault.with_signal(SIGNAL_OOM);
        }
        if self.log.is_empty() {
            fault
        } else {
            fault.with_log_tail(self.log)
        }
    }

    /// Turns it into the failure of a case.
    pub fn into_fault(self) -> Fault {
        let message = self.to_string();
        let ended = match self.blame {
            Blame::Harness => ErrorCode::HarnessInstallFailed,
            Blame::Machine => ErrorCode::DriverProvisionFailed,
        };
        let fault = match self.reason {
            NotReadyReason::Engine(error) => Fault::new(error.into_fault().code, message),
            NotReadyReason::Cancelled => Fault::cancelled(message),
            NotReadyReason::Ended { oom_killed: true, .. } => {
                Fault::new(ended, message).with_signal(SIGNAL_OOM)
            }
            NotReadyReason::Ended { .. } => Fault::new(ended, message),
            NotReadyReason::TimedOut { .. } => Fault::new(ErrorCode::UpstreamError, message),
        };
        if self.log.is_empty() {
            fault
        } else {
            fault.with_log_tail(self.log)
        }
    }
}
