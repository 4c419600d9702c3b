//! The HTTP side: which pages there are, and which of them matters.

use std::time::Duration;

use serde::Deserialize;
use tokio_tungstenite::tungstenite::http::Uri;

use crate::error::CdpError;
use crate::http::{self, Address};

/// Time for one call: ten seconds is the protocol's own value; a healthy browser needs milliseconds.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Where a browser listens, as seen from here.
#[derive(Debug, Clone)]
pub struct CdpEndpoint {
    pub(crate) address: Address,
    pub(crate) limit: Duration,
}

/// One thing that a browser lets be debugged.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Unique within the browser.
    pub id: String,
    /// `page`, `iframe`, `service_worker` and others.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Empty for a tab that has not gone anywhere.
    #[serde(default)]
    pub url: String,
    /// The title of the page.
    #[serde(default)]
    pub title: String,
    /// As the browser names it; only its path can be relied on.
    #[serde(default)]
    pub web_socket_debugger_url: Option<String>,
}

/// What a browser says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// Such as `Chrome/156.0.8078.108`.
    #[serde(rename = "Browser", default)]
    pub browser: String,
    /// Such as `1.3`.
    #[serde(rename = "Protocol-Version", default)]
    pub protocol: String,
    /// As the browser names it; only its path can be relied on.
    #[serde(rename = "webSocketDebuggerUrl", default)]
    pub web_socket_debugger_url: String,
}

impl CdpEndpoint {
    /// Takes the address of a browser, such as `http://127.0.0.1:9222`. The host may be a name: the browser never sees it.
    ///
    /// # Errors
    /// [`CdpError::BadBase`] when it is no `http` or `ws` address with a host.
    pub fn new(base: &str) -> Result<Self, CdpError> {
        let bad = |why| CdpError::BadBase {
            base: base.to_owned(),
            why,
        };
        let uri: Uri = base.parse().map_err(|_| bad("it isn't a URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "ws")) {
            return Err(bad("it must start with http://"));
        }
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| bad("it names no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = Address {
            host,
            port: uri.port_u16().unwrap_or(80),
        };
        Ok(Self {
            address,
            limit: CALL_LIMIT,
        })
    }

    /// Sets the time that one call gets.
    #[must_use]
    pub fn with_call_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the address in its plain form, without a slash at the end.
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks what browser it is: the sign that it is up. Cancel safe.
    ///
    /// # Errors
    /// Any but [`CdpError::Refused`] and [`CdpError::NoPage`].
    pub async fn version(&self) -> Result<Version, CdpError> {
        self.json("GET", "/json/version").await
    }

    /// Lists what there is, the most recently used first. A tab that was just closed stays listed for a while. Cancel safe.
    ///
    /// # Errors
    /// As [`Self::version`].
    pub async fn list(&self) -> Result<Vec<Target>, CdpError> {
        self.json("GET", "/json/list").await
    }

    /// Opens a tab. Not cancel safe: the tab may open all the same.
    ///
    /// # Errors
    /// As [`Self::version`].
    pub async fn new_page(&self, url: &str) -> Result<Target, CdpError> {
        self.json("PUT", &format!("/json/new?{}", http::encode(url)))
            .await
    }

    /// Closes a tab. It may stay listed for a while.
    ///
    /// # Errors
    /// As [`Self::version`]; `404` when there is no such tab.
    pub async fn close(&self, id: &str) -> Result<(), CdpError> {
        let path = format!("/json/close/{}", http::encode(id));
        http::request(&self.address, "GET", &path, self.limit)
            .await
            .map(drop)
    }

    async fn json<T: for<'de> Deserialize<'de>>(&self, verb: &str, path: &str) -> Result<T, CdpError> {
        let body = http::request(&self.address, verb, path, self.limit).await?;
        serde_json::from_slice(&body).map_err(|error| CdpError::Garbled {
            what: path.split('?').next().unwrap_or(path).to_owned(),
            why: error.to_string(),
        })
    }
}

impl Target {
    /// Tells whether the target is a tab that went somewhere.
    fn went_somewhere(&self) -> bool {
        !self.url.is_empty() && !self.url.starts_with("about:")
    }

    /// How much the target matters; less is more, `None` can't be talked to.
    pub(crate) fn rank(&self) -> Option<u8> {
        self.web_socket_debugger_url.as_ref()?;
        Some(match self.kind.as_str() {
            "page" if self.url.starts_with("chrome-extension://") => 1,
            "page" if self.went_somewhere() => 0,
            "page" => 2,
            _ => 3,
        })
    }
}

/// Orders the targets by how much they matter: real pages, pages of extensions, empty tabs, the rest; as listed within.
pub(crate) fn by_rank(targets: &[Target]) -> Vec<&Target> {
    let mut ranked: Vec<_> = targets
        .iter()
        .filter_map(|target| Some((target.rank()?, target)))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, target)| target).collect()
}

/// Picks the page that matters from a listing. Whether it still lives only it can tell: see [`crate::live_page`].
pub fn pick_page(targets: &[Target]) -> Option<&Target> {
    by_rank(targets).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(kind: &str, url: &str) -> Target {
        Target {
            id: format!("{kind}:{url}"),
            kind: kind.to_owned(),
            url: url.to_owned(),
            title: String::new(),
            web_socket_debugger_url: Some("ws://localhost/devtools/page/1".to_owned()),
        }
    }

    #[test]
    fn the_first_real_page_matters() {
        let targets = [
            target("service_worker", "https://a.test/sw.js"),
            target("page", "about:blank"),
            target("page", "chrome-extension://abc/panel.html"),
            target("page", "https://a.test/"),
            target("page", "https://b.test/"),
        ];
        let order: Vec<_> = by_rank(&targets)
            .iter()
            .map(|target| target.url.as_str())
            .collect();
        assert_eq!(
            order,
            [
                "https://a.test/",
                "https://b.test/",
                "chrome-extension://abc/panel.html",
                "about:blank",
                "https://a.test/sw.js"
            ]
        );
        assert_eq!(pick_page(&targets[..2]).unwrap().url, "about:blank");
        assert_eq!(
            pick_page(&targets[..3]).unwrap().url,
            "chrome-extension://abc/panel.html"
        );
        assert!(pick_page(&[]).is_none());
    }

    #[test]
    fn a_page_without_a_socket_is_not_picked() {
        let mut taken = target("page", "https://a.test/");
        taken.web_socket_debugger_url = None;
        assert!(pick_page(&[taken]).is_none());
    }

    #[test]
    fn addresses_are_read_and_refused() {
        assert_eq!(
            CdpEndpoint::new("http://127.0.0.1:9222/").unwrap().base(),
            "http://127.0.0.1:9222"
        );
        assert_eq!(
            CdpEndpoint::new("http://[::1]:9222").unwrap().base(),
            "http://[::1]:9222"
        );
        assert_eq!(
            CdpEndpoint::new("http://browser").unwrap().base(),
            "http://browser:80"
        );
        for base in ["", "9222", "https://127.0.0.1:1", "file:///x"] {
            let error = CdpEndpoint::new(base).unwrap_err();
            assert!(matches!(error, CdpError::BadBase { .. }), "{base}: {error}");
        }
    }
}
