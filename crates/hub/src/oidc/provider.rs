//! What the provider publishes: its document and its keys, fetched when they are needed and kept for a while.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_contracts::{ErrorCode, Fault};
use reqwest::{Client, Url, redirect};
use serde::Deserialize;

use super::jwks::Keys;
use super::jwt::Token;
use crate::error::HubError;

/// Providers announce new keys days ahead; an hour also ends the life of a withdrawn one.
const FRESH: Duration = Duration::from_secs(3_600);

/// How long old keys do while the provider can't be reached.
const USABLE: Duration = Duration::from_secs(24 * 3_600);

/// A person waits in front of a browser for two such answers at most.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A document or key set of a provider has a few KiB.
const MAX_ANSWER: usize = 1 << 20;

/// A first fetch, a rotation and a try after a failure need one each; made-up key ids must not buy any number of them.
const FETCHES: usize = 5;

/// Over which fetches are counted.
const FETCH_WINDOW: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
}

#[derive(Debug, Default)]
struct Kept {
    keys: Option<(Arc<Keys>, Instant)>,
    fetches: VecDeque<Instant>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Provider {
    issuer: String,
    http: Client,
    /// Held over a fetch, so that those who come meanwhile share its outcome.
    kept: tokio::sync::Mutex<Kept>,
}

impl Provider {
    pub(super) fn new(issuer: &str) -> Result<Self, HubError> {
        // A client can't be made without one; whoever runs the hub may have chosen it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder();
        if issuer.starts_with("http:") {
            // On loopback: no proxy belongs in between, and no certificate is read.
            builder = builder.no_proxy().tls_certs_only(std::iter::empty());
        }
        let http = builder
            .timeout(ANSWER_LIMIT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("everdict-hub/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| HubError::BadOidc {
                why: format!("HTTPS can't be set up on this machine ({error})"),
            })?;
        Ok(Self {
            issuer: issuer.to_owned(),
            http,
            kept: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the keys, with the one for `token` among them if the provider publishes it.
    pub(super) async fn keys(&self, token: &Token) -> Result<Arc<Keys>, Fault> {
        let mut kept = self.kept.lock().await;
        let now = Instant::now();
        let known = kept.keys.clone();
        if let Some((keys, at)) = &known
            && now.duration_since(*at) < FRESH
            && keys.has_key_for(token)
        {
            return Ok(keys.clone());
        }
        if !may_fetch(&mut kept.fetches, now) {
            return usable(known, now).ok_or_else(|| away("it was asked too often lately"));
        }
        match self.fetch().await {
            Ok(keys) => {
                let keys = Arc::new(keys);
                kept.keys = Some((keys.clone(), now));
                Ok(keys)
            }
            Err(why) => {
                tracing::warn!(issuer = self.issuer, why, "the identity provider gave no keys");
                usable(known, now).ok_or_else(|| away(&why))
            }
        }
    }

    async fn fetch(&self) -> Result<Keys, String> {
        let base = self.issuer.trim_end_matches('/');
        let document = self
            .get(&format!("{base}/.well-known/openid-configuration"))
            .await?;
        let document: Document = serde_json::from_slice(&document)
            .map_err(|_| "its document is not OpenID Connect's".to_owned())?;
        if document.issuer != self.issuer {
            return Err("its document is for another issuer".to_owned());
        }
        if !is_safe(&document.jwks_uri)
            || self.issuer.starts_with("https:") && document.jwks_uri.starts_with("http:")
        {
            return Err("its keys would be read without encryption".to_owned());
        }
        let keys = self.get(&document.jwks_uri).await?;
        Keys::parse(&keys).ok_or_else(|| "its keys can't be read".to_owned())
    }

    async fn get(&self, address: &str) -> Result<Vec<u8>, String> {
        // The words of the library are left out: they repeat addresses, and a next step they don't have.
        let mut answer = self
            .http
            .get(address)
            .header("accept", "application/json")
            .send()
            .await
            .map_err(|error| {
                if error.is_timeout() {
                    "it did not answer in time".to_owned()
                } else {
                    "it can't be reached".to_owned()
                }
            })?;
        if !answer.status().is_success() {
            return Err(format!("it answered {}", answer.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer
            .chunk()
            .await
            .map_err(|_| "its answer broke off".to_owned())?
        {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err("its answer is too large".to_owned());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Says whether an address may be believed: https, or http to this machine.
pub(super) fn is_safe(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else {
        return false;
    };
    let plain = url.username().is_empty() && url.password().is_none();
    let here = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    plain && url.host_str().is_some() && (url.scheme() == "https" || url.scheme() == "http" && here)
}

fn usable(known: Option<(Arc<Keys>, Instant)>, now: Instant) -> Option<Arc<Keys>> {
    known
        .filter(|(_, at)| now.duration_since(*at) < USABLE)
        .map(|(keys, _)| keys)
}

fn may_fetch(fetches: &mut VecDeque<Instant>, now: Instant) -> bool {
    while fetches
        .front()
        .is_some_and(|at| now.duration_since(*at) >= FETCH_WINDOW)
    {
        fetches.pop_front();
    }
    let may = fetches.len() < FETCHES;
    if may {
        fetches.push_back(now);
    }
    may
}

fn away(why: &str) -> Fault {
    Fault::new(
        ErrorCode::UpstreamError,
        format!("the identity provider can't be asked: {why}; try again later, or use an API key"),
    )
    .with_data("reason", "provider")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_or_local_addresses_are_believed() {
        for good in [
            "https://id.example",
            "https://id.example/realms/x",
            "http://127.0.0.1:8080",
            "http://[::1]:1/",
        ] {
            assert!(is_safe(good), "{good}");
        }
        for bad in [
            "http://id.example",
            "http://127.0.0.1.example",
            "https://u:p@id.example",
            "ftp://x",
            "id.example",
            "",
        ] {
            assert!(!is_safe(bad), "{bad}");
        }
    }

    #[test]
    fn made_up_key_ids_buy_few_fetches() {
        let mut fetches = VecDeque::new();
        let start = Instant::now();
        let bought = (0..100).filter(|_| may_fetch(&mut fetches, start)).count();
        assert_eq!(bought, FETCHES);
        assert!(may_fetch(&mut fetches, start + FETCH_WINDOW));
    }
}
