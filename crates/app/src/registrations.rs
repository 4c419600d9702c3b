//! The runners paired on this machine, at any number of hubs. Never a token.

use std::fs::File;
use std::path::{Path, PathBuf};

use everdict_contracts::RunnerId;
use serde::{Deserialize, Serialize};

use crate::hub_url;
use crate::private_file;
use crate::problem::{Problem, ProblemClass, Result};
use crate::secrets::{SecretName, StoreKind};

/// The layout of the file; a newer one is refused rather than cut down.
const VERSION: u32 = 1;

/// One paired runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    /// The id the hub gave.
    pub runner_id: RunnerId,
    /// The name people know it by.
    pub label: String,
    /// The hub's address, without a trailing slash.
    pub hub_url: String,
    /// Whose runner it is, in the hub's words.
    pub owner: String,
    /// The workspace it was paired in, in the hub's words.
    pub workspace: String,
    /// Where its token is kept.
    pub store: StoreKind,
    /// When it was paired, RFC 3339.
    pub paired_at: String,
}

impl Registration {
    /// Returns the parsed address of its hub.
    ///
    /// # Errors
    /// A problem about input when the file was edited into nonsense.
    pub fn hub(&self) -> Result<reqwest::Url> {
        hub_url::parse(&self.hub_url)
    }

    /// Returns the name its token is kept under.
    ///
    /// # Errors
    /// As [`Registration::hub`].
    pub fn secret_name(&self) -> Result<SecretName> {
        Ok(SecretName::runner(&self.hub()?, &self.runner_id))
    }

    fn same_runner(&self, other: &Self) -> bool {
        self.runner_id == other.runner_id && self.hub_url == other.hub_url
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    runners: Vec<Registration>,
}

/// The file of registrations. Every change is written whole, under a lock against other processes.
#[derive(Debug, Clone)]
pub struct Registrations {
    path: PathBuf,
}

impl Registrations {
    /// Names the file; nothing is read yet.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reads all registrations, oldest first.
    ///
    /// # Errors
    /// A problem about this machine that names the file and the line.
    pub fn list(&self) -> Result<Vec<Registration>> {
        let Some(bytes) = private_file::read(&self.path)? else {
            return Ok(Vec::new());
        };
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&error))?;
        if stored.version != VERSION {
            return Err(Problem::machine(format!(
                "{} was written by a newer version (layout {})",
                self.path.display(),
                stored.version
            ))
            .fix("update Everdict Runner, or move the file away and pair again"));
        }
        Ok(stored.runners)
    }

    /// Finds the runners meant by `wanted` (ids or labels); none wanted means all.
    ///
    /// # Errors
    /// Not paired when there is none at all, input when a name fits none or several.
    pub fn select(&self, wanted: &[String]) -> Result<Vec<Registration>> {
        let all = self.list()?;
        if all.is_empty() {
            return Err(
                Problem::new(ProblemClass::NotPaired, "this machine is not paired with any hub")
                    .fix("run: everdict-runner pair --hub <address>"),
            );
        }
        if wanted.is_empty() {
            return Ok(all);
        }
        wanted.iter().map(|name| pick(&all, name)).collect()
    }

    /// Adds `registration`, or replaces the one of the same runner.
    ///
    /// # Errors
    /// A problem about this machine; the file is then as before.
    pub fn put(&self, registration: Registration) -> Result<()> {
        self.change(|runners| {
            runners.retain(|known| !known.same_runner(&registration));
            runners.push(registration);
        })
    }

    /// Removes the registration of the same runner; one that isn't there is fine.
    ///
    /// # Errors
    /// A problem about this machine; the file is then as before.
    pub fn remove(&self, registration: &Registration) -> Result<()> {
        self.change(|runners| runners.retain(|known| !known.same_runner(registration)))
    }

    fn change(&self, edit: impl FnOnce(&mut Vec<Registration>)) -> Result<()> {
        let dir = self.path.parent().unwrap_or_else(|| Path::new("."));
        private_file::prepare_dir(dir)?;
        let _lock = self.lock()?;
        let mut runners = self.list()?;
        edit(&mut runners);
        let stored = Stored {
            version: VERSION,
            runners,
        };
        let mut text = serde_json::to_vec_pretty(&stored)
            .map_err(|error| Problem::machine("can't encode the registrations").because(error))?;
        text.push(b'\n');
        private_file::write(&self.path, &text)
    }

    /// A separate file, because the registrations themselves are replaced by a rename.
    fn lock(&self) -> Result<File> {
        let path = self.path.with_extension("lock");
        File::create(&path)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| Problem::machine(format!("can't lock {}", path.display())).because(error))
    }

    fn unreadable(&self, error: &serde_json::Error) -> Problem {
        Problem::machine(format!("{}:{}: {error}", self.path.display(), error.line()))
            .fix("move the file away and pair again")
    }
}

