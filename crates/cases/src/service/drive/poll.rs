//! Asks for a status until it says done.

use std::time::Duration;

use everdict_contracts::{Fault, PollCompletion};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use serde_json::Value;

use super::{Drive, End, Halt, Outcome};
use crate::service::http::{Ask, HttpError, Peer, refused};
use crate::service::patience::{Patience, Stop};
use crate::service::select::meets;

/// A status is a small answer; one that takes longer is asked for again rather than waited for.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

impl Drive<'_> {
    pub(super) async fn poll(&self, mode: &PollCompletion) -> Result<Outcome, Halt> {
        let submitted = self.submit(None).await?;
        let correlation = self.correlate(submitted.as_ref())?;
        let limit = Duration::from_millis(mode.timeout_ms);
        let patience = self.patience.within(limit);
        let ask = self.status_ask(&correlation)?;
        let mut last = "no status came".to_owned();
        loop {
            match self.look(&ask, &patience).await? {
                Look::Status(status) => {
                    let end = if meets(&mode.done, &status) {
                        Some(End::Done)
                    } else {
                        mode.failed
                            .as_ref()
                            .filter(|failed| meets(failed, &status))
                            .map(|_| End::Failed)
                    };
                    if let Some(end) = end {
                        return Ok(Outcome {
                            end,
                            response: Some(status),
                            correlation,
                        });
                    }
                    last = format!("the last status was {}", clipped(&status.to_string()));
                }
                Look::Nothing(why) => last = why,
                Look::TimeUp => return self.out_of_time(limit, last, &correlation),
            }
            match patience.pause(Duration::from_millis(mode.interval_ms)).await {
                Ok(()) => {}
                Err(Stop::TimeUp) => return self.out_of_time(limit, last, &correlation),
                Err(stop) => return Err(stop.into()),
            }
        }
    }

    fn status_ask(&self, correlation: &str) -> Result<Ask, Halt> {
        let call = self
            .door
            .status
            .as_ref()
            .expect("BUG: a plan to poll has a status call");
        let mut ask = Ask::new(call.verb.clone(), self.status_url(correlation)?);
        ask.headers.clone_from(&self.content.headers);
        // It describes a body, and there is none.
        ask.headers.remove(CONTENT_TYPE);
        ask.headers
            .entry(ACCEPT)
            .or_insert(HeaderValue::from_static("application/json"));
        Ok(ask)
    }

    async fn look(&self, ask: &Ask, patience: &Patience) -> Result<Look, Halt> {
        let request = patience.within(REQUEST_LIMIT);
        let answer = match self.http.ask(Peer::Topology, ask.clone(), &request).await {
            Ok(answer) => answer,
            Err(HttpError::Stopped(Stop::Cancelled)) => return Err(Halt::Stopped(Stop::Cancelled)),
            Err(HttpError::Stopped(Stop::TimeUp)) if patience.is_over() => return Ok(Look::TimeUp),
            Err(HttpError::Stopped(Stop::TimeUp)) => {
                return Ok(Look::Nothing(format!(
                    "a status took longer than {} s",
                    REQUEST_LIMIT.as_secs()
                )));
            }
            Err(error) => {
                return Ok(Look::Nothing(
                    Fault::internal("no status came").caused_by(error).full_message(),
                ));
            }
        };
        match answer.status {
            status if status.is_success() => Ok(match answer.json() {
                Some(status) => Look::Status(status),
                None => Look::Nothing("the last status was no JSON".to_owned()),
            }),
            // Both ask for patience, unlike the rest of their class.
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Ok(Look::Nothing(answer.refusal()))
            }
            status if status.is_client_error() => {
                let call = self
                    .door
                    .status
                    .as_ref()
                    .expect("BUG: a plan to poll has a status call");
                Err(refused(&format!("the front door's `{call}`"), &answer).into())
            }
            _ => Ok(Look::Nothing(format!(
                "the last status request was answered with {}",
                answer.refusal()
            ))),
        }
    }
}

/// One look at the status.
enum Look {
    Status(Value),
    Nothing(String),
    TimeUp,
}

/// Characters of a status that help to understand it.
const STATUS_CHARS: usize = 200;

pub(super) fn clipped(text: &str) -> String {
    text.chars().take(STATUS_CHARS).collect()
}
