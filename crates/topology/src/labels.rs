//! The labels by which a runner knows its own: engine objects can't be labelled later, so all of it is said at creation.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use crate::digest::SpecDigest;
use crate::plan::TopologyKey;

/// Installation that made the object: a random id kept in its state folder.
pub const INSTALL: &str = "everdict.install";
/// Runner that made the object.
pub const RUNNER: &str = "everdict.runner";
/// Name of the topology.
pub const TOPOLOGY: &str = "everdict.topology";
/// Workspace, harness and version, for people.
pub const KEY: &str = "everdict.key";
/// Digest of the resolved spec.
pub const DIGEST: &str = "everdict.digest";
/// What the object is, see [`Kind`].
pub const KIND: &str = "everdict.kind";
/// Service or store that the container runs.
pub const MEMBER: &str = "everdict.member";
/// Run that the object serves, when it serves one.
pub const RUN: &str = "everdict.run";
/// Attempt of the run, when the object serves one.
pub const ATTEMPT: &str = "everdict.attempt";
/// Process that made the object.
pub const OWNER_PID: &str = "everdict.owner-pid";
/// When that process started, as the system tells it: process ids are used again.
pub const OWNER_START: &str = "everdict.owner-start";
/// The boot in which it started: start times count from it.
pub const OWNER_BOOT: &str = "everdict.owner-boot";

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Store,
    Service,
    Browser,
    Network,
    Volume,
    /// A container in which a case's command runs.
    Case,
    /// A helper that puts up another container's egress rules.
    Gate,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Store,
        Self::Service,
        Self::Browser,
        Self::Network,
        Self::Volume,
        Self::Case,
        Self::Gate,
    ];

    /// Returns the value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Service => "service",
            Self::Browser => "browser",
            Self::Network => "network",
            Self::Volume => "volume",
            Self::Case => "case",
            Self::Gate => "gate",
        }
    }

    /// Reads the value of the label.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Who makes an object: the runner and the very process it runs in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    pub install: String,
    pub runner: String,
    pub pid: u32,
    /// Opaque text that no later process with the same id has.
    pub start: String,
    pub boot: String,
}

impl Owner {
    /// Returns the labels that name this owner.
    pub fn labels(&self) -> BTreeMap<String, String> {
        [
            (INSTALL, self.install.clone()),
            (RUNNER, self.runner.clone()),
            (OWNER_PID, self.pid.to_string()),
            (OWNER_START, self.start.clone()),
            (OWNER_BOOT, self.boot.clone()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Reads an owner from an object's labels; `None` when any part is missing, so that nothing can be proved.
    pub fn from_labels<S: BuildHasher>(labels: &HashMap<String, String, S>) -> Option<Self> {
        let text = |name: &str| labels.get(name).filter(|value| !value.is_empty()).cloned();
        Some(Self {
            install: text(INSTALL)?,
            runner: text(RUNNER)?,
            pid: text(OWNER_PID)?.parse().ok()?,
            start: text(OWNER_START)?,
            boot: text(OWNER_BOOT)?,
        })
    }
}

/// Returns the labels that all objects of a topology share.
pub fn of_topology(
    owner: &Owner,
    name: &str,
    key: &TopologyKey,
    digest: &SpecDigest,
) -> BTreeMap<String, String> {
    let mut labels = owner.labels();
    labels.insert(TOPOLOGY.to_owned(), name.to_owned());
    labels.insert(KEY.to_owned(), key.to_string());
    labels.insert(DIGEST.to_owned(), digest.to_string());
    labels
}

/// Adds what the object is, and which member of the topology, if it is one.
pub fn of_kind(
    base: &BTreeMap<String, String>,
    kind: Kind,
    member: Option<&str>,
) -> BTreeMap<String, String> {
    let mut labels = base.clone();
    labels.insert(KIND.to_owned(), kind.as_str().to_owned());
    if let Some(member) = member {
        labels.insert(MEMBER.to_owned(), member.to_owned());
    }
    labels
}

/// Adds the run and the attempt that an object serves.
pub fn of_case(base: &BTreeMap<String, String>, run: &str, attempt: &str) -> BTreeMap<String, String> {
    let mut labels = base.clone();
    labels.insert(RUN.to_owned(), run.to_owned());
    labels.insert(ATTEMPT.to_owned(), attempt.to_owned());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            install: "inst".to_owned(),
            runner: "rnr".to_owned(),
            pid: 42,
            start: "12345".to_owned(),
            boot: "b-1".to_owned(),
        }
    }

    #[test]
    fn an_owner_is_read_back_from_its_labels() {
        let labels: HashMap<_, _> = owner().labels().into_iter().collect();
        assert_eq!(Owner::from_labels(&labels), Some(owner()));
    }

    #[test]
    fn an_owner_with_any_part_missing_is_no_owner() {
        for name in [INSTALL, RUNNER, OWNER_PID, OWNER_START, OWNER_BOOT] {
            let mut labels: HashMap<_, _> = owner().labels().into_iter().collect();
            labels.remove(name);
            assert_eq!(Owner::from_labels(&labels), None, "without {name}");
            labels.insert(name.to_owned(), String::new());
            assert_eq!(Owner::from_labels(&labels), None, "with an empty {name}");
        }
    }

    #[test]
    fn kinds_are_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(Kind::parse("other"), None);
    }

    #[test]
    fn a_browser_says_which_case_it_serves() {
        let labels = of_kind(&of_case(&owner().labels(), "r1", "r1#g2"), Kind::Browser, None);
        assert_eq!(labels[KIND], "browser");
        assert_eq!(labels[RUN], "r1");
        assert_eq!(labels[ATTEMPT], "r1#g2");
        assert_eq!(labels[INSTALL], "inst");
    }
}
