//! Hands a case to the front door and notices its end.

mod callback;
mod poll;
mod stream;
mod trace;

use std::time::Duration;

use everdict_contracts::{Completion, ErrorCode, Fault, FrontDoorCorrelate};
use everdict_traces::TraceSource;
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::Value;

use super::http::{Answer, Ask, Body, Http, HttpError, Peer, refused};
use super::interpolate::Vars;
use super::patience::{Patience, Stop};
use super::plan::Door;
use super::rendezvous::Rendezvous;
use super::request::Content;
use super::select::text_at;
use super::wiring::RUN_ID;
use crate::context::cancelled;

/// Everything that one drive needs.
pub(crate) struct Drive<'a> {
    pub(crate) http: &'a Http,
    pub(crate) door: &'a Door,
    /// Base address of the front door.
    pub(crate) base: &'a str,
    pub(crate) vars: &'a Vars,
    pub(crate) content: Content,
    /// The case's budget.
    pub(crate) patience: &'a Patience,
    pub(crate) run_id: &'a str,
    /// For completion by callback.
    pub(crate) rendezvous: Option<Rendezvous>,
    /// For completion by trace: where it is, and its key.
    pub(crate) source: Option<(&'a dyn TraceSource, String)>,
}

/// How a drive ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    /// What the front door answered last: the answer to the submit, the final status, the final event.
    pub(crate) response: Option<Value>,
    /// The id under which the run is known to the trace backend, unless the harness says otherwise.
    pub(crate) correlation: String,
}

/// In what way a drive ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// The harness says that it failed: evidence like any other.
    Failed,
    /// Nothing said that it was done within the time of the completion mode.
    TimedOut {
        limit: Duration,
        last: String,
    },
    /// The case's budget ran out.
    OutOfBudget,
}

/// Why a drive stops short of an outcome.
#[derive(Debug)]
enum Halt {
    Fault(Fault),
    Stopped(Stop),
    /// Nothing flowed for too long.
    Idle(Duration),
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl Drive<'_> {
    /// Drives the case to its end. Cancel safe: dropping it closes every connection.
    ///
    /// # Errors
    /// `CANCELLED`; `UPSTREAM_ERROR` when the front door refuses the case, can't be reached, or says nothing that its runs
    /// could be told apart by.
    pub(crate) async fn run(mut self) -> Result<Outcome, Fault> {
        let done = match &self.door.spec.completion {
            None => self.sync(None).await,
            Some(Completion::Sync(mode)) => self.sync(mode.timeout_ms.map(Duration::from_millis)).await,
            Some(Completion::Poll(mode)) => self.poll(mode).await,
            Some(Completion::Stream(mode)) => self.stream(mode).await,
            Some(Completion::Callback(mode)) => {
                let rendezvous = self.rendezvous.take();
                let rendezvous = rendezvous.expect("BUG: the backend listens before it drives by callback");
                self.callback(mode, rendezvous).await
            }
            Some(Completion::Trace(mode)) => self.trace(mode).await,
        };
        match done {
            Ok(outcome) => Ok(outcome),
            Err(Halt::Fault(fault)) => Err(fault),
            Err(Halt::Stopped(Stop::Cancelled)) => Err(cancelled()),
            Err(Halt::Stopped(Stop::TimeUp)) => Ok(self.ended(End::OutOfBudget, None)),
            Err(Halt::Idle(limit)) => {
                let last = "the connection was open, and nothing came".to_owned();
                Ok(self.ended(End::TimedOut { limit, last }, None))
            }
        }
    }

    /// The answer is the end.
    async fn sync(&self, idle: Option<Duration>) -> Result<Outcome, Halt> {
        let response = self.submit(idle).await?;
        let correlation = self.correlate(response.as_ref())?;
        Ok(Outcome {
            end: End::Done,
            response,
            correlation,
        })
    }

    /// Submits and reads the answer, leniently: one that isn't JSON counts as none.
    async fn submit(&self, idle: Option<Duration>) -> Result<Option<Value>, Halt> {
        let body = self.open(idle, None).await?;
        let answer = body.read().await.map_err(|error| self.unanswered(error))?;
        Ok(answer.json())
    }

    /// Submits and gives out the answer as it begins, if it is none of refusal.
    async fn open(&self, idle: Option<Duration>, accept: Option<&'static str>) -> Result<Body, Halt> {
        let url = self.door.submit.url(self.base, self.vars)?;
        let mut ask = Ask::new(self.door.submit.verb.clone(), url);
        ask.headers.clone_from(&self.content.headers);
        ask.body = Some(self.content.body.clone());
        if let Some(accept) = accept {
            let accept = HeaderValue::from_static(accept);
            ask.headers.entry(ACCEPT).or_insert(accept);
        }
        let body = self.http.open(Peer::Topology, ask, self.patience, idle).await;
        let body = body.map_err(|error| self.unanswered(error))?;
        if body.status().is_success() {
            return Ok(body);
        }
        let status = body.status();
        // The status says enough where the words don't come.
        let answer = body.read().await.unwrap_or(Answer {
            status,
            body: Vec::new(),
        });
        Err(refused(&self.what(), &answer).into())
    }

    fn what(&self) -> String {
        format!("the front door's `{}`", self.door.submit)
    }

    fn unanswered(&self, error: HttpError) -> Halt {
        match error {
            HttpError::Stopped(stop) => Halt::Stopped(stop),
            HttpError::Idle(limit) => Halt::Idle(limit),
            other => Halt::Fault(super::http::no_answer(&self.what(), other)),
        }
    }

    /// The id of the run: ours, or the one that the answer names.
    fn correlate(&self, response: Option<&Value>) -> Result<String, Halt> {
        let Some(FrontDoorCorrelate::Returned(returned)) = &self.door.spec.correlate else {
            return Ok(self.run_id.to_owned());
        };
        let found = response.and_then(|response| text_at(response, &returned.path));
        let id = found.ok_or_else(|| {
            Fault::new(
                ErrorCode::UpstreamError,
                format!(
                    "harnessSpec.frontDoor.correlate.path: the answer of `{}` has no text at `{}`",
                    self.door.submit, returned.path
                ),
            )
        })?;
        Ok(id.to_owned())
    }

    /// The variables with the run's id as the front door knows it.
    fn vars_for(&self, correlation: &str) -> Vars {
        let mut vars = self.vars.clone();
        vars.insert(RUN_ID.to_owned(), correlation.to_owned());
        vars
    }

    fn status_url(&self, correlation: &str) -> Result<Url, Fault> {
        let call = self
            .door
            .status
            .as_ref()
            .expect("BUG: a plan to poll has a status call");
        call.url(self.base, &self.vars_for(correlation))
    }

    fn ended(&self, end: End, response: Option<Value>) -> Outcome {
        Outcome {
            end,
            response,
            correlation: self.run_id.to_owned(),
        }
    }

    /// Time being up within a mode's own limit, unless it is the whole case's.
    fn out_of_time(&self, limit: Duration, last: String, correlation: &str) -> Result<Outcome, Halt> {
        if self.patience.is_over() {
            return Err(Halt::Stopped(Stop::TimeUp));
        }
        let end = End::TimedOut { limit, last };
        Ok(Outcome {
            end,
            response: None,
            correlation: correlation.to_owned(),
        })
    }
}
