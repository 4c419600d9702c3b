//! The first starts of a new version, and the way back from them.
//!
//! Two watch over them. The old program, in a file of its own, starts the new one and sees it end ([`Trial::guard`]), so
//! even one that can't be loaded is noticed. The new program counts its own starts ([`Trial::begin`]), for a machine that
//! was switched off in between.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::beside;
use crate::private_file;
use crate::problem::{Problem, Result};

/// A version that failed to start so often makes way.
const MAX_STARTS: u32 = 2;

/// Between two looks at a program that was just started.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A version that is being tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OnTrial {
    version: String,
    program: PathBuf,
    previous: PathBuf,
    starts: u32,
}

/// What a start of the program is.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    /// One of many.
    Usual,
    /// One of the first of a new version; it has to say when it is well ([`Trial::passed`]).
    OnTrial,
    /// The version before is back in place: this program is to be started in place of the running one.
    RolledBack(PathBuf),
}

/// How the first starts of a new version went.
#[derive(Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Well, or somebody ended it.
    Over,
    /// The version before is back in place: this program is to be started.
    RolledBack(PathBuf),
}

/// See the module.
#[derive(Debug)]
pub struct Trial {
    file: PathBuf,
    refused: PathBuf,
}

impl Trial {
    /// The trial that is kept track of in `state_dir`.
    #[must_use]
    pub fn in_dir(state_dir: &Path) -> Self {
        Self {
            file: state_dir.join("update-trial.json"),
            refused: state_dir.join("update-refused.json"),
        }
    }

    /// Puts `staged` in place of `program` and keeps the old one beside it; returns where. That one is to be started as
    /// the guard of the new one.
    ///
    /// # Errors
    /// A problem about this machine; `program` is then what it was.
    pub fn put_in_place(&self, program: &Path, staged: &Path, version: &str) -> Result<PathBuf> {
        let previous = beside(program, "previous");
        let swap = || -> std::io::Result<()> {
            let _ = std::fs::remove_file(&previous);
            // A second name first: at no moment is there no program at the usual place.
            std::fs::hard_link(program, &previous).or_else(|_| std::fs::copy(program, &previous).map(drop))
        };
        let failed = |error| {
            Problem::machine(format!("can't put version {version} in place"))
                .fix("check that this user may write the folder of the program")
                .because(error)
        };
        swap().map_err(failed)?;
        self.write(&OnTrial {
            version: version.to_owned(),
            program: program.to_owned(),
            previous: previous.clone(),
            starts: 0,
        })?;
        if let Err(error) = std::fs::rename(staged, program) {
            self.end();
            return Err(failed(error));
        }
        Ok(previous)
    }

    /// Counts a start of the program; after too many that did not go well it brings the version before back.
    pub fn begin(&self) -> Start {
        let Some(mut trial) = self.read() else {
            return Start::Usual;
        };
        if trial.starts >= MAX_STARTS {
            return match self.roll_back(&trial) {
                Ok(()) => Start::RolledBack(trial.program),
                Err(problem) => {
                    tracing::warn!(problem = %problem.chain(), "the version before can't be brought back");
                    Start::Usual
                }
            };
        }
        trial.starts += 1;
        if let Err(problem) = self.write(&trial) {
            tracing::warn!(problem = %problem.chain(), "this start of a new version isn't counted");
        }
        Start::OnTrial
    }

    /// The new version is well: the one before it goes.
    pub fn passed(&self) {
        if let Some(trial) = self.read() {
            let _ = std::fs::remove_file(&trial.previous);
            self.end();
        }
    }

    /// Somebody ended the new version before it could show that it is well: that start doesn't count.
    pub fn forgive(&self) {
        if let Some(trial) = self.read() {
            let _ = self.write(&OnTrial { starts: 0, ..trial });
        }
    }

    /// Starts the new version, and again if it fails; after too many failures brings the version before back. Blocks until
    /// it is known how it went.
    #[must_use]
    pub fn guard(&self, args: &[std::ffi::OsString]) -> Guarded {
        let Some(trial) = self.read() else {
            return Guarded::Over;
        };
        for _ in 0..MAX_STARTS {
            if self.start(&trial.program, args) {
                return Guarded::Over;
            }
        }
        match self.roll_back(&trial) {
            Ok(()) => Guarded::RolledBack(trial.program),
            Err(problem) => {
                tracing::warn!(problem = %problem.chain(), "the version before can't be brought back");
                Guarded::Over
            }
        }
    }

    /// Tells whether the program, started once, went well or was ended by somebody.
    fn start(&self, program: &Path, args: &[std::ffi::OsString]) -> bool {
        #[expect(
            clippy::disallowed_methods,
            reason = "the new version is no job: it takes this process' place, with its environment, and outlives it"
        )]
        let started = std::process::Command::new(program).args(args).spawn();
        let Ok(mut child) = started else {
            return false;
        };
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => {}
                Err(_) => return false,
            }
            if self.read().is_none() {
                return true;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The version that failed here last.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        let bytes = private_file::read(&self.refused).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    fn roll_back(&self, trial: &OnTrial) -> Result<()> {
        let version = serde_json::to_vec(&trial.version).expect("BUG: a text is JSON");
        // First of all, so that whatever happens next this version isn't fetched again.
        private_file::write(&self.refused, &version)?;
        std::fs::rename(&trial.previous, &trial.program).map_err(|error| {
            Problem::machine("can't bring the version before back")
                .fix("install the app anew")
                .because(error)
        })?;
        self.end();
        Ok(())
    }

    fn end(&self) {
        if let Err(problem) = private_file::remove(&self.file) {
            tracing::warn!(problem = %problem.chain(), "a trial that is over stays on record");
        }
    }

    fn read(&self) -> Option<OnTrial> {
        let bytes = private_file::read(&self.file).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    fn write(&self, trial: &OnTrial) -> Result<()> {
        let text = serde_json::to_vec(trial).expect("BUG: a trial is plain data");
        private_file::write(&self.file, &text)
    }
}
