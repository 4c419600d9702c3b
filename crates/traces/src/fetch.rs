//! HTTP with bounds: one deadline and one amount of bytes for all that one fetch asks.

use everdict_contracts::{ErrorCode, FailureStage, Fault, SecretText, TraceBackend};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::{self, Policy};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

use crate::config::{TraceConfig, TraceLimits};

/// Time to connect: longer means that nobody is there.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Characters of a refusal that are worth repeating.
const MAX_REFUSAL: usize = 200;

/// Bytes of a refusal that are read at all.
const MAX_REFUSAL_BYTES: usize = 16 * 1024;

/// Redirects followed, all within one origin: a path that moved, not a sign-in page.
const MAX_REDIRECTS: usize = 3;

/// A client of one backend.
pub(crate) struct Client {
    http: reqwest::Client,
    endpoint: Url,
    artifacts: Option<Url>,
    headers: HeaderMap,
    limits: TraceLimits,
    missing_secret: Option<String>,
}

/// What is left of a fetch's time and bytes.
pub(crate) struct Budget {
    end: Instant,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(limits: TraceLimits) -> Self {
        Self {
            end: Instant::now() + limits.total,
            bytes: limits.bytes,
        }
    }
}

/// A body and the media type it came with.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) media_type: Option<String>,
}

pub(crate) fn failed(message: impl Into<String>) -> Fault {
    Fault::new(ErrorCode::TraceCollectFailed, message)
}

fn address(text: &str, field: &str) -> Result<Url, Fault> {
    let refused =
        |why: &str| Fault::bad_request(format!("`{field}` is not an address of a trace backend: {why}"));
    let url = Url::parse(text.trim_end_matches('/')).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it must start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("credentials belong into authSecret"));
    }
    Ok(url)
}

fn headers(config: &TraceConfig) -> Result<HeaderMap, Fault> {
    let takes_any = matches!(config.kind, TraceBackend::Otel | TraceBackend::Mlflow);
    let given = |name: &str| {
        config
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    };
    let auth = config.auth.as_ref().or_else(|| given("authorization"));
    let name = match config.kind {
        TraceBackend::Langsmith => HeaderName::from_static("x-api-key"),
        _ => AUTHORIZATION,
    };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if takes_any {
        for (name, value) in &config.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| {
                Fault::bad_request(format!("`headers`: `{name}` can't be the name of a header"))
            })?;
            headers.insert(name, sensitive(value)?);
        }
    }
    if let Some(auth) = auth {
        headers.insert(name, sensitive(auth)?);
    }
    Ok(headers)
}

