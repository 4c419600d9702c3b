//! What every command gets: the captured environment, its secrets, folders, settings and the output.

use std::io::Read as _;
use std::sync::Arc;

use everdict_app::{
    EnvSecrets, HubClient, Paths, Problem, ProblemClass, Registrations, Result, SecretFault, SecretName,
    SecretStore, Settings, StoreKind, Url, hub_url, secrets,
};
use everdict_exec::HostEnv;
use secrecy::SecretString;

use crate::args::HubAccessArgs;
use crate::output::Output;

/// The variable with the hub's address.
pub(crate) const API_URL_VAR: &str = "EVERDICT_API_URL";

/// A key or token from standard input is one line; more is a mistake.
const MAX_STDIN: u64 = 16 * 1024;

/// Handed to every command.
pub(crate) struct Context {
    pub(crate) env: Arc<HostEnv>,
    pub(crate) secrets: EnvSecrets,
    pub(crate) paths: Paths,
    pub(crate) settings: Settings,
    pub(crate) out: Output,
}

impl Context {
    pub(crate) fn registrations(&self) -> Registrations {
        Registrations::at(self.paths.registrations_file())
    }

    pub(crate) fn store(&self, kind: StoreKind) -> Arc<dyn SecretStore> {
        secrets::open(kind, &self.paths, &self.secrets)
    }

    /// Finds the hub meant: the flag, the environment, the only hub paired here, the settings.
    pub(crate) fn hub(&self, flag: Option<&str>) -> Result<Url> {
        if let Some(text) = flag.or_else(|| self.env.get(API_URL_VAR).filter(|url| !url.is_empty())) {
            return hub_url::parse(text);
        }
        let mut hubs: Vec<String> = self
            .registrations()
            .list()?
            .into_iter()
            .map(|known| known.hub_url)
            .collect();
        hubs.dedup();
        match hubs.as_slice() {
            [only] => hub_url::parse(only),
            [] => hub_url::parse(&self.settings.hub_url),
            several if several.iter().all(|hub| hub == &several[0]) => hub_url::parse(&several[0]),
            _ => {
                Err(Problem::input("this machine is paired with several hubs")
                    .fix("say which one with --hub"))
            }
        }
    }

    /// Opens the hub meant with the member's key: standard input, the environment, the kept one; else none.
    pub(crate) async fn client(&self, access: &HubAccessArgs) -> Result<HubClient> {
        let hub = self.hub(access.hub.as_deref())?;
        let key = if access.api_key_stdin {
            Some(secret_from_stdin("API key")?)
        } else if let Some(key) = self.secrets.api_key() {
            Some(key.clone())
        } else {
            self.kept_api_key(&hub).await?
        };
        HubClient::new(hub, key)
    }

    pub(crate) async fn kept_api_key(&self, hub: &Url) -> Result<Option<SecretString>> {
        let name = SecretName::api_key(hub);
        let text = hub_url::text(hub);
        let kinds: Vec<StoreKind> = self
            .registrations()
            .list()?
            .into_iter()
            .filter(|known| known.hub_url == text && known.store != StoreKind::Env)
            .map(|known| known.store)
            .collect();
        for kind in kinds {
            match self.store(kind).get(&name).await {
                Ok(key) => return Ok(Some(key)),
                Err(SecretFault::Missing(_)) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(None)
    }
}

/// Reads one line of standard input as a secret.
pub(crate) fn secret_from_stdin(what: &str) -> Result<SecretString> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MAX_STDIN)
        .read_to_string(&mut text)
        .map_err(|error| {
            Problem::input(format!("can't read the {what} from standard input")).because(error)
        })?;
    let text = text.trim();
    if text.is_empty() {
        return Err(
            Problem::new(ProblemClass::NotPaired, format!("standard input holds no {what}"))
                .fix(format!("pipe the {what} in")),
        );
    }
    Ok(SecretString::from(text.to_owned()))
}
