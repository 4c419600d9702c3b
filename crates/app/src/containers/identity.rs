//! Which installation this is: what it labels its objects with, and the key that hides secrets in their digests.

use std::path::Path;

use everdict_topology::digest::DigestKey;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::private_file;
use crate::problem::{Problem, Result};

const ID_FILE: &str = "install-id";
const KEY_FILE: &str = "digest-key";

/// Stored once in the state folder, and the same for every process of the installation from then on.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) install: String,
    pub(super) key: DigestKey,
}

impl Identity {
    /// Reads the identity, or makes one.
    ///
    /// # Errors
    /// A problem about this machine.
    pub(super) fn load(state_dir: &Path) -> Result<Self> {
        private_file::prepare_dir(state_dir)?;
        let id = private_file::read_or_create(&state_dir.join(ID_FILE), || {
            Uuid::new_v4().simple().to_string().into_bytes()
        })?;
        let key = private_file::read_or_create(&state_dir.join(KEY_FILE), || fresh_key().to_vec())?;
        Self::parse(state_dir, &id, &key)
    }

    /// Reads the identity, if one was made.
    ///
    /// # Errors
    /// As [`Identity::load`].
    pub(super) fn find(state_dir: &Path) -> Result<Option<Self>> {
        let id = private_file::read(&state_dir.join(ID_FILE))?;
        let key = private_file::read(&state_dir.join(KEY_FILE))?;
        match (id, key) {
            (Some(id), Some(key)) => Self::parse(state_dir, &id, &key).map(Some),
            _ => Ok(None),
        }
    }

    fn parse(state_dir: &Path, id: &[u8], key: &[u8]) -> Result<Self> {
        let broken = |file: &str| {
            let path = state_dir.join(file);
            Problem::machine(format!("{} is damaged", path.display()))
                .fix("remove the file, then look with `docker ps -a` for containers named everdict-…: they are not recognised any more")
        };
        let install = std::str::from_utf8(id)
            .map(str::trim)
            .ok()
            .filter(|id| Uuid::try_parse(id).is_ok())
            .ok_or_else(|| broken(ID_FILE))?
            .to_owned();
        let key: [u8; 32] = key.try_into().map_err(|_| broken(KEY_FILE))?;
        Ok(Self {
            install,
            key: DigestKey::new(key),
        })
    }
}

/// A v4 UUID has 122 random bits; three of them fill the key.
fn fresh_key() -> [u8; 32] {
    let mut hash = Sha256::new();
    for _ in 0..3 {
        hash.update(Uuid::new_v4().as_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_kept_private_and_never_changed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Identity::find(dir.path()).unwrap().is_none());
        let made = Identity::load(dir.path()).unwrap();
        let again = Identity::load(dir.path()).unwrap();
        let found = Identity::find(dir.path()).unwrap().unwrap();
        for other in [&again, &found] {
            assert_eq!(other.install, made.install);
            assert_eq!(other.key.hide("secret"), made.key.hide("secret"));
        }
        // `read` refuses a file that others may read.
        assert!(private_file::read(&dir.path().join(KEY_FILE)).unwrap().is_some());
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Identity::load(other.path()).unwrap().install, made.install);
    }

    #[test]
    fn a_damaged_file_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        Identity::load(dir.path()).unwrap();
        private_file::write(&dir.path().join(ID_FILE), b"").unwrap();
        let problem = Identity::load(dir.path()).unwrap_err();
        assert!(problem.to_string().contains("install-id is damaged"), "{problem}");
        assert_eq!(
            private_file::read(&dir.path().join(ID_FILE)).unwrap().unwrap(),
            b""
        );
    }
}
