//! What clients have asked for, for assertions.

use std::sync::Arc;

use tokio::time::Instant;

use super::fault::Op;
use super::state::Shared;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// It hasn't.
    Open,
    /// The head of an answer with this status was sent.
    Answered(u16),
    /// The client hung up first, or the daemon went away.
    Dropped,
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    pub op: Op,
    /// Name or id in the path, or the name that something is to get.
    pub target: String,
    pub at: Instant,
    pub end: CallEnd,
}

/// How a pull ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullEnd {
    Running,
    Complete,
    Failed,
    /// The client hung up, which makes the daemon give up.
    Dropped,
}

/// A pull.
#[derive(Debug, Clone)]
pub struct PullRecord {
    pub reference: String,
    /// The `X-Registry-Auth` header as it came; empty without one.
    pub login: String,
    pub end: PullEnd,
    /// When it ended.
    pub ended_at: Option<Instant>,
}

/// Notes that a call was dropped unless it was answered.
pub(super) struct CallGuard {
    shared: Arc<Shared>,
    index: usize,
}

impl CallGuard {
    pub(super) fn open(shared: &Arc<Shared>, op: Op, target: &str) -> Self {
        let index = shared.edit(|state| {
            let call = Call {
                op,
                target: target.to_owned(),
                at: Instant::now(),
                end: CallEnd::Open,
            };
            state.calls.push(call);
            state.calls.len() - 1
        });
        Self {
            shared: Arc::clone(shared),
            index,
        }
    }

    fn end(&self, end: CallEnd) {
        self.shared.edit(|state| {
            if let Some(call) = state.calls.get_mut(self.index)
                && call.end == CallEnd::Open
            {
                call.end = end;
            }
        });
    }

    pub(super) fn answered(&self, status: u16) {
        self.end(CallEnd::Answered(status));
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.end(CallEnd::Dropped);
    }
}

/// Notes that a pull was dropped unless it came to another end.
pub(super) struct PullGuard {
    shared: Arc<Shared>,
    index: usize,
}

impl PullGuard {
    pub(super) fn open(shared: &Arc<Shared>, reference: &str, login: &str) -> Self {
        let (reference, login) = (reference.to_owned(), login.to_owned());
        let record = PullRecord {
            reference,
            login,
            end: PullEnd::Running,
            ended_at: None,
        };
        let index = shared.edit(|state| {
            state.pulls.push(record);
            state.pulls.len() - 1
        });
        Self {
            shared: Arc::clone(shared),
            index,
        }
    }

    pub(super) fn end(&self, end: PullEnd) {
        self.shared.edit(|state| {
            if let Some(pull) = state.pulls.get_mut(self.index)
                && pull.end == PullEnd::Running
            {
                pull.end = end;
                pull.ended_at = Some(Instant::now());
            }
        });
    }
}

impl Drop for PullGuard {
    fn drop(&mut self) {
        self.end(PullEnd::Dropped);
    }
}
