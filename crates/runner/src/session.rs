//! One MCP session per process, shared by every worker.
//!
//! rmcp's own recovery (`reinit_on_expired_session`) is switched off. It answers only a 404, while a lost
//! session also shows as 400, 401 or 503; it first waits for the other calls in flight, which here are long
//! polls; and it would repeat a call beneath this layer, which repeats it too. The rule lives here instead: a
//! failed call whose session is still the current one replaces the session once and is repeated once. A
//! session that another call has opened in the meantime is used, never reset.

mod fault;
mod http;
mod recall;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation, JsonObject,
    ProtocolVersion,
};
use rmcp::service::{Peer, RoleClient, RunningService, ServiceError, ServiceExt};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use secrecy::SecretString;

pub use fault::{CallError, UnreachableCause};
use fault::{HttpFault, clip_line};
use http::HubHttp;
use recall::Recall;

/// Handshake budget: two small round trips. Longer means a black hole, and the loop's back-off is better.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(15);
/// A process about to exit waits this long for its `DELETE`; the hub's idle sweep covers the rest.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// rmcp's limit on calls that await their HTTP answer. Each worker has at most a poll or a submit, a
/// heartbeat and an evidence push in flight, and 64 workers is the protocol's upper bound.
const MAX_CALLS_IN_FLIGHT: usize = 256;

