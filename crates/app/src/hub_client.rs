//! A typed HTTP client for the management side of a hub: who am I, runners, harnesses, runs, logs.
//!
//! Leasing is not here; that is the runner's MCP session. Every failure has a class
//! ([`HubFault`]) with its own next step; nothing is decided by the text of a message.

mod auth;
mod fault;
mod follow;
mod resolve;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{
    BatchCancelled, BatchList, BatchRecord, Me, PairBody, PairedRunner, RunId, RunList, RunLogs, RunRecord,
    RunnerId, RunnerList, RunnerMeta,
};
use jiff::Timestamp;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use auth::{AuthMethods, OidcOffer};
pub use fault::{HubFault, TlsFault};
pub use follow::{LogEvent, LogFollow};

use crate::problem::{Problem, Result};

/// A hub that doesn't take a connection within this long is away; TCP would retry for minutes.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Every request here is answered from the hub's own store; a longer silence is a hang.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A run with its result; a larger body is not an answer of a hub.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// One credential at one hub.
#[derive(Debug, Clone)]
pub struct HubClient {
    http: reqwest::Client,
    base: Url,
    credential: Option<SecretString>,
}

impl HubClient {
    /// Creates a client. Without a credential only a hub in its development mode answers.
    ///
    /// # Errors
    /// A problem about this machine when no TLS set-up is possible.
    pub fn new(base: Url, credential: Option<SecretString>) -> Result<Self> {
        let http = http_client(&base)?;
        Ok(Self {
            http,
            base,
            credential,
        })
    }

