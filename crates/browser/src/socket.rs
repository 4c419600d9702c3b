//! One socket of the protocol: commands out, answers and events in.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::endpoint::CdpEndpoint;
use crate::error::CdpError;
use crate::http;

/// The largest message: a picture of a large page is tens of MiB in base64, and the library's own 64 MiB cuts it off.
const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// Time to hand one command to the browser; a full socket for that long means that nobody reads.
const SEND_LIMIT: Duration = Duration::from_secs(5);

/// A connected socket.
pub(crate) struct Socket {
    stream: WebSocketStream<TcpStream>,
    last_id: u64,
}

/// What came in: an answer when it has an id, else an event. Fields that nobody knows are dropped.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Incoming {
    pub(crate) id: Option<u64>,
    pub(crate) method: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) params: Value,
    pub(crate) result: Value,
    pub(crate) error: Option<Refusal>,
}

/// Why the browser refused a command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    pub(crate) message: String,
}

/// A command on its way out.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Command {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
}

impl Socket {
    /// Connects to the path of a URL that the browser gave; its host and port are of the browser's own view and not used.
    pub(crate) async fn connect(endpoint: &CdpEndpoint, url: &str) -> Result<Self, CdpError> {
        let path = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = path.find('/').map_or("/", |at| &path[at..]);
        let limit = endpoint.limit;
        let open = async {
            let stream = http::connect(&endpoint.address).await?;
            let config = WebSocketConfig::default()
                .max_message_size(Some(MAX_MESSAGE))
                .max_frame_size(Some(MAX_MESSAGE));
            let request = format!("ws://localhost{path}");
            let (stream, _) =
                tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await?;
            Ok(Self { stream, last_id: 0 })
        };
        timeout(limit, open).await.map_err(|_| CdpError::TimedOut {
            what: path.to_owned(),
            limit,
        })?
    }

    /// Sends a command. Not cancel safe.
    pub(crate) async fn send(&mut self, command: &Command) -> Result<(), CdpError> {
        let text = serde_json::to_string(command).expect("BUG: a command is plain JSON");
        timeout(SEND_LIMIT, self.stream.send(Message::text(text)))
            .await
            .map_err(|_| CdpError::TimedOut {
                what: command.method.to_owned(),
                limit: SEND_LIMIT,
            })?
            .map_err(CdpError::from)
    }

    /// Waits for the next thing that can be read; anything else is skipped. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Incoming, CdpError> {
        loop {
            let message = match self.stream.next().await {
                None => return Err(CdpError::Closed),
                Some(message) => message?,
            };
            let text = match &message {
                Message::Text(text) => text.as_str(),
                Message::Close(_) => return Err(CdpError::Closed),
                _ => continue,
            };
            match serde_json::from_str(text) {
                Ok(incoming) => return Ok(incoming),
                Err(error) => tracing::debug!(%error, "skipped a message of the browser"),
            }
        }
    }

    /// Sends a command and waits for its answer; events in between are skipped.
    ///
    /// Not cancel safe towards the browser (it may carry the command out), but the socket stays usable: a late answer is
    /// told apart by its id.
    pub(crate) async fn call(
        &mut self,
        method: &'static str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, CdpError> {
        let end = Instant::now() + limit;
        self.last_id += 1;
        let id = self.last_id;
        let answer = async {
            self.send(&Command {
                id,
                method,
                params,
                session_id: None,
            })
            .await?;
            loop {
                let incoming = self.next().await?;
                if incoming.id != Some(id) {
                    continue;
                }
                return match incoming.error {
                    Some(refusal) => Err(CdpError::Refused {
                        method: method.to_owned(),
                        message: refusal.message,
                    }),
                    None => Ok(incoming.result),
                };
            }
        };
        timeout_at(end, answer).await.map_err(|_| CdpError::TimedOut {
            what: method.to_owned(),
            limit,
        })?
    }

    /// Says goodbye; the far side need not answer.
    pub(crate) async fn close(mut self) {
        let goodbye: Result<Result<(), Error>, _> = timeout(SEND_LIMIT, self.stream.close(None)).await;
        if let Ok(Err(error)) = goodbye {
            tracing::debug!(%error, "the browser was gone before the goodbye");
        }
    }
}
