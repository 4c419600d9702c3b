//! The person's file, looked at again and again.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Settings;
use crate::problem::Result;

/// What tells one version of a file from the next without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

/// The settings file of a running program.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    path: PathBuf,
    /// Of the version that is known; `None` for no file.
    stamp: Option<Stamp>,
}

impl SettingsFile {
    /// Begins with the file as it is: whoever starts has just read it.
    pub(crate) fn known(path: PathBuf) -> Self {
        Self {
            stamp: stamp(&path),
            path,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file if it is another than the one that is known.
    pub(crate) fn read_if_changed(&mut self) -> Option<Result<Settings>> {
        // Before the reading: a write in between makes a new stamp, and is read next time.
        let stamp = stamp(&self.path);
        if stamp == self.stamp {
            return None;
        }
        self.stamp = stamp;
        Some(Settings::load(&self.path))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    #[cfg(not(unix))]
    let inode = 0;
    Some(Stamp {
        modified: meta.modified().ok(),
        len: meta.len(),
        inode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_the_file_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.toml");
        let mut file = SettingsFile::known(path.clone());
        let cases = |read: Option<Result<Settings>>| read.unwrap().unwrap().max_concurrent;
        assert!(file.read_if_changed().is_none());
        std::fs::write(&path, "[runner]\nmax_concurrent = 3\n").unwrap();
        assert_eq!(cases(file.read_if_changed()), 3);
        assert!(file.read_if_changed().is_none());
        std::fs::write(&path, "[runner]\nnonsense\n").unwrap();
        assert!(file.read_if_changed().unwrap().is_err());
        assert!(file.read_if_changed().is_none());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(cases(file.read_if_changed()), 1);
    }
}
