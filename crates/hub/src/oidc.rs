//! Signing in with an OpenID Connect provider: who is it, may they, and a key that lives for minutes.
//!
//! The hub never sees a password, a code or a client secret: the app does the flow in the system's browser and
//! brings the ID token. Here it is believed only when the provider that the settings name has signed it, for this
//! client, lately, for the nonce that came with it, and for the first time. No part of a token is ever logged or
//! repeated in an answer.

mod claims;
mod jwks;
mod jwt;
mod limit;
mod provider;
mod used;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, SecretText, Subject, WorkspaceId};
use everdict_store::{ApiKeyRow, Write};

use crate::auth::{self, Role};
use crate::clock;
use crate::dispatch::storage;
use crate::error::HubError;
use crate::shared::Shared;
use claims::Person;
use limit::Failures;
use provider::Provider;
use used::UsedTokens;

/// Long enough to pair a machine, with a question of the keyring in between; too short to be worth stealing.
const KEY_TTL: Duration = Duration::from_secs(600);

/// What a provider is asked for: the identity itself, and a name for people.
pub(crate) const SCOPES: &[&str] = &["openid", "profile", "email"];

/// How people sign in with a provider, and what they may do then.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OidcConfig {
    /// The provider, exactly as it calls itself; https, or http on loopback.
    pub issuer: String,
    /// The public client that the apps are there.
    pub client_id: String,
    /// Workspace of whoever signs in.
    pub workspace: WorkspaceId,
    /// What they may do; `None` refuses whoever `roles` doesn't name.
    pub role: Option<Role>,
    /// Claim whose value, or one of whose values, decides the role.
    pub role_claim: Option<String>,
    /// Values of `role_claim` with their roles; of several the strongest counts.
    pub roles: Vec<(String, Role)>,
    /// Claim that names the workspace, in place of `workspace`; whoever lacks it is refused.
    pub workspace_claim: Option<String>,
    /// How long a key lives that was made by signing in.
    pub key_ttl: Duration,
}

impl OidcConfig {
    /// Makes settings by which everybody whom the provider knows is a viewer of `default`: enough to pair a machine.
    #[must_use]
    pub fn new(issuer: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            client_id: client_id.into(),
            workspace: WorkspaceId::from("default"),
            role: Some(Role::Viewer),
            role_claim: None,
            roles: Vec::new(),
            workspace_claim: None,
            key_ttl: KEY_TTL,
        }
    }
}

/// The hub's side of signing in; present where the settings name a provider.
#[derive(Debug)]
pub(crate) struct SignIn {
    config: OidcConfig,
    provider: Provider,
    failures: Failures,
    used: UsedTokens,
}

/// A key made by signing in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) key: SecretText,
    pub(crate) expires_at: i64,
    pub(crate) subject: Subject,
    pub(crate) workspace: WorkspaceId,
    pub(crate) role: Role,
}

/// Why a token is not believed; the word goes to the caller, nothing else of the token does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    Malformed,
    Algorithm,
    UnknownKey,
    Signature,
    Issuer,
    Audience,
    Nonce,
    Expired,
    NotYetValid,
    TooOld,
    Subject,
    Replayed,
}

impl Doubt {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Nonce => "nonce",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::TooOld => "too_old",
            Self::Subject => "subject",
            Self::Replayed => "replayed",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Malformed => "the ID token can't be read",
            Self::Algorithm => "the ID token is not signed by RS256 or ES256",
            Self::UnknownKey => "the ID token is signed by a key that the provider does not publish",
            Self::Signature => "the signature of the ID token is wrong",
            Self::Issuer => "the ID token is another provider's",
            Self::Audience => "the ID token is for another application",
            Self::Nonce => "the ID token belongs to another sign-in",
            Self::Expired => "the ID token has expired; check the clocks if it is new",
            Self::NotYetValid => "the ID token is from the future: check the clocks",
            Self::TooOld => "the ID token was issued too long ago: sign in again",
            Self::Subject => "the ID token names nobody",
            Self::Replayed => "the ID token was used before: sign in again",
        }
    }
}

impl From<Doubt> for Fault {
    fn from(doubt: Doubt) -> Self {
        Self::new(ErrorCode::Unauthenticated, doubt.text()).with_data("reason", doubt.word())
    }
}

