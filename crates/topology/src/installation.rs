//! What makes this installation itself on a daemon that others use too: an id in every label, and the key that hides
//! secrets in digests. Both are made once and kept in the state folder.

use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::digest::DigestKey;

/// Name of the file in the state folder.
const FILE: &str = "installation.json";

/// An installation's id and key.
#[derive(Debug, Clone)]
pub struct Installation {
    /// Random; for [`crate::labels::INSTALL`].
    pub id: String,
    pub digest_key: DigestKey,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored {
    id: String,
    digest_key: [u8; 32],
}

impl Installation {
    /// Reads the installation of a state folder, or makes it. Of several processes that make it at once, all get the
    /// same.
    ///
    /// # Errors
    /// When the folder can't be written, or the file is broken: a new id would leave what is labelled with the old one
    /// to nobody.
    pub fn open(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join(FILE);
        match std::fs::read(&path) {
            Ok(text) => return Self::read(&path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        std::fs::create_dir_all(state_dir)?;
        let draft = state_dir.join(format!("{FILE}.{}", Uuid::new_v4()));
        write_private(&draft, &serde_json::to_vec(&Stored::new())?)?;
        // Unlike a rename, a link never takes the place of what another process has made in the meantime.
        let linked = std::fs::hard_link(&draft, &path);
        let removed = std::fs::remove_file(&draft);
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => removed?,
        }
        Self::read(&path, &std::fs::read(&path)?)
    }

    fn read(path: &Path, text: &[u8]) -> io::Result<Self> {
        let stored: Stored = serde_json::from_slice(text).map_err(|error| {
            let message = format!("{} is broken: {error}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
        Ok(Self {
            id: stored.id,
            digest_key: DigestKey::new(stored.digest_key),
        })
    }
}

impl Stored {
    fn new() -> Self {
        let mut digest_key = [0; 32];
        digest_key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        digest_key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        Self {
            id: Uuid::new_v4().simple().to_string(),
            digest_key,
        }
    }
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_installation_stays_the_same_and_is_nobody_elses_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (first, second) = (
            Installation::open(&state).unwrap(),
            Installation::open(&state).unwrap(),
        );
        assert_eq!(first.id, second.id);
        assert_eq!(first.digest_key.hide("x"), second.digest_key.hide("x"));
        let mode = state.join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "no draft is left");
        assert_ne!(
            Installation::open(&folder.path().join("other")).unwrap().id,
            first.id
        );
    }

    #[test]
    fn many_that_start_at_once_are_one_installation() {
        let folder = tempfile::tempdir().unwrap();
        let ids: BTreeSet<String> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Installation::open(folder.path()).unwrap().id))
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(ids.len(), 1);
    }

    #[test]
    fn a_broken_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        let error = Installation::open(folder.path()).unwrap_err();
        assert!(
            error.to_string().contains("installation.json is broken"),
            "{error}"
        );
    }
}
