//! Calling waiting polls off without losing what they bring.
//!
//! A long poll whose connection is just closed may have been handed a job in that moment, and nobody would run it until
//! its lease runs out. So the hub is told first that the call is off (`notifications/cancelled`), on a request of its
//! own, and the answer is read until it ends: with the job, or with nothing.

use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId};
use serde_json::json;
use tokio::sync::watch;

use super::UnreachableCause;
use super::fault::HttpFault;

/// How long a hub may take to end a poll that it was told is off. One that doesn't know the notification costs every
/// stop this long, and a job that it hands out within it is still taken.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The call that waits at the hub.
const POLL: &str = "lease_job";

/// The wish to end the polls that wait now. All HTTP hops of one session share it.
#[derive(Debug, Clone)]
pub(super) struct Recall {
    wishes: watch::Sender<u64>,
}

impl Default for Recall {
    fn default() -> Self {
        Self {
            wishes: watch::Sender::new(0),
        }
    }
}

impl Recall {
    pub(super) fn wish(&self) {
        self.wishes.send_modify(|wishes| *wishes += 1);
    }

    /// Runs the exchange of one poll, and calls it off when that is wished.
    pub(super) async fn heed<T>(
        &self,
        exchange: impl Future<Output = Result<T, HttpFault>>,
        notice: Notice<'_>,
    ) -> Result<T, HttpFault> {
        let mut wishes = self.wishes.subscribe();
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            done = &mut exchange => return done,
            // The sender is at hand, so the wait ends only as wished.
            _ = wishes.changed() => {}
        }
        let telling = async {
            loop {
                notice.send().await;
                // Wished again: the hub may not have known the call yet when it was told.
                if wishes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            biased;
            done = &mut exchange => match done {
                // How a stream ends that was told to.
                Err(HttpFault::Transport { cause: UnreachableCause::Reset, .. }) => Err(HttpFault::CalledOff),
                done => done,
            },
            () = telling => Err(HttpFault::CalledOff),
            () = tokio::time::sleep(LAST_WORD) => Err(HttpFault::CalledOff),
        }
    }
}

/// The id of a call that waits at the hub.
pub(super) fn poll_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::CallToolRequest(call) if call.params.name == POLL => Some(request.id.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The word to the hub that a call is off.
pub(super) struct Notice<'a> {
    pub(super) client: &'a reqwest::Client,
    pub(super) uri: &'a str,
    /// Those of the call: they name the session.
    pub(super) headers: &'a HashMap<HeaderName, HeaderValue>,
    pub(super) id: RequestId,
}

impl Notice<'_> {
    /// Best effort: where it isn't heard the connection is closed soon.
    async fn send(&self) {
        let note = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": self.id, "reason": "the poll is off"},
        });
        let mut request = self.client.post(self.uri).timeout(LAST_WORD).header(
            http::header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let _ = request.json(&note).send().await;
    }
}