fn sensitive(secret: &SecretText) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::try_from(secret.expose())
        .map_err(|_| Fault::bad_request("the credential of the trace backend can't stand in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Client {
    pub(crate) fn new(config: &TraceConfig, limits: TraceLimits) -> Result<Self, Fault> {
        let endpoint = address(&config.endpoint, "traceSource.endpoint")?;
        let artifacts = config.artifact_base_url.as_deref();
        let artifacts = artifacts
            .map(|url| address(url, "traceSource.artifactBaseUrl"))
            .transpose()?;
        // The client panics without a provider; a program that has set one already keeps its own.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .redirect(Policy::custom(within_origin))
            .user_agent(concat!("everdict-runner/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&endpoint) {
            // A proxy has another idea of what the loopback is.
            http = http.no_proxy();
        }
        let http = http
            .build()
            .map_err(|error| Fault::internal("can't set up HTTPS on this machine").caused_by(error))?;
        let missing_secret = config.auth_secret.clone().filter(|_| config.auth.is_none());
        Ok(Self {
            http,
            endpoint,
            artifacts,
            headers: headers(config)?,
            limits,
            missing_secret,
        })
    }

    pub(crate) fn limits(&self) -> TraceLimits {
        self.limits
    }

    pub(crate) fn artifacts(&self) -> Option<&Url> {
        self.artifacts.as_ref()
    }

    /// Builds an address below the endpoint; the parts are escaped.
    pub(crate) fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Gets JSON; `None` for `404`.
    pub(crate) async fn get(&self, budget: &mut Budget, url: Url) -> Result<Option<Value>, Fault> {
        self.json(budget, Method::GET, url, None).await
    }

    /// Posts JSON and gets JSON; `None` for `404`.
    pub(crate) async fn post(
        &self,
        budget: &mut Budget,
        url: Url,
        body: &Value,
    ) -> Result<Option<Value>, Fault> {
        self.json(budget, Method::POST, url, Some(body)).await
    }

    async fn json(
        &self,
        budget: &mut Budget,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Option<Value>, Fault> {
        let place = place(&url);
        let mut request = self.http.request(method, url).headers(self.headers.clone());
        if let Some(body) = body {
            request = request.json(body);
        }
        let Some(body) = self.exchange(budget, request, &place, usize::MAX).await? else {
            return Ok(None);
        };
        serde_json::from_slice(&body.bytes)
            .map(Some)
            .map_err(|error| failed(format!("{place} answered what isn't JSON")).caused_by(error))
    }

    /// Gets whatever a reference leads to, if it leads to the backend or to the artifacts of the spec.
    pub(crate) async fn reference(&self, budget: &mut Budget, url: Url, most: usize) -> Result<Body, Fault> {
        let at_home = url.origin() == self.endpoint.origin();
        let known = at_home
            || self
                .artifacts
                .as_ref()
                .is_some_and(|base| base.origin() == url.origin());
        let place = place(&url);
        if !known {
            return Err(failed(format!(
                "{place} is neither the trace backend nor its artifacts"
            )));
        }
        let mut request = self.http.request(Method::GET, url);
        if at_home {
            request = request.headers(self.headers.clone());
        }
        self.exchange(budget, request, &place, most)
            .await?
            .ok_or_else(|| failed(format!("{place} answered 404")))
    }

    async fn exchange(
        &self,
        budget: &mut Budget,
        request: reqwest::RequestBuilder,
        place: &str,
        most: usize,
    ) -> Result<Option<Body>, Fault> {
        let end = budget.end.min(Instant::now() + self.limits.request);
        let slow = || failed(format!("{place} didn't answer in time"));
        let unreachable = |error: reqwest::Error| {
            failed(format!("{place} can't be reached")).caused_by(error.without_url())
        };
        let mut response = timeout_at(end, request.send())
            .await
            .map_err(|_| slow())?
            .map_err(unreachable)?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let most = if status.is_success() {
            most.min(budget.bytes)
        } else {
            MAX_REFUSAL_BYTES
        };
        let media_type = response
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok());
        let media_type = media_type.map(|value| value.split(';').next().unwrap_or(value).trim().to_owned());
        let mut bytes = Vec::new();
        loop {
            let chunk = timeout_at(end, response.chunk())
                .await
                .map_err(|_| slow())?
                .map_err(unreachable)?;
            let Some(chunk) = chunk else { break };
            if bytes.len() + chunk.len() > most {
                if status.is_success() {
                    return Err(failed(format!("{place} answered more than {most} bytes")));
                }
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(self.refusal(status, place, &bytes));
        }
        budget.bytes -= bytes.len();
        Ok(Some(Body { bytes, media_type }))
    }

    fn refusal(&self, status: StatusCode, place: &str, body: &[u8]) -> Fault {
        let words: String = String::from_utf8_lossy(body)
            .trim()
            .chars()
            .take(MAX_REFUSAL)
            .collect();
        let mut message = format!("{place} answered {}", status.as_u16());
        if !words.is_empty() {
            message = format!("{message}: {words}");
        }
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return failed(message);
        }
        if let Some(secret) = &self.missing_secret {
            message = format!("{message} (its credential `{secret}` is not known on this machine)");
        }
        Fault::new(ErrorCode::UpstreamMisconfigured, message).at_stage(FailureStage::Collect)
    }
}

/// Names an address without what may be secret in it.
fn place(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

fn within_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let same = attempt
        .previous()
        .first()
        .is_some_and(|first| first.origin() == attempt.url().origin());
    // A redirect that isn't followed comes out as its own status, which is then reported.
    if same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url
        .host_str()
        .unwrap_or_default()
        .trim_start_matches('[')
        .trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
