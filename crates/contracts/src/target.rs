//! The runtime that a job targets, read from its name.

use std::fmt;

use crate::ids::RunnerId;

/// Where a job is to run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RuntimeTarget {
    /// Any runner of the submitter: `self`.
    Personal,
    /// One runner of the submitter: `self:<id>`. The id may be empty and is then found nowhere.
    PersonalRunner(RunnerId),
    /// Any runner that the workspace shares: `self:ws`.
    Workspace,
    /// One runner that the workspace shares: `self:ws:<id>`.
    WorkspaceRunner(RunnerId),
    /// A runtime that is not self-hosted.
    Other(String),
}

impl RuntimeTarget {
    /// Reads a target. The pools come first: `self:ws` is no runner called "ws".
    pub fn parse(text: &str) -> Self {
        match text {
            "self" => return Self::Personal,
            "self:ws" => return Self::Workspace,
            _ => {}
        }
        if let Some(id) = text.strip_prefix("self:ws:") {
            Self::WorkspaceRunner(RunnerId::from(id))
        } else if let Some(id) = text.strip_prefix("self:") {
            Self::PersonalRunner(RunnerId::from(id))
        } else {
            Self::Other(text.to_owned())
        }
    }

    /// Tells whether the target is a person's or a workspace's own machine.
    pub fn is_self_hosted(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// Prints the name that [`RuntimeTarget::parse`] reads.
impl fmt::Display for RuntimeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Personal => f.write_str("self"),
            Self::Workspace => f.write_str("self:ws"),
            Self::PersonalRunner(id) => write!(f, "self:{id}"),
            Self::WorkspaceRunner(id) => write!(f, "self:ws:{id}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_read_before_runners() {
        let cases = [
            ("self", RuntimeTarget::Personal),
            ("self:ws", RuntimeTarget::Workspace),
            ("self:ws:r1", RuntimeTarget::WorkspaceRunner("r1".into())),
            ("self:r1", RuntimeTarget::PersonalRunner("r1".into())),
            ("self:", RuntimeTarget::PersonalRunner("".into())),
            ("self:ws:", RuntimeTarget::WorkspaceRunner("".into())),
            ("self:wsx", RuntimeTarget::PersonalRunner("wsx".into())),
            ("selfish", RuntimeTarget::Other("selfish".into())),
            ("", RuntimeTarget::Other(String::new())),
        ];
        for (text, target) in cases {
            assert_eq!(RuntimeTarget::parse(text), target, "{text}");
            assert_eq!(target.to_string(), text);
        }
    }
}
