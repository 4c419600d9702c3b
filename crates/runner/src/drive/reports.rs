//! The reports of one attempt: what is sent, and what the answer means.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{AttemptToken, CaseResult};
use everdict_exec::HostEnv;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::attempt::{Action, Event, Form};
use crate::backoff::Backoff;
use crate::evidence::Evidence;
use crate::hops::{self, Hop};
use crate::hub::{Hub, Verdict};
use crate::journal::Entry;
use crate::report;
use crate::runner::Core;
use crate::session::{CallError, UnreachableCause};

/// First wait before a report is sent again. The session has by then tried twice.
const RETRY_BASE: Duration = Duration::from_millis(500);
/// A result arrives within this of the hub's return, and its jitter.
const RETRY_CAP: Duration = Duration::from_secs(15);

/// A token that is refused this often in a row will not deliver this report; the hub has removed the runner.
const UNAUTHORIZED_TRIES: u32 = 3;

/// How a report was answered.
pub(crate) enum Answer {
    Settled(Event),
    /// Refused, with the hub's words.
    Refused(String),
    /// The token itself is refused.
    Unauthorized,
}

pub(crate) struct Reports {
    hub: Hub,
    env: Arc<HostEnv>,
    attempt: AttemptToken,
    result: Option<Arc<CaseResult>>,
    /// Why a report was refused, or why the job can't be run: the message of a `fail_job`.
    why: String,
    unauthorized: u32,
    pump: Option<(JoinSet<()>, CancellationToken)>,
    /// Where a result goes before it is sent, once.
    entry: Option<Entry>,
}

impl Reports {
    pub(super) fn new(core: &Core, attempt: AttemptToken) -> Self {
        Self {
            hub: core.hub.clone(),
            env: Arc::clone(&core.config.host_env),
            attempt,
            result: None,
            why: String::new(),
            unauthorized: 0,
            pump: None,
            entry: None,
        }
    }

    /// Reports of a result that is already where nothing can lose it.
    pub(crate) fn kept(core: &Core, attempt: AttemptToken, result: CaseResult) -> Self {
        let mut reports = Self::new(core, attempt);
        reports.result(result);
        reports
    }

    /// Keeps the result in here before it is first sent.
    pub(super) fn keep_in(&mut self, entry: Entry) {
        self.entry = Some(entry);
    }

    /// Starts sending evidence. The first report waits for its last lines.
    pub(super) fn pump(&mut self, evidence: Evidence) {
        let mut task = JoinSet::new();
        let stop = CancellationToken::new();
        let (hub, attempt, stopped) = (self.hub.clone(), self.attempt.clone(), stop.clone());
        task.spawn(async move { evidence.pump(&hub, &attempt, stopped).await });
        self.pump = Some((task, stop));
    }

    pub(super) fn result(&mut self, result: CaseResult) {
        self.result = Some(Arc::new(result));
    }

    pub(super) fn fail_with(&mut self, why: String) {
        self.why = why;
    }

    pub(super) fn latest(&self) -> Option<&CaseResult> {
        self.result.as_deref()
    }

    /// Carries out a reporting action; the future ends with the hub's answer, or the lack of one.
    pub(crate) fn send(&mut self, action: Action) -> BoxFuture<'static, Answer> {
        let (hub, attempt) = (self.hub.clone(), self.attempt.clone());
        let pump = self.pump.take();
        let tries = match action {
            Action::Submit { tries, .. } | Action::FailJob { tries } => tries,
            _ => 0,
        };
        let result = match action {
            Action::Submit { form, .. } => self.in_form(form),
            Action::Acknowledge => self.result.clone(),
            _ => None,
        };
        let why = self.why.clone();
        let keep = matches!(action, Action::Submit { .. })
            .then(|| self.entry.take())
            .flatten();
        let env = Arc::clone(&self.env);
        async move {
            if let (Some(entry), Some(result)) = (keep, &result) {
                if let Err(error) = entry.keep(result).await {
                    tracing::warn!(job = %attempt.job_id, %error, "the result could not be kept, and is sent all the same");
                }
                hops::passed(&env, Hop::Kept);
            }
            if let Some((mut pump, stop)) = pump {
                stop.cancel();
                while pump.join_next().await.is_some() {}
            }
            if tries > 0 {
                tokio::time::sleep(Backoff::new(RETRY_BASE, RETRY_CAP).after(tries - 1)).await;
            }
            let answer = match result {
                Some(result) => hub.submit(&attempt, &result).await,
                None => hub.fail(&attempt, &why).await,
            };
            Answer::from(answer)
        }
        .boxed()
    }

    fn in_form(&self, form: Form) -> Option<Arc<CaseResult>> {
        match form {
            Form::Result | Form::Fault => self.result.clone(),
            Form::Trimmed => self
                .result
                .as_ref()
                .map(|result| Arc::new(report::trimmed(result, &self.why))),
        }
    }

    /// Turns an answer into an event, and remembers a refusal for the next, smaller report.
    pub(crate) fn note(&mut self, answer: Answer) -> Event {
        match answer {
            Answer::Settled(event) => {
                self.unauthorized = 0;
                event
            }
            Answer::Refused(refusal) => {
                tracing::warn!(job = %self.attempt.job_id, %refusal, "the hub refused a report");
                self.why = refusal;
                Event::Refused
            }
            Answer::Unauthorized => {
                self.unauthorized += 1;
                if self.unauthorized < UNAUTHORIZED_TRIES {
                    Event::Unanswered
                } else {
                    Event::GiveUp
                }
            }
        }
    }
}

impl From<Result<Verdict, CallError>> for Answer {
    fn from(answer: Result<Verdict, CallError>) -> Self {
        match answer {
            Ok(Verdict { accepted: true, .. }) => Self::Settled(Event::Accepted),
            Ok(Verdict { repeated, .. }) => Self::Settled(Event::Superseded { repeated }),
            Err(CallError::Refused { text }) => Self::Refused(text),
            // Too large is refused every time; a smaller report may pass.
            Err(CallError::Unreachable {
                cause: UnreachableCause::Http(413),
                detail,
            }) => Self::Refused(format!("the result is too large: {detail}")),
            Err(CallError::Unauthorized { .. }) => Self::Unauthorized,
            Err(error) => {
                tracing::debug!(%error, "report without an answer");
                Self::Settled(Event::Unanswered)
            }
        }
    }
}
