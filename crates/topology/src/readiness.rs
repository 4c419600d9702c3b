//! Waits until a container does its work, or says at once why it never will.
//!
//! A wait has a real deadline, each look has a time-out of its own, and the end of the container ends the wait: nobody
//! polls a dead service for a minute and then loses its log.

mod fault;
mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, EngineError, ExecRequest, Health, LogQuery};

pub use fault::{Blame, NotReady, NotReadyReason};
use wire::Heard;

/// For one look: an accepting port that never answers must not eat the whole budget.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The first pause between two looks. A look on the wire costs well under a millisecond.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause: what is lost at most between being ready and being seen ready.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between looks that cost the daemon something.
const LONGEST_ENGINE_PAUSE: Duration = Duration::from_millis(250);

/// How long a container without a port must have run to count as up: it dies at once when its settings are wrong.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The same when another service waits for it: a migration should have ended, and nothing tells it from a worker that
/// never does.
const NEEDED_SETTLED_AFTER: Duration = Duration::from_secs(10);

/// Lines of the log that go into a failure.
const LOG_LINES: u32 = 50;

/// How to see that a container does its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// PostgreSQL takes a start-up message. Not true of the server that initialises a data folder: it has no TCP port.
    Postgres { address: SocketAddr, user: String },
    /// Redis answers `PING`.
    Redis { address: SocketAddr },
    /// `GET path` is answered with 200.
    HttpOk { address: SocketAddr, path: String },
    /// `GET /` is answered with anything below 500; where no HTTP is spoken, an answer or an open ear is enough.
    Service { address: SocketAddr },
    /// It prints this text, wherever the pieces of its output are cut, or has printed it in a line that has ended: half a
    /// line from before the wait is in nobody's reach.
    Output { text: String },
    /// A command in the container exits with 0: where its network can't be reached from here.
    Exec { argv: Vec<String> },
    /// It has run for a while, or ended with code 0.
    Settled { needed: bool },
}

/// One wait.
#[derive(Debug)]
pub struct Wait<'a> {
    pub engine: &'a Engine,
    /// The container's id.
    pub container: &'a str,
    /// What people call it, such as `service web`.
    pub what: &'a str,
    pub probe: &'a Probe,
    pub blame: Blame,
    /// Whether an end with code 0 is as good as being up.
    pub may_finish: bool,
    /// How long it may take from now.
    pub budget: Duration,
    /// The longest pause between two looks that the spec wants; a shorter one is used where looks are cheap.
    pub interval: Duration,
    pub cancel: &'a CancellationToken,
}

/// A wait that came to a good end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// It is up.
    Up,
    /// It has ended with code 0.
    Finished,
}

/// Waits until the container is ready.
///
/// Cancel safe: nothing is changed by waiting.
///
/// # Errors
/// [`NotReady`] as soon as the container has ended, at the deadline, and on cancel; with the end of its log.
pub async fn until_ready(wait: &Wait<'_>) -> Result<Ready, NotReady> {
    let deadline = Instant::now() + wait.budget;
    let mut last = String::from("it was never asked");
    let reason = tokio::select! {
        biased;
        () = wait.cancel.cancelled() => NotReadyReason::Cancelled,
        ended = wait.engine.wait_for_own_exit(wait.container, |code| code == 0 && wait.may_finish) => match wait.after_exit(ended).await {
            Ok(ready) => return Ok(ready),
            Err(reason) => reason,
        },
        () = wait.look_until_ready(&mut last) => return Ok(Ready::Up),
        () = sleep_until(deadline) => NotReadyReason::TimedOut { budget: wait.budget, last: last.clone() },
    };
    let log = match reason {
        NotReadyReason::Cancelled | NotReadyReason::Engine(_) => String::new(),
        _ => wait
            .engine
            .log_tail(wait.container, LogQuery::tail(LOG_LINES))
            .await
            .unwrap_or_default(),
    };
    Err(NotReady {
        what: wait.what.to_owned(),
        blame: wait.blame,
        reason,
        log,
    })
}

/// Takes one look, for a container that is said to be up already.
pub async fn answers_now(engine: &Engine, container: &str, probe: &Probe) -> bool {
    match probe {
        Probe::Settled { .. } | Probe::Output { .. } => true,
        probe => look(engine, container, probe).await.is_ok(),
    }
}

