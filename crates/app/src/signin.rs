//! Signing in to a hub in the system's browser: OpenID Connect, authorisation code with PKCE, loopback redirect
//! (RFC 8252).
//!
//! The hub says which provider; the person signs in there; this machine hears the answer on 127.0.0.1, turns it into an
//! ID token and that, at the hub, into a key that lives for minutes. The key pairs this machine once and is given back.
//! It refuses to open anything but a web address, to take a second answer, and to keep anything: codes, tokens and the
//! key live in this process for as long as it takes, and are in no log.

mod challenge;
mod listener;
mod page;
mod provider;
mod words;

use std::time::Duration;

use everdict_exec::HostEnv;
use reqwest::Url;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use crate::hub_client::HubClient;
use crate::hub_url;
use crate::pairing::Pairing;
use crate::problem::Result;
use crate::registrations::Registration;
use challenge::Challenge;
use listener::{Answer, Listener};
use provider::Provider;
pub(crate) use words::cancelled;

/// How long a person may take in the browser: time to find a second factor; then the port closes.
pub const SIGN_IN_LIMIT: Duration = Duration::from_secs(300);

/// A program that opens addresses hands them on and ends, or becomes the browser; either way this is enough to see it
/// fail.
const OPENER_LIMIT: Duration = Duration::from_secs(2);

/// The key ends by itself within minutes, so its return is not waited for longer.
const RETURN_LIMIT: Duration = Duration::from_secs(5);

/// Asks a hub how people get in: `key`, `oidc`.
///
/// # Errors
/// Input when the address is none; else the hub's fault.
pub async fn sign_in_methods(hub: &str) -> Result<Vec<String>> {
    let hub = hub_url::parse(hub)?;
    let methods = HubClient::new(hub, None)?.auth_methods().await?;
    let known = |name: &String| ["key", "oidc"].contains(&name.as_str());
    Ok(methods.methods.into_iter().filter(known).collect())
}

/// A sign-in that waits for the person. Dropping it closes the port and forgets everything.
pub struct SignIn {
    hub: HubClient,
    provider: Provider,
    challenge: Challenge,
    listener: Listener,
    browser: Url,
}

impl SignIn {
    /// Asks the hub and its provider, and opens the port for the answer.
    ///
    /// # Errors
    /// `sign_in_not_offered`, `sign_in_setup`, `provider_unreachable`, or the hub's fault.
    pub async fn begin(hub: &Url) -> Result<Self> {
        let client = HubClient::new(hub.clone(), None)?;
        let methods = client.auth_methods().await?;
        let offer = methods
            .oidc
            .filter(|_| methods.methods.iter().any(|name| name == "oidc"));
        let provider = Provider::find(offer.ok_or_else(|| words::not_offered(hub))?).await?;
        let listener = Listener::bind().await?;
        let challenge = Challenge::make();
        let browser = provider.browser_address(&challenge, &listener.redirect_uri());
        Ok(Self {
            hub: client,
            provider,
            challenge,
            listener,
            browser,
        })
    }

    /// The address to open in a browser of this machine. It holds no secret that is of use elsewhere.
    #[must_use]
    pub fn browser_address(&self) -> &Url {
        &self.browser
    }

    /// Opens the address with the system's program for it, found in the environment captured at start.
    ///
    /// # Errors
    /// `browser_unavailable`; the address can still be opened by hand.
    pub async fn open_browser(&self, host: &HostEnv) -> Result<()> {
        let opener = if cfg!(target_os = "macos") {
            "open"
        } else {
            "xdg-open"
        };
        let program = host.find_program(opener).ok_or_else(words::no_browser)?;
        let handed = everdict_exec::hand_over(host, &program, [self.browser.as_str()], OPENER_LIMIT);
        match handed.await {
            Ok(Some(status)) if !status.success() => Err(words::no_browser()),
            Ok(_) => Ok(()),
            Err(error) => Err(words::no_browser().because(error)),
        }
    }

    /// Waits until the person has signed in, at most `limit`, and gets a key from the hub.
    ///
    /// # Errors
    /// `sign_in_timeout`, `sign_in_cancelled`, the provider's refusal (`sign_in_denied`, `sign_in_failed`,
    /// `sign_in_setup`, `provider_unreachable`), or the hub's (`sign_in_refused`).
    pub async fn finish(self, limit: Duration, cancel: &CancellationToken) -> Result<SignedIn> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(cancelled()),
            signed_in = self.signed_in(limit) => signed_in,
        }
    }

    async fn signed_in(self, limit: Duration) -> Result<SignedIn> {
        let redirect_uri = self.listener.redirect_uri();
        let answer = self
            .listener
            .answer(&self.challenge.state, self.provider.issuer());
        let answer = tokio::time::timeout(limit, answer).await;
        let code = match answer.map_err(|_| words::timed_out())? {
            Answer::Code(code) => code,
            Answer::Refused { error, words } => {
                return Err(words::refusal(&self.provider.host(), &error, &words));
            }
            Answer::OtherIssuer => return Err(words::other_issuer(&self.provider.host())),
        };
        let token = self
            .provider
            .exchange(&code, &self.challenge, &redirect_uri)
            .await?;
        let key = self
            .hub
            .sign_in(&token, &self.challenge.nonce)
            .await
            .map_err(words::hub_refused)?;
        Ok(SignedIn {
            client: HubClient::new(self.hub.base().clone(), Some(key))?,
        })
    }
}

/// Somebody who has signed in, with a key for this once.
pub struct SignedIn {
    client: HubClient,
}

impl SignedIn {
    /// Pairs this machine, and gives the key back in any case.
    ///
    /// # Errors
    /// As [`Pairing::with_api_key`]. Nothing is left behind.
    pub async fn pair(self, pairing: &Pairing<'_>, label: &str) -> Result<(Registration, SecretString)> {
        let paired = pairing.with_api_key(&self.client, label).await;
        match tokio::time::timeout(RETURN_LIMIT, self.client.sign_out()).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => {
                tracing::warn!(%fault, "the key of a sign-in was not given back; it ends by itself");
            }
            Err(_elapsed) => {
                tracing::warn!("the key of a sign-in was not given back in time; it ends by itself");
            }
        }
        paired
    }
}

#[cfg(test)]
mod tests;
