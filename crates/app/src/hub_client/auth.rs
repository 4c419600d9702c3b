//! The routes that lead to a credential, and back.

use everdict_contracts::SecretText;
use reqwest::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{HubClient, HubFault};

/// How a hub lets people in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuthMethods {
    /// Names: `key` for API keys, `oidc` for an identity provider; others are of newer hubs.
    pub methods: Vec<String>,
    /// The provider, where there is one.
    pub oidc: Option<OidcOffer>,
}

/// An identity provider and what the hub's apps are there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OidcOffer {
    /// The provider's name for itself, and the address of its document.
    pub issuer: String,
    /// The public client.
    pub client_id: String,
    /// What to ask for.
    pub scopes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    api_key: SecretText,
}

impl AuthMethods {
    fn keys_only() -> Self {
        Self {
            methods: vec!["key".to_owned()],
            oidc: None,
        }
    }
}

impl HubClient {
    /// Asks how people get in. A hub that doesn't say takes API keys.
    ///
    /// # Errors
    /// Any [`HubFault`] of the connection itself.
    pub async fn auth_methods(&self) -> Result<AuthMethods, HubFault> {
        match self.decode(self.request(Method::GET, &["auth", "methods"])).await {
            Err(
                HubFault::NotFound { .. }
                | HubFault::Unauthenticated { .. }
                | HubFault::Forbidden { .. }
                | HubFault::NotAHub { status: 404, .. },
            ) => Ok(AuthMethods::keys_only()),
            other => other,
        }
    }

    /// Exchanges an ID token for a key that lives for minutes.
    ///
    /// # Errors
    /// Any [`HubFault`]; [`HubFault::Unauthenticated`] and [`HubFault::Forbidden`] with the hub's reason.
    pub async fn sign_in(&self, id_token: &SecretString, nonce: &str) -> Result<SecretString, HubFault> {
        let body = serde_json::json!({"idToken": id_token.expose_secret(), "nonce": nonce});
        let request = self.request(Method::POST, &["auth", "oidc"]).json(&body);
        let given: Given = self.decode(request).await?;
        Ok(SecretString::from(given.api_key.expose().to_owned()))
    }

    /// Gives back the key of this client, made by [`HubClient::sign_in`]: it works no more.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn sign_out(&self) -> Result<(), HubFault> {
        let request = self.request(Method::DELETE, &["auth", "oidc"]);
        self.answer(request).await.map(drop)
    }
}
