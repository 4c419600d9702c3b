//! Pairing and unpairing from a window: all of it or nothing, with the embedded hub as a possible part of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use secrecy::SecretString;

use super::invitation;
use super::room::{Crew, Room};
use crate::hub_client::HubClient;
use crate::hub_host::{HubHost, HubOptions};
use crate::hub_url;
use crate::pairing::{HubSide, Pairing, check_label, unpair};
use crate::problem::{Problem, Result};
use crate::registrations::Registration;
use crate::secrets::{self, SecretName, SecretStore, StoreKind};

/// The workspace of a hub that one person uses; the same that `everdict-runner hub` makes.
const WORKSPACE: &str = "default";

/// An unpairing works without the server, so it doesn't wait long for one.
const GOODBYE_LIMIT: Duration = Duration::from_secs(5);

/// Where a token may go: the store of the settings, or, because the person asked for it, a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenPlace {
    /// As the settings say.
    #[default]
    Settings,
    /// A file of mode 0600, in place of a keyring that can't be used.
    File,
}

impl Room {
    fn store(&self, place: TokenPlace) -> Arc<dyn SecretStore> {
        let kind = match place {
            TokenPlace::Settings => self.settings().secret_store,
            TokenPlace::File => StoreKind::File,
        };
        self.open_store(kind)
    }

    pub(super) fn open_store(&self, kind: StoreKind) -> Arc<dyn SecretStore> {
        secrets::open(kind, &self.options.paths, &self.options.secrets)
    }

    /// Checks that a runner can be kept and started here, with its token at `place`. A store that keeps nothing is no place for a window's pairing.
    pub(super) async fn usable_store(&self, place: TokenPlace) -> Result<Arc<dyn SecretStore>> {
        self.options.paths.prepare()?;
        self.claim_profile()?;
        let store = self.store(place);
        if store.kind() == StoreKind::Env {
            return Err(Problem::input(
                "the settings say that tokens are not kept (secrets.store = \"env\")",
            )
            .fix("set secrets.store to \"keyring\" or \"file\", or pair on the command line"));
        }
        self.look_at_keyring().await;
        store.check().await.map_err(Problem::from)?;
        Ok(store)
    }

    pub(super) async fn pair_this_computer(self: &Arc<Self>, label: &str, place: TokenPlace) -> Result<()> {
        check_label(label)?;
        let mut crew = self.crew.lock().await;
        if self
            .registrations
            .list()?
            .iter()
            .any(|known| self.is_embedded(known))
        {
            return Err(Problem::input("this computer is already paired with its own hub")
                .fix("unpair it first to pair it anew")
                .coded("already_paired"));
        }
        let store = self.usable_store(place).await?;
        let had_hub = crew.hub.is_some();
        let hub = match crew.hub.take() {
            Some(hub) => hub,
            None => self.first_hub().await?,
        };
        match self.pair_with_own(&hub, store, label).await {
            Ok(()) => {
                crew.hub = Some(hub);
                self.reconcile(&mut crew).await;
                Ok(())
            }
            Err(problem) if had_hub => {
                crew.hub = Some(hub);
                Err(problem)
            }
            Err(problem) => {
                self.discard(hub).await;
                Err(problem)
            }
        }
    }

    /// Pairs with the hub in this process and keeps the key for it. Whatever fails takes back what came before.
    async fn pair_with_own(&self, hub: &HubHost, store: Arc<dyn SecretStore>, label: &str) -> Result<()> {
        let key = hub.create_api_key(WORKSPACE, "admin").await?;
        let paired = self.keep_pairing(hub, &key, store, label).await;
        if paired.is_err()
            && let Err(problem) = hub.delete_api_key(&key).await
        {
            tracing::warn!(problem = %problem.chain(), "the key of a failed pairing stays in the hub");
        }
        paired
    }

    async fn keep_pairing(
        &self,
        hub: &HubHost,
        key: &SecretString,
        store: Arc<dyn SecretStore>,
        label: &str,
    ) -> Result<()> {
        let client = HubClient::new(hub.url().clone(), Some(key.clone()))?;
        let pairing = Pairing {
            store: Arc::clone(&store),
            registrations: &self.registrations,
        };
        let (registration, _token) = pairing.with_api_key(&client, label).await?;
        let kept = async {
            let name = SecretName::api_key(hub.url());
            store.set(&name, key).await.map_err(Problem::from)?;
            let address = listening(hub.url())?;
            self.choose(|choices| choices.hub = Some(address))
        };
        let Err(problem) = kept.await else {
            return Ok(());
        };
        // With the last runner of a hub its key goes too.
        if let Err(left) = unpair(&registration, store.as_ref(), &self.registrations, Some(&client)).await {
            tracing::warn!(problem = %left.chain(), "a part of a failed pairing stays behind");
        }
        Err(problem)
    }

