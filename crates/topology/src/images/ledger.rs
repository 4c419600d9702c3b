//! The images that this runner pulled, so that a disk budget never touches any other.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

/// Name of the file in the state folder.
const FILE: &str = "images.json";

/// One image that was pulled. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// As it was asked for.
    pub reference: String,
    pub size: u64,
    pub pulled_at: u64,
    pub used_at: u64,
    /// When the registry was last asked whether the tag has moved.
    pub checked_at: u64,
}

/// Entries by the daemon's image id.
pub(super) type Entries = BTreeMap<String, Entry>;

/// The file. It is read and written anew each time: it has a few kilobytes, and other processes write it too.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    writing: Mutex<()>,
}

impl Ledger {
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            path: folder.join(FILE),
            writing: Mutex::new(()),
        }
    }

    /// Reads all entries. A file that is missing or broken has none: then nothing is evicted.
    pub fn read(&self) -> Entries {
        std::fs::read(&self.path)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Changes the entries on disk; a reader sees all of it or nothing.
    pub fn change(&self, change: impl FnOnce(&mut Entries)) -> io::Result<()> {
        let _writing = self
            .writing
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = self.read();
        let mut entries = before.clone();
        change(&mut entries);
        if entries == before {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let draft = self.path.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&draft, serde_json::to_vec_pretty(&entries)?)?;
        std::fs::rename(&draft, &self.path)
    }

    /// Notes that an image is used, if it is one of ours.
    pub fn touch(&self, id: &str, now: u64) -> io::Result<()> {
        self.change(|entries| {
            if let Some(entry) = entries.get_mut(id) {
                entry.used_at = now;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            reference: "r.io/web:1".to_owned(),
            size: 10,
            pulled_at: 1,
            used_at: 1,
            checked_at: 1,
        }
    }

    #[test]
    fn entries_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("not/there/yet");
        Ledger::in_folder(&folder)
            .change(|entries| _ = entries.insert("id".to_owned(), entry()))
            .unwrap();
        Ledger::in_folder(&folder).touch("id", 9).unwrap();
        Ledger::in_folder(&folder).touch("not ours", 9).unwrap();
        let entries = Ledger::in_folder(&folder).read();
        assert_eq!(
            entries,
            BTreeMap::from([(
                "id".to_owned(),
                Entry {
                    used_at: 9,
                    ..entry()
                }
            )])
        );
    }

    #[test]
    fn a_broken_file_claims_no_image() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{\"id\": {\"refer").unwrap();
        let ledger = Ledger::in_folder(folder.path());
        assert!(ledger.read().is_empty());
        ledger
            .change(|entries| _ = entries.insert("id".to_owned(), entry()))
            .unwrap();
        assert_eq!(ledger.read().len(), 1);
    }

    #[test]
    fn many_writers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::in_folder(folder.path());
        std::thread::scope(|scope| {
            for i in 0..8 {
                let ledger = &ledger;
                scope.spawn(move || {
                    ledger
                        .change(|entries| _ = entries.insert(i.to_string(), entry()))
                        .unwrap();
                });
            }
        });
        assert_eq!(ledger.read().len(), 8);
    }
}