impl Wait<'_> {
    async fn look_until_ready(&self, last: &mut String) {
        match self.probe {
            Probe::Settled { needed } => return self.settle(*needed, last).await,
            Probe::Output { text } => return self.listen(text, last).await,
            _ => {}
        }
        let longest = match self.probe {
            Probe::Exec { .. } => LONGEST_ENGINE_PAUSE,
            _ => LONGEST_PAUSE,
        };
        let longest = longest.min(self.interval).max(FIRST_PAUSE);
        let mut pause = FIRST_PAUSE;
        loop {
            match look(self.engine, self.container, self.probe).await {
                Ok(()) => return,
                Err(heard) => *last = heard,
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Without a port: the image's own health check when it has one, else time.
    async fn settle(&self, needed: bool, last: &mut String) {
        let after = if needed {
            NEEDED_SETTLED_AFTER
        } else {
            SETTLED_AFTER
        };
        let settled = Instant::now() + after.min(self.budget.mul_f32(0.9));
        loop {
            match self
                .engine
                .inspect_container(self.container)
                .await
                .map(|view| view.health)
            {
                Ok(Health::Healthy) => return,
                Ok(Health::Unchecked) => break,
                Ok(Health::Starting) => "its health check has no verdict yet".clone_into(last),
                Ok(Health::Unhealthy) => "its health check fails".clone_into(last),
                Err(error) => *last = error.to_string(),
            }
            sleep(LONGEST_ENGINE_PAUSE).await;
        }
        "it hasn't run for long".clone_into(last);
        sleep_until(settled).await;
    }

    async fn listen(&self, text: &str, last: &mut String) {
        let mut heard = TextFinder::new(text);
        match self.engine.follow_output(self.container).await {
            Ok(mut pieces) => {
                *last = format!("it hasn't printed `{text}`");
                while let Some(piece) = pieces.next().await {
                    if heard.take(&piece) {
                        return;
                    }
                }
            }
            Err(error) => *last = error.to_string(),
        }
        // Its output has ended, or can't be had: its end or the deadline decides.
        std::future::pending::<()>().await;
    }

    async fn after_exit(&self, ended: Result<i64, EngineError>) -> Result<Ready, NotReadyReason> {
        let code = ended.map_err(NotReadyReason::Engine)?;
        if code == 0 && self.may_finish {
            return Ok(Ready::Finished);
        }
        let (oom_killed, error) = match self.engine.inspect_container(self.container).await {
            Ok(view) => (view.oom_killed, view.error),
            Err(error) if error.is_absence() => return Err(NotReadyReason::Engine(error)),
            Err(_) => Default::default(),
        };
        Err(NotReadyReason::Ended {
            code,
            oom_killed,
            error,
        })
    }
}

/// One look; what was seen instead when it isn't ready.
async fn look(engine: &Engine, container: &str, probe: &Probe) -> Result<(), String> {
    match probe {
        Probe::Postgres { address, user } => within(wire::postgres(*address, user))
            .await
            .map_err(|seen| format!("postgres at {address}: {seen}")),
        Probe::Redis { address } => within(wire::redis(*address))
            .await
            .map_err(|seen| format!("redis at {address}: {seen}")),
        Probe::HttpOk { address, path } => match wire::http_get(*address, path, LOOK_LIMIT).await {
            Heard::Status(200) => Ok(()),
            heard => Err(format!("GET {path} {heard}")),
        },
        Probe::Service { address } => match wire::http_get(*address, "/", LOOK_LIMIT).await {
            Heard::Status(status) if status < 500 => Ok(()),
            Heard::NotHttp => Ok(()),
            // Some protocols wait for the client to speak sense; the container's own check knows better, if there is one.
            Heard::Silence => match engine.inspect_container(container).await.map(|view| view.health) {
                Ok(Health::Starting | Health::Unhealthy) => Err("its health check doesn't pass".to_owned()),
                _ => Ok(()),
            },
            heard => Err(format!("GET / {heard}")),
        },
        Probe::Exec { argv } => {
            match engine
                .exec(container, ExecRequest::new(argv.clone(), LOOK_LIMIT))
                .await
            {
                Ok(outcome) if outcome.success() => Ok(()),
                Ok(outcome) => Err(format!("`{}` exits with {}", argv.join(" "), outcome.exit_code)),
                Err(error) => Err(error.to_string()),
            }
        }
        Probe::Settled { .. } | Probe::Output { .. } => Ok(()),
    }
}

/// Finds a text in output that comes in pieces.
struct TextFinder<'t> {
    text: &'t [u8],
    /// What a match could have begun with.
    tail: Vec<u8>,
}

impl<'t> TextFinder<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text: text.as_bytes(),
            tail: Vec::new(),
        }
    }

    /// Takes the next piece; true once the text has come.
    fn take(&mut self, piece: &[u8]) -> bool {
        self.tail.extend_from_slice(piece);
        if self.text.is_empty() || self.tail.windows(self.text.len()).any(|part| part == self.text) {
            return true;
        }
        let spare = self.tail.len().saturating_sub(self.text.len() - 1);
        self.tail.drain(..spare);
        false
    }
}

async fn within(look: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    timeout(LOOK_LIMIT, look)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", LOOK_LIMIT.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::TextFinder;

    #[test]
    fn a_text_is_found_however_its_pieces_are_cut() {
        for cut in 0..=12 {
            let output = b"get re ready";
            let mut finder = TextFinder::new("ready");
            let found = finder.take(&output[..cut]) | finder.take(&output[cut..]);
            assert!(found, "cut at {cut}");
        }
        let mut finder = TextFinder::new("ready");
        assert!(!"reread".bytes().any(|byte| finder.take(&[byte])));
        assert!(
            finder.take(b"y"),
            "across pieces of one byte, and without a newline"
        );
    }
}
