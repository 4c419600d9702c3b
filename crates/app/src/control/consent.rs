//! Whether a job may run here: what the person said about its hub, its workspace and its kind, and asking where they said
//! nothing yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everdict_contracts::{CaseJob, Fault, HarnessSpec};
use everdict_runner_core::Executor;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::room::Room;
use super::view::{AskView, ConsentAnswer, ConsentKind, ConsentView};
use super::work::key;
use crate::private_file;
use crate::problem::{Problem, Result};
use crate::registrations::Registration;

/// A hub gets a job back within 30 s of its lease; the report takes a moment.
const ASK_LIMIT: Duration = Duration::from_secs(25);

/// What an answer is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scope {
    pub(super) hub: String,
    pub(super) workspace: String,
    pub(super) kind: ConsentKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    #[serde(flatten)]
    scope: Scope,
    always: bool,
    at: Timestamp,
}

struct Ask {
    view: AskView,
    scope: Scope,
    answer: oneshot::Sender<bool>,
}

/// What was said, and what is asked.
pub(super) struct Consents {
    file: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: Vec<Entry>,
    asks: BTreeMap<u64, Ask>,
    next: u64,
}

impl Consents {
    /// Reads what was said in earlier runs. A file that can't be read counts as nothing said: everything is asked again.
    pub(super) fn load(state_dir: &Path) -> Self {
        let file = state_dir.join("consents.json");
        let read = private_file::read(&file).map(|bytes| bytes.map(|bytes| serde_json::from_slice(&bytes)));
        let entries = match read {
            Ok(None) => Vec::new(),
            Ok(Some(Ok(entries))) => entries,
            Ok(Some(Err(_))) | Err(_) => {
                tracing::warn!(file = %file.display(), "the consents can't be read; everything is asked again");
                Vec::new()
            }
        };
        Self {
            file,
            inner: Mutex::new(Inner {
                entries,
                ..Inner::default()
            }),
        }
    }

    /// What was said for good.
    pub(super) fn views(&self) -> Vec<ConsentView> {
        let view = |entry: &Entry| ConsentView {
            id: entry.id.clone(),
            hub: entry.scope.hub.clone(),
            workspace: entry.scope.workspace.clone(),
            kind: entry.scope.kind,
            answer: if entry.always {
                ConsentAnswer::Always
            } else {
                ConsentAnswer::Never
            },
            at: entry.at.to_string(),
        };
        self.inner().entries.iter().map(view).collect()
    }

    /// The open asks, oldest first.
    pub(super) fn asks(&self) -> Vec<AskView> {
        self.inner().asks.values().map(|ask| ask.view.clone()).collect()
    }

    fn said(&self, scope: &Scope) -> Option<bool> {
        let inner = self.inner();
        let entry = inner.entries.iter().find(|entry| entry.scope == *scope)?;
        Some(entry.always)
    }

    fn open(&self, scope: Scope, job: &CaseJob) -> (u64, oneshot::Receiver<bool>) {
        let (answer, answered) = oneshot::channel();
        let mut inner = self.inner();
        let number = inner.next;
        inner.next += 1;
        let view = AskView {
            id: format!("ask-{number}"),
            hub: scope.hub.clone(),
            workspace: scope.workspace.clone(),
            harness: format!("{}@{}", job.harness.id, job.harness.version),
            kind: scope.kind,
            case_id: job.eval_case.id.to_string(),
            expires_at: (Timestamp::now() + ASK_LIMIT).to_string(),
        };
        inner.asks.insert(number, Ask { view, scope, answer });
        (number, answered)
    }

    fn close(&self, number: u64) {
        self.inner().asks.remove(&number);
    }

    /// Takes an answer. One for good is kept, and answers every open ask of the same scope.
    pub(super) fn answer(&self, id: &str, answer: ConsentAnswer) -> Result<()> {
        let mut inner = self.inner();
        let number = inner
            .asks
            .iter()
            .find(|(_, ask)| ask.view.id == id)
            .map(|(number, _)| *number);
        let Some(asked) = number.and_then(|number| inner.asks.remove(&number)) else {
            return Err(Problem::input("this is not asked any more")
                .fix("the job went back to its hub; the next one asks again")
                .coded("ask_gone"));
        };
        let may = answer != ConsentAnswer::Never;
        // Whoever asked may have ended in this moment.
        let _ = asked.answer.send(may);
        if answer == ConsentAnswer::Once {
            return Ok(());
        }
        let same: Vec<u64> = inner
            .asks
            .iter()
            .filter(|(_, ask)| ask.scope == asked.scope)
            .map(|(number, _)| *number)
            .collect();
        for number in same {
            if let Some(ask) = inner.asks.remove(&number) {
                let _ = ask.answer.send(may);
            }
        }
        inner.entries.retain(|entry| entry.scope != asked.scope);
        inner.entries.push(Entry {
            id: uuid::Uuid::new_v4().to_string(),
            scope: asked.scope,
            always: may,
            at: Timestamp::now(),
        });
        self.save(&inner)
    }

    /// Forgets what was said; the next job asks again.
    pub(super) fn revoke(&self, id: &str) -> Result<()> {
        let mut inner = self.inner();
        let before = inner.entries.len();
        inner.entries.retain(|entry| entry.id != id);
        if inner.entries.len() == before {
            return Err(Problem::input("there is no such consent (any more)")
                .fix("look at the list again")
                .coded("consent_unknown"));
        }
        self.save(&inner)
    }