fn pick(all: &[Registration], name: &str) -> Result<Registration> {
    let mut found = all
        .iter()
        .filter(|known| known.runner_id.as_str() == name || known.label == name);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => Err(Problem::input(format!("several runners are called {name}"))
            .fix("name it by its id; `everdict-runner status` lists them")),
        (None, _) => Err(Problem::input(format!("no runner here is called {name}"))
            .fix("`everdict-runner status` lists the runners of this machine")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(id: &str, hub: &str) -> Registration {
        Registration {
            runner_id: RunnerId::from(id),
            label: format!("label-{id}"),
            hub_url: hub.to_owned(),
            owner: "key:default".to_owned(),
            workspace: "default".to_owned(),
            store: StoreKind::File,
            paired_at: "2026-01-01T00:00:00Z".to_owned(),
        }
    }

    fn empty() -> (tempfile::TempDir, Registrations) {
        let dir = tempfile::tempdir().unwrap();
        let file = Registrations::at(dir.path().join("state/runners.json"));
        (dir, file)
    }

    #[test]
    fn several_hubs_and_runners_live_side_by_side() {
        let (_dir, file) = empty();
        for (id, hub) in [("a", "http://one"), ("a", "http://two"), ("b", "http://one")] {
            file.put(registration(id, hub)).unwrap();
        }
        file.put(registration("a", "http://one")).unwrap();
        assert_eq!(file.list().unwrap().len(), 3);
        file.remove(&registration("a", "http://two")).unwrap();
        assert_eq!(file.list().unwrap().len(), 2);
    }

    #[test]
    fn a_runner_is_found_by_id_or_label_and_ambiguity_is_refused() {
        let (_dir, file) = empty();
        assert_eq!(file.select(&[]).unwrap_err().class(), ProblemClass::NotPaired);
        file.put(registration("a", "http://one")).unwrap();
        file.put(registration("a", "http://two")).unwrap();
        file.put(registration("b", "http://one")).unwrap();
        assert_eq!(file.select(&["label-b".to_owned()]).unwrap().len(), 1);
        for name in ["a", "nobody"] {
            let problem = file.select(&[name.to_owned()]).unwrap_err();
            assert_eq!(problem.class(), ProblemClass::Input, "{name}");
        }
        assert_eq!(file.select(&[]).unwrap().len(), 3);
    }

    #[test]
    fn a_broken_file_names_its_line_and_is_left_alone() {
        let (dir, file) = empty();
        file.put(registration("a", "http://one")).unwrap();
        let path = dir.path().join("state/runners.json");
        private_file::write(&path, b"{\n\"version\": 1,\nnonsense").unwrap();
        let problem = file.list().unwrap_err();
        assert!(problem.to_string().contains("runners.json:3"), "{problem}");
        assert!(file.put(registration("b", "http://one")).is_err());
        assert!(std::fs::read_to_string(&path).unwrap().contains("nonsense"));
    }
}
