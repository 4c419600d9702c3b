//! Following the log of a run: server-sent events, resumed where they were cut; polling where a hub has none.

use std::collections::VecDeque;
use std::time::Duration;

use everdict_contracts::{RunId, RunStatus};
use reqwest::{Method, Response};
use tokio::time::Instant;

use super::sse::{SseEvent, SseParser};
use super::{HubClient, HubFault};

/// First pause before a resumed stream; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// A person watches: longer pauses would look like a hang.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A hub restart takes seconds; who waits longer than this wants to be told.
const GIVE_UP: Duration = Duration::from_secs(60);
/// The hub sends a comment at least every 15 s; three missed ones mean a dead connection.
const SILENCE: Duration = Duration::from_secs(45);
/// How often a hub without streams is asked.
const POLL: Duration = Duration::from_millis(500);

/// What a log stream brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    /// One line, without its line end.
    Line(String),
    /// The run has come this far.
    Status(RunStatus),
    /// The connection was lost and is being resumed; the text says why.
    Resuming(String),
}

enum State {
    Idle,
    Streaming(Box<Response>, SseParser),
    Polling { seen: usize },
    Done,
}

/// A log being followed. [`LogFollow::next`] is not cancel safe in the middle of a line burst: drop it when done.
pub struct LogFollow {
    client: HubClient,
    run: RunId,
    state: State,
    last_id: Option<String>,
    ready: VecDeque<LogEvent>,
    failing_since: Option<Instant>,
    pause: Duration,
}

impl LogFollow {
    pub(super) fn new(client: HubClient, run: RunId) -> Self {
        Self {
            client,
            run,
            state: State::Idle,
            last_id: None,
            ready: VecDeque::new(),
            failing_since: None,
            pause: PAUSE_MIN,
        }
    }

    /// Waits for the next event; `None` when the run has ended and its log was read to the end.
    ///
    /// # Errors
    /// A refusal by the hub, or a connection that stayed away for a minute.
    pub async fn next(&mut self) -> Result<Option<LogEvent>, HubFault> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let step = match std::mem::replace(&mut self.state, State::Idle) {
                State::Done => {
                    self.state = State::Done;
                    return Ok(None);
                }
                State::Idle => self.open().await,
                State::Streaming(response, parser) => self.read(response, parser).await,
                State::Polling { seen } => self.poll(seen).await,
            };
            match step {
                Ok(state) => self.state = state,
                Err(fault) => self.failed(fault).await?,
            }
        }
    }

    async fn open(&mut self) -> Result<State, HubFault> {
        let mut request = self
            .client
            .request(Method::GET, &["runs", self.run.as_str(), "logs"])
            .header("accept", "text/event-stream");
        if let Some(id) = &self.last_id {
            request = request.header("last-event-id", id);
        }
        let base = self.client.base.clone();
        let response = request
            .send()
            .await
            .map_err(|error| HubFault::from_transport(&base, &error))?;
        if !response.status().is_success() || super::is_html(&response) {
            let status = response.status();
            let html = super::is_html(&response);
            let redirected = super::location(&response);
            let body = self.client.body(response).await?;
            let answer = super::fault::Answer {
                status,
                html,
                redirected,
                body: &body,
            };
            return Err(HubFault::from_answer(&base, &answer));
        }
        let streams = response
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        Ok(if streams {
            State::Streaming(Box::new(response), SseParser::default())
        } else {
            State::Polling { seen: 0 }
        })
    }

    async fn read(&mut self, mut response: Box<Response>, mut parser: SseParser) -> Result<State, HubFault> {
        let base = &self.client.base;
        let chunk = tokio::time::timeout(SILENCE, response.chunk())
            .await
            .map_err(|_elapsed| HubFault::TimedOut {
                hub: crate::hub_url::host(base),
            })?
            .map_err(|error| HubFault::from_transport(base, &error))?;
        let Some(bytes) = chunk else {
            return self.after_cut().await;
        };
        self.recovered();
        for event in parser.push(&bytes) {
            if self.take(event) {
                return Ok(State::Done);
            }
        }
        Ok(State::Streaming(response, parser))
    }

    /// Takes one event; true when it was the last.
    fn take(&mut self, event: SseEvent) -> bool {
        if event.id.is_some() {
            self.last_id = event.id;
        }
        match event.name.as_deref() {
            Some("end") => true,
            None | Some("log" | "line" | "message") => {
                let text = line_text(event.data);
                self.ready
                    .extend(text.lines().map(|line| LogEvent::Line(line.to_owned())));
                false
            }
            Some("status") => {
                self.ready.extend(status(&event.data).map(LogEvent::Status));
                false
            }
            // A newer hub may say more; a log view needs none of it.
            Some(_) => false,
        }
    }

    /// A stream that ends without its last event was cut, unless the run has ended meanwhile.
    async fn after_cut(&mut self) -> Result<State, HubFault> {
        let run = self.client.run(&self.run).await?;
        if run.status.is_final() && self.failing_since.is_none() {
            return Ok(State::Done);
        }
        Err(HubFault::Network {
            hub: crate::hub_url::host(&self.client.base),
            cause: "the log stream was cut".to_owned(),
        })
    }

    async fn poll(&mut self, seen: usize) -> Result<State, HubFault> {
        // The state first: lines written before it are then surely in the text.
        let run = self.client.run(&self.run).await?;
        let text = self.client.logs(&self.run).await?;
        self.recovered();
        let finished = run.status.is_final();
        let complete = if finished {
            text.len()
        } else {
            text.rfind('\n').map_or(0, |end| end + 1)
        };
        let fresh = text.get(seen..complete).unwrap_or_default();
        self.ready
            .extend(fresh.lines().map(|line| LogEvent::Line(line.to_owned())));
        if finished {
            return Ok(State::Done);
        }
        tokio::time::sleep(POLL).await;
        Ok(State::Polling {
            seen: complete.max(seen),
        })
    }

    fn recovered(&mut self) {
        self.failing_since = None;
        self.pause = PAUSE_MIN;
    }

    async fn failed(&mut self, fault: HubFault) -> Result<(), HubFault> {
        if !fault.is_transient() {
            self.state = State::Done;
            return Err(fault);
        }
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() > GIVE_UP {
            self.state = State::Done;
            return Err(fault);
        }
        if self.pause == PAUSE_MIN {
            self.ready.push_back(LogEvent::Resuming(fault.to_string()));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

fn status(data: &str) -> Option<RunStatus> {
    #[derive(serde::Deserialize)]
    struct News {
        status: RunStatus,
    }
    serde_json::from_str::<News>(data).ok().map(|news| news.status)
}

/// A hub sends a line either bare or as `{"line": …}`.
fn line_text(data: String) -> String {
    #[derive(serde::Deserialize)]
    struct Wrapped {
        line: String,
    }
    if data.starts_with('{')
        && let Ok(wrapped) = serde_json::from_str::<Wrapped>(&data)
    {
        return wrapped.line;
    }
    data
}
