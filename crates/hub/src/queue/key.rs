//! Who owns a queue, and which of the owner's queues it is.

use std::fmt;

use everdict_contracts::{RunnerId, Subject, WorkspaceId};

/// Prefix of the stored name of a workspace owner.
const WORKSPACE: &str = "ws:";

/// Whose runners and jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// One person, or one API key.
    Personal(Subject),
    /// Everybody in a workspace.
    Workspace(WorkspaceId),
}

impl Owner {
    /// Reads the stored form. No subject starts with the workspace prefix: keys that would are refused.
    pub(crate) fn parse(text: &str) -> Self {
        match text.strip_prefix(WORKSPACE) {
            Some(workspace) => Self::Workspace(WorkspaceId::from(workspace)),
            None => Self::Personal(Subject::from(text)),
        }
    }

    /// Says whether a subject would read as a workspace owner.
    pub(crate) fn is_reserved(subject: &str) -> bool {
        subject.starts_with(WORKSPACE)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Personal(subject) => write!(out, "{subject}"),
            Self::Workspace(workspace) => write!(out, "{WORKSPACE}{workspace}"),
        }
    }
}

/// A runner of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) owner: Owner,
    pub(crate) runner: RunnerId,
}

/// Which of an owner's queues.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    Runner(RunnerId),
    Pool,
}

impl Place {
    /// The pinned runner's id as it is stored.
    pub(crate) fn runner(&self) -> Option<String> {
        match self {
            Self::Runner(runner) => Some(runner.to_string()),
            Self::Pool => None,
        }
    }
}

/// Names one queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueueKey {
    pub(crate) owner: Owner,
    pub(crate) place: Place,
}

impl QueueKey {
    pub(crate) fn runner(member: &Member) -> Self {
        Self {
            owner: member.owner.clone(),
            place: Place::Runner(member.runner.clone()),
        }
    }

    pub(crate) fn pool(owner: &Owner) -> Self {
        Self {
            owner: owner.clone(),
            place: Place::Pool,
        }
    }
}

/// The name that goes into a leased job's `placement.target`.
impl fmt::Display for QueueKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Runner(runner) => write!(out, "self:{}:{runner}", self.owner),
            Place::Pool => write!(out, "self:{}:*", self.owner),
        }
    }
}

/// How urgent a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Somebody is looking at it.
    Interactive,
    /// Part of a larger lot.
    Batch,
}
