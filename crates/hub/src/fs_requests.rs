//! Looks into a running case's folder: somebody asks, the runner's next poll takes the question along,
//! and its answer comes back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everdict_contracts::{FsAnswer, FsRequest, FsRequestKind};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

/// How long somebody waits for an answer: a runner polls every two seconds, and four missed polls mean
/// that there is nothing to look at.
const PATIENCE: Duration = Duration::from_secs(8);

/// Questions that may wait per run; a page asks for one thing at a time.
const WAITING: usize = 64;

#[derive(Debug)]
struct Question {
    request: FsRequest,
    delivered: bool,
    /// Absent when somebody at another hub asks.
    reply: Option<oneshot::Sender<FsAnswer>>,
    asked: Instant,
}

#[derive(Debug, Default)]
struct Board {
    next: u64,
    runs: HashMap<String, Vec<Question>>,
}

/// Questions that wait for a runner.
#[derive(Debug)]
pub(crate) struct FsRequests {
    patience: Duration,
    /// Starts the ids, which have to differ from those of other hubs.
    name: String,
    board: Mutex<Board>,
}

impl Default for FsRequests {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl FsRequests {
    fn with_patience(patience: Duration) -> Self {
        Self {
            patience,
            name: Uuid::new_v4().simple().to_string(),
            board: Mutex::default(),
        }
    }

    /// Asks the runner of a run and waits for its answer; `None` when none came in time.
    ///
    /// `tell` is given the question for other hubs, where the runner may be.
    pub(crate) async fn ask(
        &self,
        run: &str,
        kind: FsRequestKind,
        path: Option<String>,
        tell: impl FnOnce(&FsRequest),
    ) -> Option<FsAnswer> {
        let (reply, answer) = oneshot::channel();
        let id = {
            let mut board = self.board();
            board.next += 1;
            let id = format!("fsreq-{}-{}", self.name, board.next);
            let questions = board.runs.entry(run.to_owned()).or_default();
            if questions.len() >= WAITING {
                return None;
            }
            let request = FsRequest {
                id: id.clone(),
                kind,
                path,
            };
            tell(&request);
            questions.push(Question {
                request,
                delivered: false,
                reply: Some(reply),
                asked: Instant::now(),
            });
            id
        };
        let _withdraw = Withdraw {
            requests: self,
            run,
            id: &id,
        };
        tokio::time::timeout(self.patience, answer).await.ok()?.ok()
    }

    /// Takes in a question of another hub.
    pub(crate) fn adopt(&self, run: &str, request: FsRequest) {
        let mut board = self.board();
        let patience = self.patience;
        // Nobody waits for the answers to older ones any more.
        for questions in board.runs.values_mut() {
            questions.retain(|one| one.reply.is_some() || one.asked.elapsed() < patience);
        }
        board.runs.retain(|_, questions| !questions.is_empty());
        let questions = board.runs.entry(run.to_owned()).or_default();
        if questions.len() < WAITING {
            questions.push(Question {
                request,
                delivered: false,
                reply: None,
                asked: Instant::now(),
            });
        }
    }

    /// Hands over the questions that no poll has taken yet.
    pub(crate) fn poll(&self, run: &str) -> Vec<FsRequest> {
        let mut board = self.board();
        let Some(questions) = board.runs.get_mut(run) else {
            return Vec::new();
        };
        questions
            .iter_mut()
            .filter_map(|question| {
                let taken = std::mem::replace(&mut question.delivered, true);
                (!taken).then(|| question.request.clone())
            })
            .collect()
    }

    /// Passes an answer on; one that nobody waits for here any more comes back, since somebody may at another hub.
    pub(crate) fn answer(&self, run: &str, id: &str, answer: FsAnswer) -> Option<FsAnswer> {
        match self.remove(run, id).and_then(|question| question.reply) {
            Some(reply) => reply.send(answer).err(),
            None => Some(answer),
        }
    }

    fn remove(&self, run: &str, id: &str) -> Option<Question> {
        let mut board = self.board();
        let questions = board.runs.get_mut(run)?;
        let position = questions.iter().position(|question| question.request.id == id)?;
        let question = questions.swap_remove(position);
        if questions.is_empty() {
            board.runs.remove(run);
        }
        Some(question)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a question off the board when nobody waits for it any more.
struct Withdraw<'a> {
    requests: &'a FsRequests,
    run: &'a str,
    id: &'a str,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        self.requests.remove(self.run, self.id);
    }
}

#[cfg(test)]
mod tests {
    use everdict_contracts::FsFileAnswer;

    use super::*;

    #[tokio::test]
    async fn a_question_reaches_one_poll_and_its_answer_comes_back() {
        let requests = FsRequests::default();
        let ask = requests.ask("run", FsRequestKind::File, Some("a.rs".into()), |_| {});
        let serve = async {
            let taken = requests.poll("run");
            assert_eq!(taken.len(), 1);
            assert!(requests.poll("run").is_empty());
            requests.answer("run", &taken[0].id, FsAnswer::File(FsFileAnswer::default()));
        };
        let (answer, ()) = tokio::join!(ask, serve);
        assert_eq!(answer, Some(FsAnswer::File(FsFileAnswer::default())));
        assert!(requests.board().runs.is_empty());
    }

    #[tokio::test]
    async fn a_question_that_nobody_answers_is_withdrawn() {
        let requests = FsRequests::with_patience(Duration::from_millis(10));
        assert_eq!(requests.ask("run", FsRequestKind::Tree, None, |_| {}).await, None);
        assert!(requests.poll("run").is_empty());
    }
}
