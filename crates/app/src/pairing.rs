//! Pairing and unpairing: all of it or nothing.
//!
//! The order is: the hub knows the token → the token is kept → the registration is written. Whatever fails
//! takes back what came before it, so that no half-paired state is left on disk, in the keyring or at the hub.

use std::sync::Arc;

use everdict_contracts::{MAX_LABEL_CHARS as MAX_LABEL, PairBody, RunnerId};
use jiff::Timestamp;
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use crate::hub_client::{HubClient, HubFault};
use crate::hub_url;
use crate::problem::{Problem, ProblemClass, Result};
use crate::registrations::{Registration, Registrations};
use crate::secrets::{SecretName, SecretStore};

/// Tells whether `text` has the shape of a runner token: `rnr_` and at least one of `A-Z a-z 0-9 _ -`.
#[must_use]
pub fn is_runner_token(text: &str) -> bool {
    text.strip_prefix("rnr_").is_some_and(|rest| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    })
}

/// Checks a label: 1 to 80 characters, none of them a control character.
///
/// # Errors
/// A problem about input.
pub fn check_label(label: &str) -> Result<()> {
    let length = label.encode_utf16().count();
    if length == 0 || length > MAX_LABEL || label.chars().any(char::is_control) {
        return Err(Problem::input(format!(
            "a label has 1 to {MAX_LABEL} characters and no control characters"
        ))
        .fix("give another name with --label"));
    }
    Ok(())
}

/// Where a pairing puts things.
pub struct Pairing<'a> {
    /// Keeps the token.
    pub store: Arc<dyn SecretStore>,
    /// Keeps the registration.
    pub registrations: &'a Registrations,
}

impl Pairing<'_> {
    /// Makes a new runner at the hub with a member's key, and keeps it here.
    ///
    /// Returns the registration and the token (which the `env` store does not keep).
    ///
    /// # Errors
    /// The hub's fault, or this machine's; nothing is left behind.
    pub async fn with_api_key(
        &self,
        client: &HubClient,
        label: &str,
    ) -> Result<(Registration, SecretString)> {
        check_label(label)?;
        // A keyring that can't be used must stop it before the hub makes a runner.
        self.store.check().await.map_err(Problem::from)?;
        let body = PairBody {
            label: label.to_owned(),
            os: Some(platform().to_owned()),
            capabilities: None,
        };
        let paired = client.pair_runner(&body).await?;
        let token = SecretString::from(paired.token.expose().to_owned());
        match self.keep(client.base(), &token, label).await {
            Ok(registration) => Ok((registration, token)),
            Err(problem) => {
                self.take_back(client, &paired.runner.id).await;
                Err(problem)
            }
        }
    }

    /// Keeps a runner that was made elsewhere, by its token.
    ///
    /// # Errors
    /// Input when the token is misshapen or no runner's; else as [`Pairing::with_api_key`].
    pub async fn with_token(&self, hub: &Url, token: SecretString, label: &str) -> Result<Registration> {
        check_label(label)?;
        if !is_runner_token(token.expose_secret()) {
            return Err(Problem::input("this is not a runner token (rnr_…)")
                .fix("copy it whole from the hub's Runners page, or pair with --hub and an API key"));
        }
        self.store.check().await.map_err(Problem::from)?;
        self.keep(hub, &token, label).await
    }

    async fn keep(&self, hub: &Url, token: &SecretString, label: &str) -> Result<Registration> {
        let me = HubClient::new(hub.clone(), Some(token.clone()))?.me().await?;
        let Some(runner_id) = me.runner_id else {
            return Err(Problem::input("the hub knows this token, but not as a runner's")
                .fix("use a token that begins with rnr_ and was made by pairing a runner"));
        };
        let registration = Registration {
            runner_id,
            label: label.to_owned(),
            hub_url: hub_url::text(hub),
            owner: me.subject.to_string(),
            workspace: me.workspace.to_string(),
            store: self.store.kind(),
            paired_at: Timestamp::now().to_string(),
        };
        let name = registration.secret_name()?;
        self.store.set(&name, token).await.map_err(Problem::from)?;
        if let Err(problem) = self.registrations.put(registration.clone()) {
            if let Err(fault) = self.store.remove(&name).await {
                tracing::warn!(
                    state = fault.state(),
                    "the token of a failed pairing stays behind"
                );
            }
            return Err(problem);
        }
        Ok(registration)
    }

    async fn take_back(&self, client: &HubClient, runner: &RunnerId) {
        if let Err(fault) = client.revoke_runner(runner).await {
            tracing::warn!(%runner, %fault, "a runner of a failed pairing stays at the hub: revoke it there");
        }
    }
}

/// What became of the hub's side of an unpairing.
#[derive(Debug, Clone)]
pub enum HubSide {
    /// The runner is gone at the hub.
    Revoked,
    /// Nobody asked the hub, for want of a member's key.
    NotAsked,
    /// The hub could not be asked or refused; the runner may still be listed there.
    Failed(HubFault),
}

/// Forgets a runner here, whatever the hub says; with a client also revokes it there. With the last runner of a
/// hub the API key kept for it goes too.
///
/// # Errors
/// A problem about this machine. A locked or missing keyring does not stop it: the entry is then named.
pub async fn unpair(
    registration: &Registration,
    store: &dyn SecretStore,
    registrations: &Registrations,
    client: Option<&HubClient>,
) -> Result<HubSide> {
    let hub_side = match client {
        None => HubSide::NotAsked,
        Some(client) => match client.revoke_runner(&registration.runner_id).await {
            Ok(()) => HubSide::Revoked,
            Err(fault) => HubSide::Failed(fault),
        },
    };
    let name = registration.secret_name()?;
    let mut removed = store.remove(&name).await;
    registrations.remove(registration)?;
    let last = !registrations
        .list()?
        .iter()
        .any(|known| known.hub_url == registration.hub_url);
    if last && removed.is_ok() {
        removed = store.remove(&SecretName::api_key(&registration.hub()?)).await;
    }
    removed.map_err(|fault| {
        Problem::new(
            ProblemClass::Machine,
            format!("unpaired, but the token stays in the {}", store.kind()),
        )
        .fix(format!(
            "remove the entry \"{}\" in the system's keyring application",
            SecretName::as_str(&name)
        ))
        .because(fault)
    })?;
    Ok(hub_side)
}

/// Returns this platform's name in the protocol.
#[must_use]
pub fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    }
}

/// Returns this machine's host name, else "this machine".
#[must_use]
pub fn host_name() -> String {
    let text = system_host_name().unwrap_or_default();
    let name: String = text
        .trim()
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_LABEL)
        .collect();
    if name.is_empty() {
        "this machine".to_owned()
    } else {
        name
    }
}

#[cfg(target_os = "linux")]
fn system_host_name() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok()
}

#[cfg(not(target_os = "linux"))]
fn system_host_name() -> Option<String> {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer is valid for its whole length, and one byte is kept back for the terminator.
    let code = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) };
    let end = buffer.iter().position(|byte| *byte == 0)?;
    (code == 0).then(|| String::from_utf8_lossy(&buffer[..end]).into_owned())
}

#[cfg(test)]
mod tests;