/// Makes ring the TLS provider of this process. Call it once, at the start of `main`; more calls are harmless.
pub fn install_crypto() {
    // An error only says that a provider is installed already, which is what we want.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A base URL or token that no session can be built from.
#[derive(Debug, thiserror::Error)]
pub enum SessionConfigError {
    /// The URL does not parse, or is neither http nor https.
    #[error("{url:?} is not an http or https URL: {reason}")]
    Url {
        /// The text as given, without credentials.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The HTTP client could not be built.
    #[error("the HTTP client can't be set up: {reason}")]
    Client {
        /// What is wrong.
        reason: String,
    },
}

/// The address of the MCP endpoint of a hub: `/mcp` at the root, whatever path the base URL has.
///
/// # Errors
/// When `api_url` is not an absolute http or https URL.
pub fn mcp_url(api_url: &str) -> Result<reqwest::Url, SessionConfigError> {
    let fail = |reason: String| SessionConfigError::Url {
        url: clip_line(api_url.rsplit_once('@').map_or(api_url, |(_, host)| host)),
        reason,
    };
    let mut url = reqwest::Url::parse(api_url.trim()).map_err(|error| fail(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(fail("the scheme must be http or https".to_owned()));
    }
    url.set_path("/mcp");
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Client of the hub's runner tools. Cheap to clone; all clones share the one session.
#[derive(Clone)]
pub struct HubSession {
    shared: Arc<SessionShared>,
}

struct SessionShared {
    url: reqwest::Url,
    client: reqwest::Client,
    version: String,
    recall: Recall,
    slot: Mutex<Slot>,
}

/// The current session, or the connect in flight that all callers share.
#[derive(Default)]
struct Slot {
    closed: bool,
    generation: u64,
    connect: Option<Connecting>,
}

type Connecting = Shared<BoxFuture<'static, Result<Arc<Live>, CallError>>>;

struct Live {
    generation: u64,
    peer: Peer<RoleClient>,
    /// Taken by [`HubSession::close`]; otherwise its drop ends the session in the background.
    service: Mutex<Option<RunningService<RoleClient, ClientConfig>>>,
}

/// A reply to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text of the tool's result.
    pub text: String,
    /// The call was sent a second time after the first had no usable answer: the hub may have acted on both.
    pub repeated: bool,
}

impl std::fmt::Debug for HubSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubSession")
            .field("url", &self.shared.url.as_str())
            .finish_non_exhaustive()
    }
}

impl HubSession {
    /// Prepares a session with the hub at `api_url`. Nothing is sent before the first call.
    ///
    /// # Errors
    /// [`SessionConfigError`] when the URL or the token can't be used.
    pub fn new(api_url: &str, token: &SecretString, version: &str) -> Result<Self, SessionConfigError> {
        let url = mcp_url(api_url)?;
        let client = http::build_client(token, &url).map_err(|fault| SessionConfigError::Client {
            reason: fault.to_string(),
        })?;
        Ok(Self {
            shared: Arc::new(SessionShared {
                url,
                client,
                version: version.to_owned(),
                recall: Recall::default(),
                slot: Mutex::default(),
            }),
        })
    }

    /// Calls a tool and returns its reply, whose text is JSON by the protocol.
    ///
    /// `time_out` bounds each of the two tries. Cancel safe: dropping the future closes the call's connection
    /// and tells the hub; whether the hub had acted on it by then is not known.
    ///
    /// # Errors
    /// [`CallError`], after the session was replaced once where that could help.
    pub async fn call(
        &self,
        tool: &'static str,
        arguments: JsonObject,
        time_out: Duration,
    ) -> Result<Reply, CallError> {
        let first = self.live().await?;
        match first.call(tool, arguments.clone(), time_out).await {
            Err(error) if error.may_be_the_session() => {
                tracing::debug!(tool, %error, "call failed, replacing the session once");
                self.retire(first.generation);
            }
            settled => {
                return settled.map(|text| Reply {
                    text,
                    repeated: false,
                });
            }
        }
        drop(first);
        let second = self.live().await?;
        let settled = second.call(tool, arguments, time_out).await;
        if settled.as_ref().is_err_and(CallError::may_be_the_session) {
            self.retire(second.generation);
        }
        settled.map(|text| Reply { text, repeated: true })
    }

    /// Ends the `lease_job` calls that wait now: each returns within a second with what the hub had for it, or with
    /// [`CallError::CalledOff`].
    pub fn call_off_polls(&self) {
        self.shared.recall.wish();
    }

    /// Whether there is a session that no call has given up.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let slot = self.slot();
        matches!(slot.connect.as_ref().and_then(Shared::peek), Some(Ok(_)))
    }

    /// Gives up the session for a new one, opened by the next call: whatever it rests on may be dead without saying so.
    pub fn start_over(&self) {
        let generation = self.slot().generation;
        self.retire(generation);
    }

    /// Ends the session for good, with a best-effort `DELETE`. Calls in flight and later ones fail.
    pub async fn close(&self) {
        let connect = {
            let mut slot = self.slot();
            slot.closed = true;
            slot.connect.take()
        };
        // A connect still in flight has no session worth a `DELETE`; dropping it is the end of it.
        let Some(Ok(live)) = connect.as_ref().and_then(Shared::peek) else {
            return;
        };
        let service = live.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(CLOSE_TIMEOUT).await;
        }
    }

    async fn live(&self) -> Result<Arc<Live>, CallError> {
        let connect = {
            let mut slot = self.slot();
            if slot.closed {
                return Err(lost("the session was closed here"));
            }
            if let Some(connect) = &slot.connect {
                connect.clone()
            } else {
                slot.generation += 1;
                let connect = connect(Arc::clone(&self.shared), slot.generation)
                    .boxed()
                    .shared();
                slot.connect = Some(connect.clone());
                connect
            }
        };
        let outcome = connect.clone().await;
        if outcome.is_err() {
            let mut slot = self.slot();
            if slot
                .connect
                .as_ref()
                .is_some_and(|current| current.ptr_eq(&connect))
            {
                slot.connect = None;
            }
        }
        outcome
    }

    /// Gives up the session `generation`, unless another call has replaced it already.
    fn retire(&self, generation: u64) {
        let mut slot = self.slot();
        if slot.generation == generation {
            slot.connect = None;
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(shared: Arc<SessionShared>, generation: u64) -> Result<Arc<Live>, CallError> {
    let backend = HubHttp::new(shared.client.clone(), shared.recall.clone());
    let mut config = StreamableHttpClientTransportConfig::with_uri(shared.url.as_str())
        .max_concurrent_requests(MAX_CALLS_IN_FLIGHT);
    config.reinit_on_expired_session = false;
    let transport = StreamableHttpClientTransport::with_client(backend.clone(), config);
    let client = ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new("everdict-runner", shared.version.as_str()),
    )
    .with_protocol_version(ProtocolVersion::V_2025_11_25);
    let started = tokio::time::timeout(INITIALIZE_TIMEOUT, client.serve(transport)).await;
    match started {
        Ok(Ok(service)) => {
            tracing::debug!(generation, "session opened");
            Ok(Arc::new(Live {
                generation,
                peer: service.peer().clone(),
                service: Mutex::new(Some(service)),
            }))
        }
        Ok(Err(error)) => Err(match backend.take_fault() {
            Some(fault) => fault.at_initialize(),
            None => CallError::Malformed {
                detail: clip_line(&error.to_string()),
            },
        }),
        Err(_) => Err(timed_out(INITIALIZE_TIMEOUT)),
    }
}

fn timed_out(limit: Duration) -> CallError {
    CallError::Unreachable {
        cause: UnreachableCause::Timeout,
        detail: format!("nothing arrived within {} s", limit.as_secs_f32()),
    }
}

impl Live {
    async fn call(
        &self,
        tool: &'static str,
        arguments: JsonObject,
        time_out: Duration,
    ) -> Result<String, CallError> {
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let reply = tokio::time::timeout(time_out, self.peer.call_tool_once(request))
            .await
            .map_err(|_| timed_out(time_out))?
            .map_err(service_error)?;
        let CallToolResponse::Complete(result) = reply else {
            return Err(CallError::Malformed {
                detail: format!("{tool} was answered with something other than a result"),
            });
        };
        let text = result
            .content
            .into_iter()
            .find_map(|block| match block {
                rmcp::model::ContentBlock::Text(text) => Some(text.text),
                _ => None,
            })
            .ok_or_else(|| CallError::Malformed {
                detail: format!("the reply to {tool} has no text"),
            })?;
        if result.is_error == Some(true) {
            return Err(CallError::Refused { text });
        }
        Ok(text)
    }
}

fn service_error(error: ServiceError) -> CallError {
    match error {
        ServiceError::McpError(error) => CallError::Refused {
            text: format!("JSON-RPC error {}: {}", error.code.0, error.message),
        },
        ServiceError::TransportSend(error) => {
            match error.error.downcast::<StreamableHttpError<HttpFault>>() {
                Ok(fault) => match *fault {
                    StreamableHttpError::Client(fault) => fault.in_session(),
                    other => lost(&other.to_string()),
                },
                Err(other) => lost(&other.to_string()),
            }
        }
        other => lost(&other.to_string()),
    }
}

fn lost(detail: &str) -> CallError {
    CallError::Unreachable {
        cause: UnreachableCause::Reset,
        detail: clip_line(detail),
    }
}
