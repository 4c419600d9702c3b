//! Tokens and keys: kept in the system's keyring, or where the person explicitly asked.
//!
//! Nothing falls back by itself. A store that can't do its work says which state it is in
//! ([`SecretFault`]) and what to do, and the caller stops there.

mod env;
mod file;
#[cfg(target_os = "linux")]
mod keyring_linux;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use everdict_contracts::RunnerId;
use futures_util::future::BoxFuture;
use reqwest::Url;
use secrecy::SecretString;

use crate::hub_url;
use crate::paths::Paths;
use crate::problem::{Problem, ProblemClass};

pub use env::EnvSecrets;

/// Where tokens are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// The system's keyring.
    Keyring,
    /// Files of mode 0600 in the state folder.
    File,
    /// Nowhere: the environment brings them at each start.
    Env,
}

impl StoreKind {
    /// Returns the name used in settings and flags.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keyring => "keyring",
            Self::File => "file",
            Self::Env => "env",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "keyring" => Ok(Self::Keyring),
            "file" => Ok(Self::File),
            "env" => Ok(Self::Env),
            _ => Err("allowed: keyring, file, env".to_owned()),
        }
    }
}

/// The name of one secret; it contains no secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// Names the token of one runner at one hub.
    #[must_use]
    pub fn runner(hub: &Url, runner: &RunnerId) -> Self {
        Self(format!("runner {} {}", hub_url::text(hub), runner.as_str()))
    }

    /// Names the API key kept for one hub.
    #[must_use]
    pub fn api_key(hub: &Url) -> Self {
        Self(format!("api-key {}", hub_url::text(hub)))
    }

    /// Returns the text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_runner(&self) -> bool {
        self.0.starts_with("runner ")
    }
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a store can't do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SecretFault {
    /// The store works and holds no such secret.
    #[error("the {0} holds no such token")]
    Missing(StoreKind),
    /// The store waits for its password.
    #[error("the keyring is locked")]
    Locked(#[source] Option<Cause>),
    /// The person, or the system on their behalf, said no.
    #[error("access to the keyring was denied")]
    Denied(#[source] Cause),
    /// There is no such store on this machine.
    #[error("this machine offers no keyring")]
    Unavailable(#[source] Cause),
    /// The store can't be used as it is; the problem says why.
    #[error("{0}")]
    Unusable(Problem),
    /// The store answered something that is no secret of ours.
    #[error("the keyring gave an unusable answer")]
    Broken(#[source] Cause),
}

impl SecretFault {
    /// Returns the stable name of the state.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self {
            Self::Missing(_) => "missing",
            Self::Locked(_) => "locked",
            Self::Denied(_) => "denied",
            Self::Unavailable(_) => "unavailable",
            Self::Unusable(_) => "unusable",
            Self::Broken(_) => "broken",
        }
    }

    /// Returns what a window decides by; `None` where the problem itself says more.
    fn code(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) => Some("token_missing"),
            Self::Locked(_) => Some("keyring_locked"),
            Self::Denied(_) => Some("keyring_denied"),
            Self::Unavailable(_) => Some("keyring_unavailable"),
            Self::Broken(_) => Some("keyring_broken"),
            Self::Unusable(_) => None,
        }
    }
}

impl From<SecretFault> for Problem {
    fn from(fault: SecretFault) -> Self {
        let code = fault.code();
        let problem = worded(fault);
        match code {
            Some(code) => problem.coded(code),
            None => problem,
        }
    }
}

