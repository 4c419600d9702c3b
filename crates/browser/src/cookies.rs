//! Moving a signed-in state from one browser to another: cookies only, no local storage.

use std::collections::BTreeSet;

use everdict_contracts::SecretText;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::endpoint::CdpEndpoint;
use crate::error::CdpError;
use crate::socket::Socket;

/// One cookie. Its value doesn't show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    /// The name.
    pub name: String,
    /// The value.
    pub value: SecretText,
    /// With a leading dot when subdomains get it too.
    pub domain: String,
    /// The path.
    pub path: String,
    /// Seconds since 1970; absent or not positive for a session cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<f64>,
    /// Hidden from scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_only: Option<bool>,
    /// For HTTPS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// `Strict`, `Lax` or `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_site: Option<String>,
}

/// What a browser knows about who is signed in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StorageState {
    /// Every cookie of the default context.
    pub cookies: Vec<Cookie>,
}

impl StorageState {
    /// The domains, without leading dots, each once.
    pub fn domains(&self) -> BTreeSet<&str> {
        self.cookies
            .iter()
            .map(|cookie| cookie.domain.trim_start_matches('.'))
            .collect()
    }

    /// When the first cookie expires, in seconds since 1970; `None` when all last as long as the session.
    pub fn expiry(&self) -> Option<f64> {
        self.cookies
            .iter()
            .filter_map(|cookie| cookie.expires)
            .filter(|expires| *expires > 0.0)
            .min_by(f64::total_cmp)
    }
}

async fn browser(endpoint: &CdpEndpoint) -> Result<Socket, CdpError> {
    let version = endpoint.version().await?;
    Socket::connect(endpoint, &version.web_socket_debugger_url).await
}

/// Reads the cookies of the browser's default context.
///
/// # Errors
/// Whatever keeps the browser from answering.
pub async fn read_cookies(endpoint: &CdpEndpoint) -> Result<StorageState, CdpError> {
    let mut socket = browser(endpoint).await?;
    let answer = socket
        .call("Storage.getCookies", json!({}), endpoint.limit)
        .await?;
    socket.close().await;
    let cookies = answer.get("cookies").cloned().unwrap_or(Value::Array(Vec::new()));
    let mut cookies: Vec<Cookie> = serde_json::from_value(cookies).map_err(|error| CdpError::Garbled {
        what: "Storage.getCookies".to_owned(),
        why: error.to_string(),
    })?;
    for cookie in &mut cookies {
        cookie.expires = cookie.expires.filter(|expires| *expires > 0.0);
    }
    Ok(StorageState { cookies })
}

/// Puts cookies into the browser's default context; without cookies nothing happens.
///
/// # Errors
/// Whatever keeps the browser from answering, or from taking a cookie.
pub async fn seed_cookies(endpoint: &CdpEndpoint, state: &StorageState) -> Result<(), CdpError> {
    if state.cookies.is_empty() {
        return Ok(());
    }
    let mut cookies = state.cookies.clone();
    for cookie in &mut cookies {
        cookie.expires = cookie.expires.filter(|expires| *expires > 0.0);
    }
    let mut socket = browser(endpoint).await?;
    socket
        .call(
            "Storage.setCookies",
            json!({ "cookies": cookies }),
            endpoint.limit,
        )
        .await?;
    socket.close().await;
    Ok(())
}
