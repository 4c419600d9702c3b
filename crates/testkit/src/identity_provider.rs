//! An OpenID Connect provider over real HTTP: discovery, authorisation code with PKCE, tokens signed by real keys.
//!
//! Whoever asks is signed in at once, as the person whom [`IdentityProvider::person`] names. A test makes the
//! provider deviate by script: [`IdentityProvider::deviate`].

mod keys;
mod server;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use keys::Keys;
pub use keys::Signed;

/// The client that the provider knows, a public one.
pub const CLIENT_ID: &str = "everdict-runner-app";

/// What the provider answers wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/.well-known/openid-configuration`.
    Discovery,
    /// `/authorize`.
    Authorize,
    /// `/token`.
    Token,
    /// `/jwks`.
    Keys,
}

/// How the provider deviates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deviation {
    /// Tokens carry this nonce in place of the one asked for.
    Nonce(&'static str),
    /// Tokens carry this claim in place of the right one.
    Claim(&'static str, Value),
    /// Tokens are signed in this way.
    Signature(Signed),
    /// The document, or the key set, is this text with this type.
    Html(Endpoint),
    /// The endpoint answers this status with JSON.
    Status(Endpoint, u16),
    /// The endpoint answers with a redirect to another place.
    Redirect(Endpoint),
    /// The browser comes back with this error.
    Refuse(&'static str),
    /// The browser comes back with another state.
    State,
    /// The browser comes back with another issuer's name (RFC 9207).
    AnswerIssuer,
    /// The document names another issuer.
    DocumentIssuer,
    /// Codes that are handed out were used before.
    CodeUsed,
    /// The person never comes back: the browser gets a page.
    Silence,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) deviations: Vec<Deviation>,
    pub(crate) claims: Map<String, Value>,
    pub(crate) codes: HashMap<String, Grant>,
    pub(crate) made: u64,
    pub(crate) asked: Vec<Endpoint>,
}

/// What a code was given for.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) redirect_uri: String,
    pub(crate) challenge: String,
    pub(crate) nonce: String,
}

pub(crate) struct Room {
    pub(crate) state: Mutex<State>,
    pub(crate) keys: Keys,
    pub(crate) issuer: String,
}

impl Room {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A provider that listens until it is dropped.
pub struct IdentityProvider {
    room: Arc<Room>,
    _server: JoinSet<()>,
}

impl IdentityProvider {
    /// Starts one on a free loopback port, where `ann` is signed in.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .expect("loopback");
        let address = listener.local_addr().expect("bound");
        let room = Arc::new(Room {
            state: Mutex::default(),
            keys: Keys::make(),
            issuer: format!("http://{address}"),
        });
        let routes = server::routes(room.clone());
        let mut server = JoinSet::new();
        server.spawn(async move {
            axum::serve(listener, routes).await.expect("the provider serves");
        });
        let provider = Self {
            room,
            _server: server,
        };
        provider.person(json!({"sub": "ann", "email": "ann@team.example"}));
        provider
    }

    /// The issuer's name and address.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.room.issuer
    }

    /// Signs in somebody else: the claims of an ID token beyond the protocol's own.
    pub fn person(&self, claims: Value) {
        if let Value::Object(claims) = claims {
            self.room.state().claims = claims;
        }
    }

    /// Deviates from here on, in each of the given ways; with none it is right again.
    pub fn deviate(&self, deviations: impl IntoIterator<Item = Deviation>) {
        self.room.state().deviations = deviations.into_iter().collect();
    }

    /// How often an endpoint was asked.
    #[must_use]
    pub fn asked(&self, endpoint: Endpoint) -> usize {
        let state = self.room.state();
        state.asked.iter().filter(|asked| **asked == endpoint).count()
    }

    /// Makes an ID token, as the deviations have it.
    #[must_use]
    pub fn id_token(&self, nonce: &str) -> String {
        let state = self.room.state();
        let signed = state.deviations.iter().find_map(|deviation| match deviation {
            Deviation::Signature(signed) => Some(*signed),
            _ => None,
        });
        let claims = claims(&state, &self.room.issuer, nonce);
        drop(state);
        self.room.keys.sign(signed.unwrap_or(Signed::Es256), &claims)
    }
}

pub(crate) fn claims(state: &State, issuer: &str, nonce: &str) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let mut claims = json!({"iss": issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce});
    for (name, value) in &state.claims {
        claims[name] = value.clone();
    }
    // Two tokens of one second are not the same.
    claims["jti"] = json!(uuid::Uuid::new_v4().to_string());
    for deviation in &state.deviations {
        match deviation {
            Deviation::Nonce(other) => claims["nonce"] = json!(other),
            Deviation::Claim(name, value) => claims[*name] = value.clone(),
            _ => {}
        }
    }
    claims
}