    fn save(&self, inner: &Inner) -> Result<()> {
        if let Some(dir) = self.file.parent() {
            private_file::prepare_dir(dir)?;
        }
        let mut text = serde_json::to_vec_pretty(&inner.entries).expect("BUG: consents are plain data");
        text.push(b'\n');
        private_file::write(&self.file, &text)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What kind of thing the job would run here.
fn kind(job: &CaseJob) -> ConsentKind {
    match &job.harness_spec {
        Some(HarnessSpec::Service(_)) => ConsentKind::Service,
        _ if job.eval_case.image.is_some() => ConsentKind::Image,
        Some(HarnessSpec::Command(_)) => ConsentKind::Command,
        _ => ConsentKind::Process,
    }
}

impl Room {
    /// Runs with `inner` only what the person lets run; the rest is given back, with nothing started.
    pub(super) fn consented(self: &Arc<Self>, registration: &Registration, inner: Executor) -> Executor {
        let room = Arc::clone(self);
        let registration = registration.clone();
        Arc::new(move |job, context| {
            let (room, registration, inner) = (Arc::clone(&room), registration.clone(), Arc::clone(&inner));
            async move {
                if let Err(why) = room.consent(&registration, &job, &context.cancel).await {
                    room.works.hand_back(&key(&job), why);
                    return Err(Fault::cancelled(why));
                }
                inner(job, context).await
            }
            .boxed()
        })
    }

    async fn consent(
        &self,
        registration: &Registration,
        job: &CaseJob,
        cancel: &CancellationToken,
    ) -> std::result::Result<(), &'static str> {
        if self.is_embedded(registration) || !self.settings().terms.ask {
            return Ok(());
        }
        let scope = Scope {
            hub: registration.hub_url.clone(),
            workspace: job
                .tenant
                .as_ref()
                .map_or_else(|| registration.workspace.clone(), ToString::to_string),
            kind: kind(job),
        };
        const NEVER: &str = "the owner of this machine doesn't let this workspace run such jobs";
        match self.consents.said(&scope) {
            Some(true) => return Ok(()),
            Some(false) => return Err(NEVER),
            None => {}
        }
        let (number, answered) = self.consents.open(scope, job);
        self.show_asks();
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            answer = tokio::time::timeout(ASK_LIMIT, answered) => answer.ok(),
        };
        self.consents.close(number);
        self.show_asks();
        match answer {
            Some(Ok(true)) => Ok(()),
            Some(Ok(false)) => Err(NEVER),
            Some(Err(_)) | None => Err("nobody at this machine answered whether it may run"),
        }
    }

    pub(super) fn show_asks(&self) {
        let asks = self.consents.asks();
        self.change(|desk| desk.asks = asks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(workspace: &str) -> Scope {
        Scope {
            hub: "https://team.example".into(),
            workspace: workspace.into(),
            kind: ConsentKind::Command,
        }
    }

    fn job() -> CaseJob {
        let job = serde_json::json!({
            "evalCase": {"id": "c1", "env": {"kind": "prompt"}, "task": "t", "graders": [{"id": "steps"}]},
            "harness": {"id": "h", "version": "1.0.0"},
        });
        everdict_contracts::decode(&job).unwrap()
    }

    #[test]
    fn an_answer_for_good_is_kept_for_the_owner_alone_answers_the_other_asks_and_can_be_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let consents = Consents::load(dir.path());
        let (_, mut first) = consents.open(scope("acme"), &job());
        let (_, mut second) = consents.open(scope("acme"), &job());
        let (_, mut other) = consents.open(scope("other"), &job());
        let asks = consents.asks();
        assert_eq!(asks.len(), 3);
        assert_eq!(asks[0].harness, "h@1.0.0");
        consents.answer(&asks[0].id, ConsentAnswer::Always).unwrap();
        assert!(first.try_recv().unwrap() && second.try_recv().unwrap());
        assert!(other.try_recv().is_err());
        assert_eq!(
            consents
                .answer(&asks[0].id, ConsentAnswer::Once)
                .unwrap_err()
                .code(),
            "ask_gone"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(dir.path().join("consents.json"))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let later = Consents::load(dir.path());
        assert_eq!(later.said(&scope("acme")), Some(true));
        assert_eq!(later.said(&scope("other")), None);
        later.revoke(&later.views()[0].id).unwrap();
        assert_eq!(later.said(&scope("acme")), None);
        assert_eq!(Consents::load(dir.path()).views(), []);
        assert_eq!(later.revoke("x").unwrap_err().code(), "consent_unknown");
    }

    #[test]
    fn once_is_not_remembered_and_never_is() {
        let dir = tempfile::tempdir().unwrap();
        let consents = Consents::load(dir.path());
        let (_, mut asked) = consents.open(scope("acme"), &job());
        consents.answer("ask-0", ConsentAnswer::Once).unwrap();
        assert!(asked.try_recv().unwrap());
        assert_eq!(consents.said(&scope("acme")), None);
        let (_, mut asked) = consents.open(scope("acme"), &job());
        consents.answer("ask-1", ConsentAnswer::Never).unwrap();
        assert!(!asked.try_recv().unwrap());
        assert_eq!(Consents::load(dir.path()).said(&scope("acme")), Some(false));
    }

    #[test]
    fn a_file_that_can_t_be_read_means_that_everything_is_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        private_file::write(&dir.path().join("consents.json"), b"{nonsense").unwrap();
        assert_eq!(Consents::load(dir.path()).views(), []);
    }
}
