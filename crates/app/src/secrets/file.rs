//! The `file` store: one private file per secret.

use std::fmt::Write as _;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::{SecretFault, SecretName, SecretStore, StoreKind};
use crate::private_file;
use crate::problem::Problem;

#[derive(Debug)]
pub(super) struct FileStore {
    dir: PathBuf,
}

impl FileStore {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// A digest, because names carry URLs and file names can't.
    fn path(&self, name: &SecretName) -> PathBuf {
        let digest = Sha256::digest(name.as_str().as_bytes());
        let mut file = String::with_capacity(40);
        for byte in digest.iter().take(16) {
            // Writing to a String can't fail.
            let _ = write!(file, "{byte:02x}");
        }
        self.dir.join(file)
    }

    fn read(&self, name: &SecretName) -> Result<SecretString, SecretFault> {
        let path = self.path(name);
        let bytes = private_file::read(&path)
            .map_err(SecretFault::Unusable)?
            .ok_or(SecretFault::Missing(StoreKind::File))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            SecretFault::Unusable(
                Problem::machine(format!("{} holds no token", path.display()))
                    .fix("remove the file and pair again")
                    .because(error.utf8_error()),
            )
        })?;
        Ok(SecretString::from(text.trim().to_owned()))
    }
}

impl SecretStore for FileStore {
    fn kind(&self) -> StoreKind {
        StoreKind::File
    }

    fn check(&self) -> BoxFuture<'_, Result<(), SecretFault>> {
        Box::pin(async { private_file::prepare_dir(&self.dir).map_err(SecretFault::Unusable) })
    }

    fn get<'a>(&'a self, name: &'a SecretName) -> BoxFuture<'a, Result<SecretString, SecretFault>> {
        Box::pin(async { self.read(name) })
    }

    fn set<'a>(
        &'a self,
        name: &'a SecretName,
        secret: &'a SecretString,
    ) -> BoxFuture<'a, Result<(), SecretFault>> {
        Box::pin(async {
            private_file::prepare_dir(&self.dir)
                .and_then(|()| private_file::write(&self.path(name), secret.expose_secret().as_bytes()))
                .map_err(SecretFault::Unusable)
        })
    }

    fn remove<'a>(&'a self, name: &'a SecretName) -> BoxFuture<'a, Result<(), SecretFault>> {
        Box::pin(async { private_file::remove(&self.path(name)).map_err(SecretFault::Unusable) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everdict_contracts::RunnerId;

    fn name() -> SecretName {
        let hub = crate::hub_url::parse("http://127.0.0.1:1").unwrap();
        SecretName::runner(&hub, &RunnerId::from("r-1"))
    }

    #[tokio::test]
    async fn a_secret_comes_back_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("secrets"));
        store.check().await.unwrap();
        let token = SecretString::from("rnr_abc".to_owned());
        store.set(&name(), &token).await.unwrap();
        assert_eq!(store.get(&name()).await.unwrap().expose_secret(), "rnr_abc");
        store.remove(&name()).await.unwrap();
        store.remove(&name()).await.unwrap();
        let fault = store.get(&name()).await.unwrap_err();
        assert_eq!(fault.state(), "missing");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_planted_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().to_owned());
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, "rnr_theirs").unwrap();
        std::os::unix::fs::symlink(&elsewhere, store.path(&name())).unwrap();
        assert_eq!(store.get(&name()).await.unwrap_err().state(), "unusable");
    }
}
