//! What keeps two processes of one installation from building, or taking down, the same topology at once.
//!
//! Both locks are locks on files in the state folder, which the system lets go when a process dies, however it dies:
//! there is no stale lock to break and no heartbeat to miss. The files are empty, and stay; to remove one would make two
//! locks of one name.
//!
//! - The *site* lock is exclusive: its holder creates, heals, adopts or removes the topology.
//! - The *use* lock is shared: whoever has a case on the topology, or a browser beside it, holds it. A topology is only
//!   taken down by who holds both, the use lock exclusively.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::digest::short_hash;

/// Between two tries: a holder builds a topology for a second or more, so this costs nothing that is felt.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Where the locks of one daemon's topologies are.
#[derive(Debug, Clone)]
pub struct LockFolder {
    folder: PathBuf,
}

/// Held for as long as it lives.
#[derive(Debug)]
pub struct LockHeld {
    _file: File,
}

impl LockFolder {
    /// Makes the folder for the daemon with this id below `state`.
    ///
    /// # Errors
    /// Any of the file system's.
    pub fn open(state: &Path, daemon: &str) -> io::Result<Self> {
        let folder = state.join("topology-locks").join(short_hash(&[daemon], 12));
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Waits for the site lock. Cancel safe.
    ///
    /// # Errors
    /// Any of the file system's.
    pub async fn site(&self, topology: &str) -> io::Result<LockHeld> {
        let file = self.file(topology, "site")?;
        let mut pause = FIRST_PAUSE;
        loop {
            if taken(file.try_lock())? {
                return Ok(LockHeld { _file: file });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Takes the site lock if nobody has it.
    ///
    /// # Errors
    /// Any of the file system's.
    pub fn try_site(&self, topology: &str) -> io::Result<Option<LockHeld>> {
        let file = self.file(topology, "site")?;
        Ok(taken(file.try_lock())?.then_some(LockHeld { _file: file }))
    }

    /// Takes a share of the use lock, unless somebody is about to take the topology down.
    ///
    /// # Errors
    /// Any of the file system's.
    pub fn try_use(&self, topology: &str) -> io::Result<Option<LockHeld>> {
        let file = self.file(topology, "use")?;
        Ok(taken(file.try_lock_shared())?.then_some(LockHeld { _file: file }))
    }

    /// Takes the whole use lock, if nobody uses the topology, in this process or another.
    ///
    /// # Errors
    /// Any of the file system's.
    pub fn try_unused(&self, topology: &str) -> io::Result<Option<LockHeld>> {
        let file = self.file(topology, "use")?;
        Ok(taken(file.try_lock())?.then_some(LockHeld { _file: file }))
    }

    fn file(&self, topology: &str, kind: &str) -> io::Result<File> {
        let path = self.folder.join(format!("{topology}.{kind}"));
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
    }
}

fn taken(result: Result<(), TryLockError>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::LockFolder;

    #[tokio::test]
    async fn only_one_builds_and_the_next_waits_for_it() {
        let state = tempfile::tempdir().unwrap();
        let locks = LockFolder::open(state.path(), "daemon").unwrap();
        let held = locks.site("everdict-a").await.unwrap();
        assert!(locks.try_site("everdict-a").unwrap().is_none());
        assert!(
            locks.try_site("everdict-b").unwrap().is_some(),
            "another topology is free"
        );
        let next = locks.site("everdict-a");
        assert!(
            tokio::time::timeout(Duration::from_millis(30), next)
                .await
                .is_err()
        );
        drop(held);
        tokio::time::timeout(Duration::from_secs(5), locks.site("everdict-a"))
            .await
            .unwrap()
            .unwrap();
    }

    #[test]
    fn users_share_and_keep_the_wrecker_out() {
        let state = tempfile::tempdir().unwrap();
        let locks = LockFolder::open(state.path(), "daemon").unwrap();
        let first = locks.try_use("t").unwrap().unwrap();
        let second = locks.try_use("t").unwrap().unwrap();
        assert!(locks.try_unused("t").unwrap().is_none());
        drop(first);
        assert!(locks.try_unused("t").unwrap().is_none());
        drop(second);
        let wrecking = locks.try_unused("t").unwrap().unwrap();
        assert!(
            locks.try_use("t").unwrap().is_none(),
            "nobody moves in while it is taken down"
        );
        drop(wrecking);
        assert!(locks.try_use("t").unwrap().is_some());
    }

    #[test]
    fn another_daemon_has_other_locks() {
        let state = tempfile::tempdir().unwrap();
        let one = LockFolder::open(state.path(), "one").unwrap();
        let two = LockFolder::open(state.path(), "two").unwrap();
        let _held = one.try_site("t").unwrap().unwrap();
        assert!(two.try_site("t").unwrap().is_some());
    }
}
