//! The app's side of an identity provider: its document, the address for the browser, and code against token.

use everdict_contracts::SecretText;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::challenge::Challenge;
use super::words;
use crate::hub_client::{HubFault, OidcOffer, http_client};
use crate::hub_url;
use crate::problem::{ProblemClass, Result};

/// A document or a token answer has a few KiB; a large one is none.
const MAX_ANSWER: usize = 1 << 20;

/// A provider answers from its memory; longer than this a person believes that nothing happens.
const ANSWER_LIMIT: std::time::Duration = std::time::Duration::from_secs(15);

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: Option<SecretText>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    #[serde(default)]
    error_description: String,
}

/// A provider that was found at the address its hub announced.
pub(super) struct Provider {
    http: reqwest::Client,
    issuer: Url,
    offer: OidcOffer,
    authorization: Url,
    token: Url,
}

impl Provider {
    /// Reads the provider's document.
    ///
    /// # Errors
    /// What the hub announces is unusable, or the provider can't be reached or gives no usable answer.
    pub(super) async fn find(offer: OidcOffer) -> Result<Self> {
        let issuer = address(&offer.issuer)
            .ok_or_else(|| words::bad_offer("its address is neither https nor local"))?;
        let plain = |text: &String| !text.is_empty() && !text.chars().any(|c| c.is_control() || c == ' ');
        if !plain(&offer.client_id)
            || !offer.scopes.iter().all(plain)
            || !offer.scopes.iter().any(|s| s == "openid")
        {
            return Err(words::bad_offer("its client or scopes can't be used"));
        }
        let http = http_client(&issuer)?;
        let base = offer.issuer.trim_end_matches('/');
        let asked = http.get(format!("{base}/.well-known/openid-configuration"));
        let (status, body) = ask(&issuer, asked).await?;
        if !status.is_success() {
            return Err(words::provider_status(&issuer, status.as_u16()));
        }
        let document: Document = serde_json::from_slice(&body).map_err(|_| words::not_a_provider(&issuer))?;
        if document.issuer != offer.issuer {
            return Err(words::not_a_provider(&issuer));
        }
        let endpoint = |text: &str| {
            let safe = address(text).filter(|url| issuer.scheme() == "http" || url.scheme() == "https");
            safe.ok_or_else(|| words::not_a_provider(&issuer))
        };
        Ok(Self {
            authorization: endpoint(&document.authorization_endpoint)?,
            token: endpoint(&document.token_endpoint)?,
            http,
            issuer,
            offer,
        })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.offer.issuer
    }

    pub(super) fn host(&self) -> String {
        hub_url::host(&self.issuer)
    }

    /// The address that the browser opens.
    pub(super) fn browser_address(&self, challenge: &Challenge, redirect_uri: &str) -> Url {
        let mut url = self.authorization.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.offer.client_id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", &self.offer.scopes.join(" "))
            .append_pair("state", &challenge.state)
            .append_pair("nonce", &challenge.nonce)
            .append_pair("code_challenge", &challenge.of_verifier())
            .append_pair("code_challenge_method", "S256");
        url
    }

    /// Exchanges a code for an ID token, as a public client: the verifier stands in for a secret.
    ///
    /// # Errors
    /// The provider's refusal, or no usable answer.
    pub(super) async fn exchange(
        &self,
        code: &SecretString,
        challenge: &Challenge,
        redirect_uri: &str,
    ) -> Result<SecretString> {
        let mut form = Url::parse("http://form/").expect("BUG: a plain address");
        form.query_pairs_mut()
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code.expose_secret())
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("client_id", &self.offer.client_id)
            .append_pair("code_verifier", &challenge.verifier);
        let body = form.query().unwrap_or_default().to_owned();
        let asked = self
            .http
            .post(self.token.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        let (status, body) = ask(&self.issuer, asked).await?;
        if !status.is_success() {
            return Err(match serde_json::from_slice::<Refusal>(&body) {
                Ok(refusal) if status != StatusCode::INTERNAL_SERVER_ERROR => {
                    words::refusal(&self.host(), &refusal.error, &refusal.error_description)
                }
                _ => words::provider_status(&self.issuer, status.as_u16()),
            });
        }
        // The library's words on what is wrong may repeat a token.
        let tokens: Tokens =
            serde_json::from_slice(&body).map_err(|_| words::not_a_provider(&self.issuer))?;
        let token = tokens.id_token.ok_or_else(|| words::no_id_token(&self.issuer))?;
        Ok(SecretString::from(token.expose().to_owned()))
    }
}

async fn ask(issuer: &Url, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>)> {
    let lost = |error: &reqwest::Error| words::unreachable(&HubFault::from_transport(issuer, error));
    let request = request.header(ACCEPT, "application/json").timeout(ANSWER_LIMIT);
    let mut answer = request.send().await.map_err(|error| lost(&error))?;
    let status = answer.status();
    if status.is_redirection() {
        return Err(words::not_a_provider(issuer));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| lost(&error))? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(words::not_a_provider(issuer));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((status, body))
}

/// Reads an address of a provider: https, or http on this machine; nothing else may reach a browser.
fn address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none() && url.host_str().is_some();
    let safe = match url.scheme() {
        "https" => true,
        "http" => hub_url::is_loopback(&url),
        _ => false,
    };
    (plain && safe).then_some(url)
}

/// What a failure of the way to a provider is for a program.
pub(super) const UNREACHABLE: ProblemClass = ProblemClass::HubUnreachable;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_that_nobody_reads_on_the_way_reach_a_browser() {
        for good in [
            "https://id.example/realms/x",
            "http://127.0.0.1:8080/authorize?tenant=a",
        ] {
            assert!(address(good).is_some(), "{good}");
        }
        for bad in [
            "http://id.example",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "x-terminal:run",
            "https://u:p@id.example",
            "--help",
            "",
        ] {
            assert!(address(bad).is_none(), "{bad}");
        }
    }
}