    /// Starts the hub in this process for the first time: where the settings say, else at a free port.
    async fn first_hub(&self) -> Result<HubHost> {
        let mut options = self.hub_options(self.options.settings.hub_listen);
        match HubHost::start(&options).await {
            Err(problem) if problem.code() == "port_in_use" && options.listen.ip().is_loopback() => {
                options.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                HubHost::start(&options).await
            }
            other => other,
        }
    }

    pub(super) fn hub_options(&self, listen: SocketAddr) -> HubOptions {
        HubOptions {
            database: None,
            data_dir: self
                .options
                .settings
                .hub_data_dir
                .clone()
                .unwrap_or_else(|| self.options.paths.hub_dir()),
            listen,
            lease_ttl: None,
            // The hub of one person on one machine: nobody else is to come in.
            oidc: None,
        }
    }

    /// Stops a hub that nobody is paired with; a database that was made for it goes with it.
    async fn discard(&self, hub: HubHost) {
        let is_new = hub.is_new();
        let data_dir = self.hub_options(self.options.settings.hub_listen).data_dir;
        if let Err(problem) = hub.stop().await {
            tracing::warn!(problem = %problem.chain(), "the hub did not stop well");
        } else if is_new && let Err(error) = std::fs::remove_dir_all(&data_dir) {
            tracing::warn!(%error, "the database of a failed pairing stays behind");
        }
    }

    pub(super) async fn pair_with_token(
        self: &Arc<Self>,
        hub: &str,
        text: &str,
        label: &str,
        place: TokenPlace,
    ) -> Result<()> {
        check_label(label)?;
        let invitation = invitation::parse(text)?;
        let hub = hub_of(hub, invitation.hub.as_deref())?;
        self.pair_invited(hub, invitation.token, label, place).await
    }

    /// Pairs with a token whose hub is known.
    pub(super) async fn pair_invited(
        self: &Arc<Self>,
        hub: Url,
        token: SecretString,
        label: &str,
        place: TokenPlace,
    ) -> Result<()> {
        let mut crew = self.crew.lock().await;
        let pairing = Pairing {
            store: self.usable_store(place).await?,
            registrations: &self.registrations,
        };
        pairing.with_token(&hub, token, label).await?;
        self.reconcile(&mut crew).await;
        Ok(())
    }

    pub(super) async fn pair_with_api_key(
        self: &Arc<Self>,
        hub: &str,
        key: SecretString,
        label: &str,
        place: TokenPlace,
    ) -> Result<()> {
        check_label(label)?;
        let hub = hub_url::parse(hub)?;
        let mut crew = self.crew.lock().await;
        let pairing = Pairing {
            store: self.usable_store(place).await?,
            registrations: &self.registrations,
        };
        // The key itself is not kept: a window needs it this once.
        pairing
            .with_api_key(&HubClient::new(hub, Some(key))?, label)
            .await?;
        self.reconcile(&mut crew).await;
        Ok(())
    }

    pub(super) async fn unpair(self: &Arc<Self>, runner_id: &str) -> Result<()> {
        let mut crew = self.crew.lock().await;
        let known = self.registrations.list()?;
        let registration = known
            .into_iter()
            .find(|known| known.runner_id.as_str() == runner_id)
            .ok_or_else(unknown_runner)?;
        self.dismiss(&mut crew, &registration).await;
        let store = self.open_store(registration.store);
        let key = match registration.hub() {
            Ok(hub) => store.get(&SecretName::api_key(&hub)).await.ok(),
            Err(_) => None,
        };
        self.say_goodbye(&registration, key.as_ref()).await;
        let mut gone = unpair(&registration, store.as_ref(), &self.registrations, None)
            .await
            .map(|_side: HubSide| ());
        if self.is_embedded(&registration)
            && self
                .registrations
                .list()?
                .iter()
                .all(|known| !self.is_embedded(known))
        {
            gone = gone.and(self.close_hub(&mut crew, key.as_ref()).await);
        }
        self.reconcile(&mut crew).await;
        gone
    }

