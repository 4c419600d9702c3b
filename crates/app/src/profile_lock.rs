//! Which program takes jobs for the runners of a profile. Two of them would lease the same jobs twice.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::paths::Paths;
use crate::problem::{Problem, Result};

/// Ends with the process that holds it, however that ends.
#[derive(Debug)]
pub struct ProfileLock {
    _file: File,
}

impl ProfileLock {
    /// Takes the profile for `program`, which is what another is told. The folders must be there.
    ///
    /// # Errors
    /// A problem about this machine, coded `already_running` and naming the holder, when another program has it.
    pub fn take(paths: &Paths, program: &str) -> Result<Self> {
        let path = paths.state_dir().join("work.lock");
        let file = File::create(&path)
            .map_err(|error| Problem::machine(format!("can't write {}", path.display())).because(error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(paths)),
            Err(TryLockError::Error(error)) => {
                return Err(Problem::machine(format!("can't lock {}", path.display()))
                    .fix("put the state folder on a local disk")
                    .because(error));
            }
        }
        let told = format!("{program}\n{}\n", std::process::id());
        // The lock is what counts; without a name it is refused all the same.
        if let Err(error) = std::fs::write(holder_file(paths.state_dir()), told) {
            tracing::debug!(%error, "the holder of the profile has no name");
        }
        Ok(Self { _file: file })
    }
}

/// Not in the locked file itself, which some systems let nobody else read.
fn holder_file(state_dir: &Path) -> PathBuf {
    state_dir.join("work.holder")
}

fn taken(paths: &Paths) -> Problem {
    let text = std::fs::read_to_string(holder_file(paths.state_dir())).unwrap_or_default();
    let mut lines = text.lines();
    let holder = match (lines.next(), lines.next()) {
        (Some(program), Some(process)) => format!("{program} (process {process})"),
        _ => "another program".to_owned(),
    };
    Problem::machine(format!(
        "{holder} takes jobs for the runners of this profile already"
    ))
    .fix("use that one, or end it first; EVERDICT_HOME names another profile")
    .coded("already_running")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::ProblemClass;

    #[test]
    fn a_profile_has_one_holder_whom_the_next_is_told_of_until_it_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.prepare().unwrap();
        let first = ProfileLock::take(&paths, "everdict-runner start").unwrap();
        let refused = ProfileLock::take(&paths, "the desktop app").unwrap_err();
        let told = format!(
            "everdict-runner start (process {}) takes jobs for the runners of this profile already",
            std::process::id()
        );
        assert_eq!(refused.to_string(), told);
        assert_eq!(
            (refused.class(), refused.code()),
            (ProblemClass::Machine, "already_running")
        );
        assert!(refused.next_step().is_some());
        let elsewhere = tempfile::tempdir().unwrap();
        let other = Paths::under(elsewhere.path());
        other.prepare().unwrap();
        ProfileLock::take(&other, "everdict-runner start").unwrap();
        drop(first);
        ProfileLock::take(&paths, "the desktop app").unwrap();
    }

    #[test]
    fn a_holder_without_a_name_is_refused_in_words_too() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        paths.prepare().unwrap();
        let _first = ProfileLock::take(&paths, "x").unwrap();
        std::fs::write(holder_file(paths.state_dir()), b"\xff").unwrap();
        let refused = ProfileLock::take(&paths, "y").unwrap_err();
        assert!(
            refused.to_string().starts_with("another program takes jobs"),
            "{refused}"
        );
    }
}
