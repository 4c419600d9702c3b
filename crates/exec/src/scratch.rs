//! The directory a job works in: made for it, proven to be ours, and removed with all that the job left there.

mod remove;
mod sweep;

use std::fs::{self, DirBuilder};
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub use remove::Leftover;
pub use sweep::{SweepReport, find_stale, sweep_stale};

use crate::{ExecError, ProcessId, contained_in};

/// What each scratch directory's name starts with.
const PREFIX: &str = "everdict-";

/// The file that proves whose a scratch directory is.
pub(crate) const MARKER_FILE: &str = ".everdict-scratch";

/// The process groups of the launches in it.
pub(crate) const GROUPS_FILE: &str = ".everdict-groups";

/// A directory for one job: `work` to work in, `home` and `tmp` for its environment. Only this user can enter it.
///
/// Remove it with [`Scratch::remove`]. One that is dropped without is removed as far as that goes at once.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    work: PathBuf,
    home: PathBuf,
    tmp: PathBuf,
    removed: bool,
}

impl Scratch {
    /// Makes a new scratch directory under `root`, which is made too if missing.
    pub fn create(root: &Path) -> Result<Self, ExecError> {
        make_private(root, true)?;
        let path = root.join(format!("{PREFIX}{}", uuid::Uuid::new_v4()));
        make_private(&path, false)?;
        let [work, home, tmp] = ["work", "home", "tmp"].map(|name| path.join(name));
        let scratch = Self {
            path,
            work,
            home,
            tmp,
            removed: false,
        };
        let marker = scratch.path.join(MARKER_FILE);
        fs::write(&marker, sweep::owner_text()).map_err(|source| ExecError::Scratch {
            action: "write",
            path: marker,
            source,
        })?;
        for dir in [&scratch.work, &scratch.home, &scratch.tmp] {
            make_private(dir, false)?;
        }
        Ok(scratch)
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the job's files are.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// The job's HOME.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The job's TMPDIR.
    #[must_use]
    pub fn tmp(&self) -> &Path {
        &self.tmp
    }

    /// Where the process groups of this job's launches are noted.
    #[must_use]
    pub fn group_notes(&self) -> GroupNotes {
        GroupNotes(self.path.join(GROUPS_FILE))
    }

    /// Joins a path of the job to the directory; see [`contained_in`] for what is refused.
    pub fn contained(&self, rel: &str) -> Result<PathBuf, ExecError> {
        contained_in(&self.path, rel)
    }

    /// Removes the directory and everything in it, without following links and without entering another file system.
    /// What can't be removed is listed. Not to be called while a process of the job runs.
    pub async fn remove(mut self) -> Result<(), Vec<Leftover>> {
        self.removed = true;
        let path = self.path.clone();
        let removal = tokio::task::spawn_blocking(move || remove::remove_tree(&path));
        let leftovers = match removal.await {
            Ok(leftovers) => leftovers,
            Err(error) => vec![Leftover {
                path: self.path.clone(),
                reason: error.to_string(),
            }],
        };
        if leftovers.is_empty() {
            Ok(())
        } else {
            Err(leftovers)
        }
    }
}

/// Notes the process groups of a job's launches, so that whoever sweeps after a crash finds them although their processes
/// may have shed the mark in their environment.
#[derive(Debug, Clone)]
pub struct GroupNotes(PathBuf);

impl GroupNotes {
    /// Notes the group that this process leads. Best effort: the mark is the rule.
    pub fn note(&self, leader: ProcessId) {
        let _: io::Result<()> = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.0)
            .and_then(|mut file| file.write_all(sweep::group_line(leader).as_bytes()));
    }
}

/// The safety net for a job that was dropped.
impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.removed {
            remove::remove_tree(&self.path);
        }
    }
}

fn make_private(path: &Path, parents: bool) -> Result<(), ExecError> {
    let made = DirBuilder::new().mode(0o700).recursive(parents).create(path);
    made.map_err(|source: io::Error| ExecError::Scratch {
        action: "create",
        path: path.to_owned(),
        source,
    })
}