fn worded(fault: SecretFault) -> Problem {
    let what = fault.to_string();
    match fault {
        SecretFault::Unusable(problem) => problem,
        SecretFault::Missing(kind) => {
            let fix = match kind {
                StoreKind::Env => "set EVERDICT_RUNNER_TOKEN, or pair again with a token store",
                StoreKind::Keyring | StoreKind::File => "pair this machine again: everdict-runner pair",
            };
            Problem::new(ProblemClass::NotPaired, what).fix(fix)
        }
        SecretFault::Locked(cause) => {
            let problem =
                Problem::machine(what).fix("unlock the keyring and try again, or use --token-store file");
            match cause {
                Some(cause) => problem.because(cause),
                None => problem,
            }
        }
        SecretFault::Denied(cause) => Problem::machine(what)
            .fix("allow access when the system asks, or use --token-store file")
            .because(cause),
        SecretFault::Unavailable(cause) => Problem::machine(what)
            .fix(
                "use --token-store file (a file of mode 0600), \
                     or --token-store env with EVERDICT_RUNNER_TOKEN",
            )
            .because(cause),
        SecretFault::Broken(cause) => Problem::machine(what)
            .fix("remove the entry in the system's keyring application and pair again")
            .because(cause),
    }
}

/// A place that keeps secrets. All methods are cancel safe; a cancelled write may still happen.
pub trait SecretStore: Send + Sync {
    /// Tells which kind it is.
    fn kind(&self) -> StoreKind;

    /// Checks that the store can be used, without touching any secret.
    ///
    /// # Errors
    /// The state that stands in the way.
    fn check(&self) -> BoxFuture<'_, Result<(), SecretFault>>;

    /// Reads a secret.
    ///
    /// # Errors
    /// [`SecretFault::Missing`] when there is none; else the state that stands in the way.
    fn get<'a>(&'a self, name: &'a SecretName) -> BoxFuture<'a, Result<SecretString, SecretFault>>;

    /// Writes or replaces a secret.
    ///
    /// # Errors
    /// The state that stands in the way.
    fn set<'a>(
        &'a self,
        name: &'a SecretName,
        secret: &'a SecretString,
    ) -> BoxFuture<'a, Result<(), SecretFault>>;

    /// Removes a secret; one that isn't there is fine.
    ///
    /// # Errors
    /// The state that stands in the way.
    fn remove<'a>(&'a self, name: &'a SecretName) -> BoxFuture<'a, Result<(), SecretFault>>;
}

/// Opens the store of `kind`. Cheap: nothing is contacted before the first call.
#[must_use]
pub fn open(kind: StoreKind, paths: &Paths, env: &EnvSecrets) -> Arc<dyn SecretStore> {
    match kind {
        StoreKind::Keyring => keyring(),
        StoreKind::File => Arc::new(file::FileStore::new(paths.secrets_dir())),
        StoreKind::Env => Arc::new(env.clone()),
    }
}

#[cfg(target_os = "linux")]
fn keyring() -> Arc<dyn SecretStore> {
    Arc::new(keyring_linux::SecretServiceStore)
}

#[cfg(not(target_os = "linux"))]
fn keyring() -> Arc<dyn SecretStore> {
    Arc::new(unsupported::NoKeyring)
}

/// A platform whose keyring isn't wired in says so instead of writing a file.
#[cfg(not(target_os = "linux"))]
mod unsupported {
    use super::*;

    pub(super) struct NoKeyring;

    fn unavailable() -> SecretFault {
        SecretFault::Unavailable("the keyring of this platform isn't supported yet".into())
    }

    impl SecretStore for NoKeyring {
        fn kind(&self) -> StoreKind {
            StoreKind::Keyring
        }
        fn check(&self) -> BoxFuture<'_, Result<(), SecretFault>> {
            Box::pin(async { Err(unavailable()) })
        }
        fn get<'a>(&'a self, _name: &'a SecretName) -> BoxFuture<'a, Result<SecretString, SecretFault>> {
            Box::pin(async { Err(unavailable()) })
        }
        fn set<'a>(
            &'a self,
            _name: &'a SecretName,
            _secret: &'a SecretString,
        ) -> BoxFuture<'a, Result<(), SecretFault>> {
            Box::pin(async { Err(unavailable()) })
        }
        fn remove<'a>(&'a self, _name: &'a SecretName) -> BoxFuture<'a, Result<(), SecretFault>> {
            Box::pin(async { Err(unavailable()) })
        }
    }
}
