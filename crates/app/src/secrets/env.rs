//! Secrets that the environment brought at start.

use everdict_exec::HostEnv;
use futures_util::future::BoxFuture;
use secrecy::SecretString;

use super::{SecretFault, SecretName, SecretStore, StoreKind};

/// The variable with a runner's token.
pub const RUNNER_TOKEN_VAR: &str = "EVERDICT_RUNNER_TOKEN";
/// The variable with a member's API key.
pub const API_KEY_VAR: &str = "EVERDICT_API_KEY";
/// An address with a password, so as secret as the others.
const HUB_DATABASE_VAR: &str = "EVERDICT_HUB_DATABASE";

/// What was in the environment at start. The variables themselves are gone by then, so that no child sees them.
#[derive(Debug, Clone, Default)]
pub struct EnvSecrets {
    runner_token: Option<SecretString>,
    api_key: Option<SecretString>,
    hub_database: Option<SecretString>,
}

impl EnvSecrets {
    /// The variables that hold secrets; the caller removes them from the process.
    pub const VARS: [&'static str; 3] = [RUNNER_TOKEN_VAR, API_KEY_VAR, HUB_DATABASE_VAR];

    /// Takes the secrets out of a captured environment. Empty values count as absent.
    #[must_use]
    pub fn from_env(env: &HostEnv) -> Self {
        let read = |name| {
            env.get(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
                .map(SecretString::from)
        };
        Self {
            runner_token: read(RUNNER_TOKEN_VAR),
            api_key: read(API_KEY_VAR),
            hub_database: read(HUB_DATABASE_VAR),
        }
    }

    /// Returns the runner token, if the environment brought one.
    #[must_use]
    pub fn runner_token(&self) -> Option<&SecretString> {
        self.runner_token.as_ref()
    }

    /// Returns the address of the hub's PostgreSQL database, if the environment brought one.
    #[must_use]
    pub fn hub_database(&self) -> Option<&SecretString> {
        self.hub_database.as_ref()
    }

    /// Returns the API key, if the environment brought one.
    #[must_use]
    pub fn api_key(&self) -> Option<&SecretString> {
        self.api_key.as_ref()
    }
}

impl SecretStore for EnvSecrets {
    fn kind(&self) -> StoreKind {
        StoreKind::Env
    }

    fn check(&self) -> BoxFuture<'_, Result<(), SecretFault>> {
        Box::pin(async { Ok(()) })
    }

    fn get<'a>(&'a self, name: &'a SecretName) -> BoxFuture<'a, Result<SecretString, SecretFault>> {
        let found = if name.is_runner() {
            self.runner_token.clone()
        } else {
            self.api_key.clone()
        };
        Box::pin(async move { found.ok_or(SecretFault::Missing(StoreKind::Env)) })
    }

    /// Keeps nothing: who chose `env` brings the secret at each start.
    fn set<'a>(
        &'a self,
        _name: &'a SecretName,
        _secret: &'a SecretString,
    ) -> BoxFuture<'a, Result<(), SecretFault>> {
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, _name: &'a SecretName) -> BoxFuture<'a, Result<(), SecretFault>> {
        Box::pin(async { Ok(()) })
    }
}
