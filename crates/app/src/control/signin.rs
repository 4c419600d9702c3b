//! Signing in from a window: the browser is opened, and the window waits, at most for five minutes.

use std::sync::{Arc, PoisonError};

use tokio_util::sync::CancellationToken;

use super::room::Room;
use super::{Control, TokenPlace};
use crate::hub_url;
use crate::pairing::{Pairing, check_label};
use crate::problem::Result;
use crate::signin::{self, SIGN_IN_LIMIT, SignIn};

impl Control {
    /// Asks a hub how people get in: `key`, `oidc`.
    ///
    /// # Errors
    /// Input when the address is none; else the hub's fault.
    pub async fn sign_in_methods(&self, hub: &str) -> Result<Vec<String>> {
        signin::sign_in_methods(hub).await
    }

    /// Opens the system's browser, waits for the answer, and pairs. A sign-in that goes on is ended first.
    ///
    /// # Errors
    /// About the keyring before anything is opened; then as [`SignIn::begin`], [`SignIn::open_browser`] and
    /// [`SignIn::finish`]; then as [`crate::Pairing::with_api_key`]. Nothing is left behind.
    pub async fn sign_in(&self, hub: &str, label: &str, place: TokenPlace) -> Result<()> {
        self.room.sign_in(hub, label, place).await
    }

    /// Ends the sign-in that goes on, if one does: it fails with `sign_in_cancelled`.
    pub fn cancel_sign_in(&self) {
        self.room.next_sign_in();
    }
}

impl Room {
    /// Ends the sign-in that goes on, and makes the token of the next.
    fn next_sign_in(&self) -> CancellationToken {
        let mut current = self.sign_in.lock().unwrap_or_else(PoisonError::into_inner);
        current.cancel();
        // It also ends with the control.
        *current = self.stop.child_token();
        current.clone()
    }

    async fn sign_in(self: &Arc<Self>, hub: &str, label: &str, place: TokenPlace) -> Result<()> {
        check_label(label)?;
        let hub = hub_url::parse(hub)?;
        let cancel = self.next_sign_in();
        // A keyring that can't take the token is asked about before the person goes through a sign-in.
        let store = self.usable_store(place).await?;
        let begun = cancel.run_until_cancelled(SignIn::begin(&hub)).await;
        let sign_in = begun.unwrap_or_else(|| Err(signin::cancelled()))?;
        sign_in.open_browser(&self.options.env).await?;
        let signed_in = sign_in.finish(SIGN_IN_LIMIT, &cancel).await?;
        let mut crew = self.crew.lock().await;
        let pairing = Pairing {
            store,
            registrations: &self.registrations,
        };
        signed_in.pair(&pairing, label).await?;
        self.reconcile(&mut crew).await;
        Ok(())
    }
}