    /// Returns the hub's address.
    #[must_use]
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// Asks who the credential is.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn me(&self) -> Result<Me, HubFault> {
        self.get("me").await
    }

    /// Lists the runners of the credential's owner.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn runners(&self) -> Result<Vec<RunnerMeta>, HubFault> {
        let list: RunnerList = self.get("runners").await?;
        Ok(list.runners)
    }

    /// Pairs a new runner; its token is in the answer and nowhere else.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn pair_runner(&self, body: &PairBody) -> Result<PairedRunner, HubFault> {
        self.send(Method::POST, "runners", Some(body)).await
    }

    /// Revokes a runner; one the hub doesn't know is fine.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn revoke_runner(&self, id: &RunnerId) -> Result<(), HubFault> {
        let request = self.request(Method::DELETE, &["runners", id.as_str()]);
        self.answer(request).await.map(drop)
    }

    /// Submits a run; `body` is what `POST /runs` takes.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn submit(&self, body: &Value) -> Result<RunRecord, HubFault> {
        self.send(Method::POST, "runs", Some(body)).await
    }

    /// Reads one run.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn run(&self, id: &RunId) -> Result<RunRecord, HubFault> {
        let request = self.request(Method::GET, &["runs", id.as_str()]);
        self.decode(request).await
    }

    /// Lists at most `limit` runs, newest first, those of one batch where one is named; `cursor` is what the page before
    /// gave.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn runs_page(
        &self,
        limit: usize,
        cursor: Option<&str>,
        batch: Option<&str>,
    ) -> Result<RunList, HubFault> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        query.extend(batch.map(|batch| ("batch", batch.to_owned())));
        self.decode(self.query(&["runs"], &query)).await
    }

    /// Lists the latest batches.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn batches(&self, limit: usize) -> Result<Vec<BatchRecord>, HubFault> {
        let list: BatchList = self
            .decode(self.query(&["batches"], &[("limit", limit.to_string())]))
            .await?;
        Ok(list.batches)
    }

    /// Counts one batch.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn batch(&self, id: &str) -> Result<BatchRecord, HubFault> {
        self.decode(self.request(Method::GET, &["batches", id])).await
    }

    /// Stops what of a batch has not ended; returns how many runs that were.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn cancel_batch(&self, id: &str) -> Result<u64, HubFault> {
        let request = self.request(Method::POST, &["batches", id, "cancel"]);
        let reply: BatchCancelled = self.decode(request).await?;
        Ok(reply.cancelled)
    }

    /// Lists up to `limit` runs, newest first, in as many pages as that takes.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn runs(&self, limit: usize) -> Result<Vec<RunRecord>, HubFault> {
        let mut runs = Vec::new();
        let mut cursor = None;
        while runs.len() < limit {
            let query: Vec<_> = cursor
                .iter()
                .map(|cursor: &String| ("cursor", cursor.clone()))
                .collect();
            let request = self.query(&["runs"], &query);
            let page: RunList = self.decode(request).await?;
            // A hub that gives the same page again and again must not keep us.
            let more = page.next_cursor.filter(|next| cursor.as_ref() != Some(next));
            let empty = page.runs.is_empty();
            runs.extend(page.runs);
            match more {
                Some(next) if !empty => cursor = Some(next),
                _ => break,
            }
        }
        runs.truncate(limit);
        Ok(runs)
    }

    /// Asks the hub to stop a run.
    ///
    /// # Errors
    /// Any [`HubFault`]; [`HubFault::Conflict`] when it has already ended.
    pub async fn cancel(&self, id: &RunId) -> Result<RunRecord, HubFault> {
        let request = self.request(Method::POST, &["runs", id.as_str(), "cancel"]);
        self.decode(request).await
    }

    /// Stores a new version of a harness template.
    ///
    /// # Errors
    /// Any [`HubFault`]; [`HubFault::Conflict`] when the version exists with other content.
    pub async fn push_template(&self, body: &Value) -> Result<Value, HubFault> {
        self.send(Method::POST, "harness-templates", Some(body)).await
    }

    /// Stores a new version of a harness: a spec, or an instance where the hub keeps templates.
    ///
    /// # Errors
    /// As [`HubClient::push_template`].
    pub async fn push_harness(&self, body: &Value) -> Result<Value, HubFault> {
        self.send(Method::POST, "harnesses", Some(body)).await
    }

    /// Tells whether a harness is registered.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn knows_harness(&self, id: &str, version: &str) -> Result<bool, HubFault> {
        let request = self.request(Method::GET, &["harnesses", id, version]);
        match self.decode::<Value>(request).await {
            Ok(_) => Ok(true),
            Err(HubFault::NotFound { .. }) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Reads the log of a run as it is now.
    ///
    /// # Errors
    /// Any [`HubFault`].
    pub async fn logs(&self, id: &RunId) -> Result<String, HubFault> {
        let mut text = String::new();
        let mut after = None;
        loop {
            let query: Vec<_> = after
                .iter()
                .map(|after: &String| ("after", after.clone()))
                .collect();
            let request = self
                .query(&["runs", id.as_str(), "logs"], &query)
                .header("accept", "application/json");
            let log: RunLogs = self.decode(request).await?;
            if !text.is_empty() && !log.text.is_empty() {
                text.push('\n');
            }
            text.push_str(&log.text);
            // A document holds so many lines at most; one without line numbers is the whole log.
            let counted = log.lines.as_ref().is_some_and(|lines| !lines.is_empty());
            let last = log.last.filter(|_| counted).map(|last| last.to_string());
            match last {
                Some(last) if after.as_ref() != Some(&last) => after = Some(last),
                _ => return Ok(text),
            }
        }
    }

    /// Follows the log of a run until it ends; a cut connection is resumed where it was.
    #[must_use]
    pub fn follow(&self, id: &RunId) -> LogFollow {
        LogFollow::new(self.clone(), id.clone())
    }

    /// Reads the hub's clock from its `Date` header, if it sends one. Needs no valid credential.
    ///
    /// # Errors
    /// Any [`HubFault`] of the connection itself.
    pub async fn clock(&self) -> Result<Option<Timestamp>, HubFault> {
        let response = self
            .request(Method::GET, &["me"])
            .timeout(ANSWER_LIMIT)
            .send()
            .await
            .map_err(|error| HubFault::from_transport(&self.base, &error))?;
        Ok(response
            .headers()
            .get("date")
            .and_then(|value| value.to_str().ok())
            .and_then(|text| jiff::fmt::rfc2822::parse(text).ok())
            .map(|zoned| zoned.timestamp()))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, HubFault> {
        self.decode(self.request(Method::GET, &[path])).await
    }

    async fn send<B: serde::Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<T, HubFault> {
        let mut request = self.request(method, &[path]);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.decode(request).await
    }

    fn query(&self, segments: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.url(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.authorised(Method::GET, url)
    }

    fn request(&self, method: Method, segments: &[&str]) -> RequestBuilder {
        self.authorised(method, self.url(segments))
    }

    fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("BUG: a hub address is http or https, which have segments")
            .pop_if_empty()
            .extend(segments);
        url
    }

    fn authorised(&self, method: Method, url: Url) -> RequestBuilder {
        let mut request = self.http.request(method, url);
        if let Some(credential) = &self.credential {
            request = request.bearer_auth(credential.expose_secret());
        }
        request
    }

    async fn decode<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, HubFault> {
        let bytes = self.answer(request).await?;
        everdict_contracts::decode::<T>(bytes.as_slice()).map_err(|error| HubFault::BadAnswer {
            hub: crate::hub_url::host(&self.base),
            cause: error.to_string(),
        })
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Vec<u8>, HubFault> {
        let response = request
            .timeout(ANSWER_LIMIT)
            .send()
            .await
            .map_err(|error| HubFault::from_transport(&self.base, &error))?;
        let status = response.status();
        let redirected = location(&response);
        let html = is_html(&response);
        let bytes = self.body(response).await?;
        if status.is_success() && !html {
            return Ok(bytes);
        }
        Err(HubFault::from_answer(
            &self.base,
            &fault::Answer {
                status,
                html,
                redirected,
                body: &bytes,
            },
        ))
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, HubFault> {
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= MAX_BODY => {
                    bytes.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => {
                    return Err(HubFault::BadAnswer {
                        hub: crate::hub_url::host(&self.base),
                        cause: format!("more than {} MiB", MAX_BODY / (1024 * 1024)),
                    });
                }
                Ok(None) => return Ok(bytes),
                Err(error) => return Err(HubFault::from_transport(&self.base, &error)),
            }
        }
    }
}

/// Makes an HTTP client for one address and those it names: its own TLS and proxy rules, no redirects.
///
/// # Errors
/// A problem about this machine when no TLS set-up is possible.
pub(crate) fn http_client(base: &Url) -> Result<reqwest::Client> {
    // A client may be the first thing that a program makes.
    everdict_runner_core::session::install_crypto();
    let mut builder = reqwest::Client::builder();
    if crate::hub_url::is_loopback(base) {
        builder = builder.no_proxy();
        if base.scheme() == "http" {
            // Reading the system's certificates takes longer than all the requests to a hub on this machine.
            builder = builder.tls_certs_only(std::iter::empty());
        }
    }
    builder
        .connect_timeout(CONNECT_LIMIT)
        .dns_resolver(Arc::new(resolve::SystemResolver))
        // A hub never redirects; a sign-in page in between does.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("everdict-runner/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| {
            Problem::machine("can't set up HTTPS on this machine")
                .fix("install the system's CA certificates (package ca-certificates)")
                .because(error)
        })
}

fn location(response: &Response) -> Option<String> {
    let status: StatusCode = response.status();
    let target = response.headers().get("location")?.to_str().ok()?;
    let host = response.url().join(target).ok()?;
    status.is_redirection().then(|| crate::hub_url::host(&host))
}

fn is_html(response: &Response) -> bool {
    response
        .headers()
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.trim_start().starts_with("text/html"))
}

#[cfg(test)]
mod tests;
