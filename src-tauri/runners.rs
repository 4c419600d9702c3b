//! The pairings of this machine, as the page and the tray need them.

use everdict_app::{Paths, Registrations};
use serde::Serialize;

/// What is known about the runners of this machine without asking a hub.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum Runners {
    /// No pairing is on record.
    Unpaired,
    /// At least one pairing is on record; whether its runner works now is not known here.
    Paired {
        /// In the order of pairing.
        registrations: Vec<Registration>,
    },
    /// The record is there and can't be read.
    Unreadable {
        /// What is wrong with it.
        reason: String,
        /// What the person can do about it.
        #[serde(rename = "nextStep", skip_serializing_if = "Option::is_none")]
        next_step: Option<String>,
    },
}

/// One pairing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registration {
    /// The name under which the hub lists the runner.
    pub label: String,
    /// The hub's address.
    pub hub: String,
    /// What a run targets to land on this runner.
    pub runtime: String,
}

impl Runners {
    /// Reads the record of this installation.
    pub fn read(paths: &Paths) -> Self {
        match Registrations::at(paths.registrations_file()).list() {
            Ok(known) if known.is_empty() => Self::Unpaired,
            Ok(known) => Self::Paired {
                registrations: known.into_iter().map(Registration::from).collect(),
            },
            Err(problem) => Self::Unreadable {
                reason: problem.to_string(),
                next_step: problem.next_step().map(str::to_owned),
            },
        }
    }
}

impl From<everdict_app::Registration> for Registration {
    fn from(known: everdict_app::Registration) -> Self {
        Self {
            runtime: format!("self:{}", known.runner_id),
            label: known.label,
            hub: known.hub_url,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_installation_is_unpaired() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Runners::read(&Paths::under(home.path())), Runners::Unpaired);
    }

    #[test]
    fn a_pairing_shows_with_what_a_run_targets() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path());
        Registrations::at(paths.registrations_file())
            .put(everdict_app::Registration {
                runner_id: "r-1".into(),
                label: "bench".into(),
                hub_url: "http://127.0.0.1:8787".into(),
                owner: "key:default".into(),
                workspace: "default".into(),
                store: everdict_app::StoreKind::File,
                paired_at: "2026-01-01T00:00:00Z".into(),
            })
            .unwrap();
        assert_eq!(
            Runners::read(&paths),
            Runners::Paired {
                registrations: vec![Registration {
                    label: "bench".into(),
                    hub: "http://127.0.0.1:8787".into(),
                    runtime: "self:r-1".into(),
                }]
            }
        );
    }

    #[test]
    fn a_record_that_is_nonsense_is_not_taken_for_unpaired() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path());
        paths.prepare().unwrap();
        std::fs::write(paths.registrations_file(), "nonsense").unwrap();
        let Runners::Unreadable { reason, next_step } = Runners::read(&paths) else {
            panic!("nonsense was read");
        };
        assert!(reason.contains("runners.json"), "{reason}");
        assert!(next_step.is_some(), "a refusal comes with its next step");
    }
}