impl SignIn {
    pub(crate) fn new(config: OidcConfig) -> Result<Self, HubError> {
        check(&config)?;
        Ok(Self {
            provider: Provider::new(&config.issuer)?,
            config,
            failures: Failures::default(),
            used: UsedTokens::default(),
        })
    }

    /// Believes an ID token or doesn't, and makes a key for whom it names.
    ///
    /// Failures of one peer are counted; one with too many is refused for a while, whatever it brings.
    pub(crate) async fn admit(
        &self,
        shared: &Shared,
        peer: IpAddr,
        token: &str,
        nonce: &str,
    ) -> Result<Admitted, Fault> {
        self.failures.check(peer)?;
        let admitted = match self.believe(token, nonce).await {
            Ok(person) => self.make_key(shared, person).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &admitted
            && matches!(fault.code, ErrorCode::Unauthenticated | ErrorCode::Forbidden)
        {
            self.failures.count(peer);
            let data = fault.extra.data.as_ref();
            let reason = data.and_then(|data| data.get("reason")?.as_str());
            tracing::warn!(%peer, reason, "a sign-in was refused");
        }
        admitted
    }

    async fn believe(&self, token: &str, nonce: &str) -> Result<Person, Fault> {
        let token = jwt::Token::parse(token)?;
        let keys = self.provider.keys(&token).await?;
        keys.verify(&token)?;
        let now = clock::now() / 1000;
        let claims = claims::read(&token)?;
        claims.check(&self.config, nonce, now)?;
        let person = claims.person(&self.config)?;
        // Last, so that only a token that counts takes a place.
        self.used.take(token.digest(), claims.forget_at(now), now)?;
        Ok(person)
    }

    async fn make_key(&self, shared: &Shared, person: Person) -> Result<Admitted, Fault> {
        let now = clock::now();
        let ttl = i64::try_from(self.config.key_ttl.as_millis()).unwrap_or(i64::MAX);
        let key = auth::new_secret("ak_");
        let row = ApiKeyRow {
            hash: auth::hash(key.expose()),
            workspace: person.workspace.to_string(),
            role: person.role.as_str().to_owned(),
            subject: person.subject.to_string(),
            label: person.label,
            created_at: now,
            last_used_at: None,
            expires_at: Some(now.saturating_add(ttl)),
        };
        let clear = Write::DeleteExpiredApiKeys { at: now };
        shared.store.write(clear).await.map_err(storage)?;
        shared
            .store
            .write(Write::InsertApiKey(row))
            .await
            .map_err(storage)?;
        tracing::info!(subject = %person.subject, workspace = %person.workspace, role = person.role.as_str(),
            "somebody signed in");
        Ok(Admitted {
            key,
            expires_at: now.saturating_add(ttl),
            subject: person.subject,
            workspace: person.workspace,
            role: person.role,
        })
    }
}

/// What a hub offers to people who have no credential yet.
pub(crate) fn methods(sign_in: Option<&Arc<SignIn>>) -> serde_json::Value {
    match sign_in {
        None => serde_json::json!({"methods": ["key"]}),
        Some(sign_in) => serde_json::json!({
            "methods": ["key", "oidc"],
            "oidc": {
                "issuer": sign_in.config.issuer,
                "clientId": sign_in.config.client_id,
                "scopes": SCOPES,
            },
        }),
    }
}

fn check(config: &OidcConfig) -> Result<(), HubError> {
    let refuse = |why: &str| Err(HubError::BadOidc { why: why.to_owned() });
    if config.client_id.is_empty() || config.client_id.chars().any(char::is_control) {
        return refuse("the client id must not be empty");
    }
    if !provider::is_safe(&config.issuer) || config.issuer.contains(['?', '#']) {
        return refuse("the issuer must be an https:// address, or http:// on loopback, without a query");
    }
    if !auth::is_workspace_name(config.workspace.as_str()) {
        return refuse("the workspace must be a name of letters, digits, `-`, `_` and `.`");
    }
    if config.roles.is_empty() != config.role_claim.is_none() {
        return refuse("a role claim needs values with roles, and those need the claim");
    }
    if config.role.is_none() && config.roles.is_empty() {
        return refuse("nobody could sign in: give a role, or a claim with roles");
    }
    Ok(())
}
