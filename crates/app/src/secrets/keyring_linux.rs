//! The Secret Service of the session (GNOME Keyring, KWallet, KeePassXC).

use std::time::Duration;

use futures_util::future::BoxFuture;
use keyring_core::Error as KeyringError;
use keyring_core::api::CredentialStoreApi as _;
use secrecy::{ExposeSecret as _, SecretString};
use secret_service::Error as ServiceError;
use zbus_secret_service_keyring_store::Store;

use super::{SecretFault, SecretName, SecretStore, StoreKind};

/// The `service` attribute of every entry of ours; `username` is the secret's name.
const SERVICE: &str = "everdict-runner";

/// An unlock prompt may wait for a person; a headless session would wait for ever.
const PROMPT_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct SecretServiceStore;

impl SecretStore for SecretServiceStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Keyring
    }

    fn check(&self) -> BoxFuture<'_, Result<(), SecretFault>> {
        Box::pin(blocking(|| connect().map(drop)))
    }

    fn get<'a>(&'a self, name: &'a SecretName) -> BoxFuture<'a, Result<SecretString, SecretFault>> {
        let name = name.clone();
        Box::pin(blocking(move || {
            entry(&name)?
                .get_password()
                .map(SecretString::from)
                .map_err(fault)
        }))
    }

    fn set<'a>(
        &'a self,
        name: &'a SecretName,
        secret: &'a SecretString,
    ) -> BoxFuture<'a, Result<(), SecretFault>> {
        let name = name.clone();
        let secret = secret.clone();
        Box::pin(blocking(move || {
            entry(&name)?.set_password(secret.expose_secret()).map_err(fault)
        }))
    }

    fn remove<'a>(&'a self, name: &'a SecretName) -> BoxFuture<'a, Result<(), SecretFault>> {
        let name = name.clone();
        Box::pin(blocking(move || match entry(&name)?.delete_credential() {
            Ok(()) | Err(KeyringError::NoEntry) => Ok(()),
            Err(error) => Err(fault(error)),
        }))
    }
}

/// The store talks to the bus with blocking calls, which must not sit on the async workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SecretFault> + Send + 'static,
) -> Result<T, SecretFault> {
    let task = tokio::task::spawn_blocking(work);
    match tokio::time::timeout(PROMPT_LIMIT, task).await {
        Ok(Ok(result)) => result,
        Ok(Err(panicked)) => Err(SecretFault::Broken(Box::new(panicked))),
        Err(_elapsed) => Err(SecretFault::Locked(None)),
    }
}

fn connect() -> Result<std::sync::Arc<Store>, SecretFault> {
    Store::new().map_err(|error| SecretFault::Unavailable(Box::new(error)))
}

fn entry(name: &SecretName) -> Result<keyring_core::Entry, SecretFault> {
    let label = std::collections::HashMap::from([("label", "Everdict Runner")]);
    connect()?
        .build(SERVICE, name.as_str(), Some(&label))
        .map_err(fault)
}

fn fault(error: KeyringError) -> SecretFault {
    match error {
        KeyringError::NoEntry => SecretFault::Missing(StoreKind::Keyring),
        KeyringError::NoStorageAccess(cause) => match cause.downcast_ref::<ServiceError>() {
            Some(ServiceError::Prompt) => SecretFault::Denied(cause),
            // The service answers "no result" for the default collection of a session that has none.
            Some(ServiceError::NoResult) => SecretFault::Unavailable(cause),
            _ => SecretFault::Locked(Some(cause)),
        },
        KeyringError::PlatformFailure(cause) => match cause.downcast_ref::<ServiceError>() {
            Some(ServiceError::Unavailable) => SecretFault::Unavailable(cause),
            Some(ServiceError::PromptDisconnected) => SecretFault::Denied(cause),
            _ => SecretFault::Broken(cause),
        },
        other => SecretFault::Broken(Box::new(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(error: KeyringError) -> &'static str {
        fault(error).state()
    }

    #[test]
    fn each_answer_of_the_service_has_its_own_state() {
        assert_eq!(state(KeyringError::NoEntry), "missing");
        assert_eq!(
            state(KeyringError::NoStorageAccess(Box::new(ServiceError::Locked))),
            "locked"
        );
        assert_eq!(
            state(KeyringError::NoStorageAccess(Box::new(ServiceError::Prompt))),
            "denied"
        );
        assert_eq!(
            state(KeyringError::PlatformFailure(Box::new(ServiceError::Unavailable))),
            "unavailable"
        );
        assert_eq!(state(KeyringError::BadStoreFormat("x".to_owned())), "broken");
    }

    #[test]
    fn no_keyring_names_both_ways_out() {
        let problem: crate::Problem = SecretFault::Unavailable("no session bus".into()).into();
        let fix = problem.next_step().unwrap();
        assert!(fix.contains("--token-store file") && fix.contains("EVERDICT_RUNNER_TOKEN"));
        assert!(problem.chain().contains("no session bus"));
    }
}