    /// Forgets a runner of the embedded hub and pairs anew, under the same name and with the token in the same kind of
    /// place. For another hub only the forgetting can be done here: a new token has to come from there.
    pub(super) async fn pair_again(self: &Arc<Self>, runner_id: &str) -> Result<()> {
        let known = self.registrations.list()?;
        let old = known
            .into_iter()
            .find(|known| known.runner_id.as_str() == runner_id)
            .ok_or_else(unknown_runner)?;
        if !self.is_embedded(&old) {
            return Err(Problem::input("another hub gives its own tokens")
                .fix("unpair it, then join that hub again")
                .coded("not_own_hub"));
        }
        let place = match old.store {
            StoreKind::File => TokenPlace::File,
            StoreKind::Keyring | StoreKind::Env => TokenPlace::Settings,
        };
        // Before anything is forgotten: without a place for the new token the old pairing is worth more than none.
        self.usable_store(place).await?;
        self.unpair(runner_id).await?;
        self.pair_this_computer(&old.label, place).await
    }

    /// Revokes the runner at its hub, where there is a key for it and the hub answers soon.
    async fn say_goodbye(&self, registration: &Registration, key: Option<&SecretString>) {
        let Some(key) = key else { return };
        let revoked = async {
            let client = HubClient::new(registration.hub()?, Some(key.clone()))?;
            client
                .revoke_runner(&registration.runner_id)
                .await
                .map_err(Problem::from)
        };
        match tokio::time::timeout(GOODBYE_LIMIT, revoked).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => {
                tracing::warn!(problem = %problem.chain(), "the hub may still list the runner");
            }
            Err(_elapsed) => tracing::warn!("the hub did not answer and may still list the runner"),
        }
    }

    /// Ends the embedded hub: its key first, so that nothing can use it later. Its runs stay in its database.
    async fn close_hub(&self, crew: &mut Crew, key: Option<&SecretString>) -> Result<()> {
        self.choose(|choices| choices.hub = None)?;
        let Some(hub) = crew.hub.take() else {
            return Ok(());
        };
        if let Some(key) = key {
            hub.delete_api_key(key).await?;
        }
        hub.stop().await
    }
}

pub(super) fn unknown_runner() -> Problem {
    Problem::input("no runner of this machine has this id")
        .fix("look at the list of runners again")
        .coded("runner_unknown")
}

/// The hub that was typed, else the one that the pasted text names. Two that differ are a question for the person.
fn hub_of(typed: &str, named: Option<&str>) -> Result<Url> {
    let typed = Some(typed.trim()).filter(|typed| !typed.is_empty());
    match (typed, named) {
        (Some(typed), None) => hub_url::parse(typed),
        (None, Some(named)) => hub_url::parse(named),
        (Some(typed), Some(named)) => {
            let (typed, named) = (hub_url::parse(typed)?, hub_url::parse(named)?);
            if typed == named {
                return Ok(typed);
            }
            Err(Problem::input(format!(
                "the address is {}, but the pasted text is for {}",
                hub_url::host(&typed),
                hub_url::host(&named)
            ))
            .fix("clear the address, or paste only the token")
            .coded("two_hubs"))
        }
        (None, None) => Err(Problem::input("a token alone doesn't say which hub it is for")
            .fix("give the hub's address too")
            .coded("no_hub")),
    }
}

fn listening(url: &Url) -> Result<SocketAddr> {
    let address = format!(
        "{}:{}",
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or(0)
    );
    address.parse().map_err(|error: std::net::AddrParseError| {
        Problem::machine("the hub's address can't be kept").because(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_and_the_pasted_text_must_not_disagree() {
        let hub = |typed, named| {
            hub_of(typed, named)
                .map(|hub| hub_url::text(&hub))
                .map_err(|problem| problem.code())
        };
        assert_eq!(hub("http://a.example/", None), Ok("http://a.example".to_owned()));
        assert_eq!(
            hub(" ", Some("http://a.example")),
            Ok("http://a.example".to_owned())
        );
        assert_eq!(
            hub("http://a.example", Some("http://a.example/")),
            Ok("http://a.example".to_owned())
        );
        assert_eq!(hub("http://a.example", Some("http://b.example")), Err("two_hubs"));
        assert_eq!(hub("", None), Err("no_hub"));
    }
}
