//! Reads events until one says done.

use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, StreamCompletion};
use serde_json::Value;
use tokio::time::Instant;

use super::poll::clipped;
use super::{Drive, End, Halt, Outcome};
use crate::service::events::{EventReader, TooLong};
use crate::service::http::{Body, HttpError};
use crate::service::patience::Stop;
use crate::service::select::meets;

/// Both forms that are read.
const ACCEPT: &str = "text/event-stream, application/x-ndjson;q=0.9, application/json;q=0.8";

impl Drive<'_> {
    pub(super) async fn stream(&self, mode: &StreamCompletion) -> Result<Outcome, Halt> {
        let limit = Duration::from_millis(mode.timeout_ms);
        let mut seen = Seen {
            mode,
            correlation: None,
            last: None,
        };
        let patience = self.patience.within(limit);
        // The connection counts: a stream that never begins is one that never ends.
        let opened = match patience.wait(self.open(None, Some(ACCEPT))).await {
            Ok(opened) => opened?,
            Err(Stop::TimeUp) => return self.out_of_time(limit, seen.words(false), self.run_id),
            Err(stop) => return Err(stop.into()),
        };
        let (end, over) = self.read(opened, &mut seen, patience.end()).await?;
        match end {
            Some(end) => {
                let correlation = seen.correlation.unwrap_or_else(|| self.run_id.to_owned());
                Ok(Outcome {
                    end,
                    response: seen.last,
                    correlation,
                })
            }
            None => {
                let words = seen.words(over);
                let correlation = seen.correlation.as_deref().unwrap_or(self.run_id);
                if over {
                    // The stream is over: more time would bring nothing.
                    let end = End::TimedOut { limit, last: words };
                    return Ok(Outcome {
                        end,
                        response: seen.last.clone(),
                        correlation: correlation.to_owned(),
                    });
                }
                self.out_of_time(limit, words, correlation)
            }
        }
    }

    /// Reads until an event ends the run, the stream ends (then the second is true), or time is up.
    async fn read(
        &self,
        mut body: Body,
        seen: &mut Seen<'_>,
        end: Instant,
    ) -> Result<(Option<End>, bool), Halt> {
        let mut reader = EventReader::default();
        loop {
            let next = tokio::time::timeout_at(end, body.next()).await;
            let bytes = match next {
                Err(_) => return Ok((None, false)),
                Ok(Ok(bytes)) => bytes,
                // A peer that goes away in mid-stream ends it, with what it had said.
                Ok(Err(HttpError::Failed(error))) => {
                    tracing::debug!(%error, "the stream broke off");
                    None
                }
                Ok(Err(error)) => return Err(self.unanswered(error)),
            };
            let over = bytes.is_none();
            let events = match bytes {
                Some(bytes) => reader.push(&bytes).map_err(too_long)?,
                None => std::mem::take(&mut reader).finish().map_err(too_long)?,
            };
            for event in events {
                if let Some(end) = self.take(&event, seen)? {
                    return Ok((Some(end), over));
                }
            }
            if over {
                return Ok((None, true));
            }
        }
    }

    /// Takes one event; texts that are no JSON are passed by.
    fn take(&self, event: &str, seen: &mut Seen<'_>) -> Result<Option<End>, Halt> {
        let Ok(event) = serde_json::from_str::<Value>(event) else {
            return Ok(None);
        };
        if seen.correlation.is_none() {
            seen.correlation = Some(self.correlate(Some(&event))?);
        }
        let mode = seen.mode;
        let end = if mode.failed.as_ref().is_some_and(|failed| meets(failed, &event)) {
            Some(End::Failed)
        } else {
            meets(&mode.done, &event).then_some(End::Done)
        };
        seen.last = Some(event);
        Ok(end)
    }
}

/// What a stream has said so far.
struct Seen<'a> {
    mode: &'a StreamCompletion,
    correlation: Option<String>,
    last: Option<Value>,
}

impl Seen<'_> {
    fn words(&self, over: bool) -> String {
        let state = if over {
            "the stream ended"
        } else {
            "the stream went on"
        };
        match &self.last {
            Some(event) => format!("{state}; its last event was {}", clipped(&event.to_string())),
            None => format!("{state} without an event"),
        }
    }
}

fn too_long(error: TooLong) -> Fault {
    Fault::new(ErrorCode::UpstreamError, "the front door's stream can't be read").caused_by(error)
}
