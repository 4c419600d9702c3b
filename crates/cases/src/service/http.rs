//! HTTP with bounds: every answer has a size limit, every wait a deadline and a way to be called off.

use std::time::Duration;

use bytes::Bytes;
use everdict_contracts::{ErrorCode, Fault};
use reqwest::header::HeaderMap;
use reqwest::{Method, Response, StatusCode, Url, redirect};
use serde_json::Value;
use tokio::time::timeout;

use super::patience::{Patience, Stop};

/// A peer that is up takes a connection at once; longer means that nobody is there.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// An agent may work for minutes without a word; a probe in between finds out when its host is gone.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The largest answer: the protocol lets a result have 12 MB, and a snapshot in an answer goes into one.
pub(crate) const MAX_BODY_BYTES: usize = 12 * 1024 * 1024;

/// Characters of a refusal that are repeated; set by the protocol.
const REFUSAL_CHARS: usize = 300;

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A service of the topology: no proxy, no trust store.
    Topology,
    /// An address of the spec, wherever that is.
    Outside,
}

/// A request, filled in.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) verb: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("stopped")]
    Stopped(Stop),
    /// Nothing came for as long as was put up with.
    #[error("nothing came for {} ms", .0.as_millis())]
    Idle(Duration),
    #[error("the answer is larger than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    #[error("the connection failed")]
    Failed(#[source] reqwest::Error),
}

fn base() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(CONNECT_LIMIT)
        .tcp_keepalive(KEEPALIVE)
        // A redirect is another address than the one that the harness names and the member was told of.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("everdict-runner/", env!("CARGO_PKG_VERSION")))
}

impl Ask {
    pub(crate) fn new(verb: Method, url: Url) -> Self {
        Self {
            verb,
            url,
            headers: HeaderMap::new(),
            body: None,
        }
    }
}

impl Answer {
    /// The body as JSON, when it is some.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The status and the beginning of the body, to be shown.
    pub(crate) fn refusal(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let text: String = text.trim().chars().take(REFUSAL_CHARS).collect();
        let status = self.status.as_u16();
        if text.is_empty() {
            status.to_string()
        } else {
            format!("{status}: {text}")
        }
    }
}

/// The HTTP of one case.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    topology: reqwest::Client,
}

impl Http {
    /// # Errors
    /// `INTERNAL` when HTTP can't be set up on this machine.
    pub(crate) fn new() -> Result<Self, Fault> {
        // Whoever comes first installs it; all of ours install the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let plain = base().no_proxy().http1_only().tls_certs_only(std::iter::empty());
        let failed = |error| Fault::internal("can't set up HTTP on this machine").caused_by(error);
        Ok(Self {
            topology: plain.build().map_err(failed)?,
        })
    }

    /// Few cases go outside, and those do once: the trust store is read when it is needed.
    fn client(&self, peer: Peer) -> Result<reqwest::Client, HttpError> {
        match peer {
            Peer::Topology => Ok(self.topology.clone()),
            Peer::Outside => base().build().map_err(HttpError::Failed),
        }
    }

    /// Asks and gives out the answer as it begins; `idle` limits the time without a byte.
    pub(crate) async fn open(
        &self,
        peer: Peer,
        ask: Ask,
        patience: &Patience,
        idle: Option<Duration>,
    ) -> Result<Body, HttpError> {
        let mut request = self.client(peer)?.request(ask.verb, ask.url).headers(ask.headers);
        if let Some(body) = ask.body {
            request = request.body(body);
        }
        let response = flow(patience, idle, request.send()).await?;
        Ok(Body {
            response,
            patience: patience.clone(),
            idle,
        })
    }

    /// Asks and reads the whole answer, whatever its status.
    pub(crate) async fn ask(&self, peer: Peer, ask: Ask, patience: &Patience) -> Result<Answer, HttpError> {
        self.open(peer, ask, patience, None).await?.read().await
    }
}

/// An answer that is still coming. Dropping it ends the connection.
pub(crate) struct Body {
    response: Response,
    patience: Patience,
    idle: Option<Duration>,
}

impl Body {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        flow(&self.patience, self.idle, self.response.chunk()).await
    }

    /// All of it.
    pub(crate) async fn read(mut self) -> Result<Answer, HttpError> {
        let status = self.status();
        let mut body = Vec::new();
        while let Some(bytes) = self.next().await? {
            if body.len() + bytes.len() > MAX_BODY_BYTES {
                return Err(HttpError::TooLarge);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(Answer { status, body })
    }
}

async fn flow<T>(
    patience: &Patience,
    idle: Option<Duration>,
    future: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, HttpError> {
    let step = async {
        match idle {
            Some(limit) => timeout(limit, future).await.map_err(|_| HttpError::Idle(limit)),
            None => Ok(future.await),
        }
    };
    let done = patience.wait(step).await.map_err(HttpError::Stopped)??;
    // The address is in the caller's words, and may hold what should not be repeated.
    done.map_err(|error| HttpError::Failed(error.without_url()))
}

/// The fault of a service that gave no answer.
pub(crate) fn no_answer(what: &str, error: HttpError) -> Fault {
    match error {
        HttpError::Stopped(stop) => stop.fault(what, ErrorCode::UpstreamError),
        other => Fault::new(ErrorCode::UpstreamError, format!("{what} got no answer")).caused_by(other),
    }
}

/// The fault of a service that answered with a refusal.
pub(crate) fn refused(what: &str, answer: &Answer) -> Fault {
    Fault::new(
        ErrorCode::UpstreamError,
        format!("{what} was answered with {}", answer.refusal()),
    )
    .with_data("status", answer.status.as_u16())
}
