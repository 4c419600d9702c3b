//! The cases that run in this process: the handle to stop one, and what it came to.
//!
//! A runner tells of jobs, an executor sees cases; what both know (run, case, harness) links them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use everdict_contracts::{CaseFailure, CaseJob, CaseResult, ErrorCode, FailureClass, FailureStage, Fault};
use everdict_runner_core::Executor;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::detail::Parts;
use super::frames::{FrameReader, Frames, Tap};
use everdict_contracts::{Judged, Verdict, judge_result};

/// A runner has at most 64 slots; what is older was dropped without an end.
const MAX_WORKS: usize = 256;

/// What a runner and its executor both know of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkKey {
    pub(super) run: Option<String>,
    pub(super) case_id: String,
    pub(super) harness: String,
}

/// How a case ended.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) judged: Judged,
    pub(super) failure: Option<CaseFailure>,
    pub(super) parts: Parts,
    /// It was given back, for a reason of this machine's.
    pub(super) handed_back: bool,
}

struct Work {
    key: WorkKey,
    stop: CancellationToken,
    /// Why it is given back, if it is.
    handed_back: Option<String>,
    frames: Frames,
    ending: Option<Ending>,
}

/// Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Works {
    works: Arc<Mutex<VecDeque<Work>>>,
}

impl Works {
    /// Runs cases with `inner` and keeps track of them here.
    pub(super) fn tracked(&self, inner: Executor) -> Executor {
        let works = self.clone();
        Arc::new(move |job, mut context| {
            let (works, key) = (works.clone(), key(&job));
            let (tap, frames) = Tap::on(context.progress);
            context.progress = tap;
            works.begin(key.clone(), context.cancel.clone(), frames);
            let running = inner(job, context);
            async move {
                let ended = running.await;
                let why = works.handed_back(&key);
                let result = match (ended, &why) {
                    // What came to an end in spite of it is worth reporting.
                    (Err(_), Some(why)) => Err(Fault::new(
                        ErrorCode::DriverProvisionFailed,
                        format!("handed back, not run here: {why}"),
                    )),
                    (ended, _) => ended,
                };
                let handed_back = why.is_some() && result.is_err();
                works.end(
                    &key,
                    Ending {
                        handed_back,
                        ..ending(&result)
                    },
                );
                result
            }
            .boxed()
        })
    }

    fn begin(&self, key: WorkKey, stop: CancellationToken, frames: Frames) {
        let mut works = self.lock();
        if works.len() >= MAX_WORKS {
            works.pop_front();
        }
        works.push_back(Work {
            key,
            stop,
            handed_back: None,
            frames,
            ending: None,
        });
    }

    fn end(&self, key: &WorkKey, ending: Ending) {
        let mut works = self.lock();
        if let Some(work) = works
            .iter_mut()
            .find(|work| work.ending.is_none() && work.key == *key)
        {
            work.ending = Some(ending);
        }
    }

    /// Stops a running case; false when there is none.
    pub(super) fn stop(&self, key: &WorkKey) -> bool {
        let works = self.lock();
        let found = works
            .iter()
            .find(|work| work.ending.is_none() && work.key == *key);
        if let Some(work) = found {
            work.stop.cancel();
        }
        found.is_some()
    }

    /// Gives a case back that has not begun, or stops it and gives it back. Its hub gets the reason, as a failure of the
    /// surroundings that another runner may not have.
    pub(super) fn hand_back(&self, key: &WorkKey, why: &str) {
        let mut works = self.lock();
        let found = works
            .iter_mut()
            .find(|work| work.ending.is_none() && work.handed_back.is_none() && work.key == *key);
        if let Some(work) = found {
            work.hand_back(why);
        }
    }

    /// [`Works::hand_back`] for every case.
    pub(super) fn hand_back_all(&self, why: &str) {
        let mut works = self.lock();
        let running = works
            .iter_mut()
            .filter(|work| work.ending.is_none() && work.handed_back.is_none());
        running.for_each(|work| work.hand_back(why));
    }

    fn handed_back(&self, key: &WorkKey) -> Option<String> {
        let works = self.lock();
        let work = works
            .iter()
            .find(|work| work.ending.is_none() && work.key == *key)?;
        work.handed_back.clone()
    }

    /// Follows what the browser of a running case shows; `None` when there is no such case.
    pub(super) fn follow_frames(&self, key: &WorkKey) -> Option<FrameReader> {
        let works = self.lock();
        let found = works
            .iter()
            .find(|work| work.ending.is_none() && work.key == *key)?;
        Some(FrameReader::new(found.frames.clone()))
    }

    /// Stops every running case.
    pub(super) fn stop_all(&self) {
        for work in self.lock().iter().filter(|work| work.ending.is_none()) {
            work.stop.cancel();
        }
    }

    /// Takes out what a case came to; `None` when it never came to anything.
    pub(super) fn take(&self, key: &WorkKey) -> Option<Ending> {
        let mut works = self.lock();
        let index = works
            .iter()
            .position(|work| work.ending.is_some() && work.key == *key)
            .or_else(|| works.iter().position(|work| work.key == *key))?;
        works.remove(index)?.ending
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Work>> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn hand_back(&mut self, why: &str) {
        self.handed_back = Some(why.to_owned());
        self.stop.cancel();
    }
}

pub(super) fn key(job: &CaseJob) -> WorkKey {
    WorkKey {
        run: job.run_id.as_ref().map(ToString::to_string),
        case_id: job.eval_case.id.to_string(),
        harness: format!("{}@{}", job.harness.id, job.harness.version),
    }
}

fn ending(result: &Result<CaseResult, Fault>) -> Ending {
    match result {
        Ok(result) => Ending {
            judged: judge_result(result),
            failure: result.failure.clone(),
            parts: Parts::of(result),
            handed_back: false,
        },
        Err(fault) => {
            let failure = fault.failure();
            Ending {
                judged: judge_failure(&failure),
                failure: Some(failure),
                parts: Parts::default(),
                handed_back: false,
            }
        }
    }
}

/// Judges a case that has no result, by the rule of [`crate::judge_result`].
pub(super) fn judge_failure(failure: &CaseFailure) -> Judged {
    let verdict = match (failure.class, failure.stage) {
        (FailureClass::Infra, _) => Verdict::Infra,
        (_, FailureStage::Install | FailureStage::Run) => Verdict::Fail,
        (_, FailureStage::Dispatch | FailureStage::Collect | FailureStage::Grade) => Verdict::Unmeasured,
    };
    Judged {
        verdict,
        reason: Some(format!("{}: {}", failure.code, failure.message)),
    }
}

/// Tells whether somebody stopped the case.
pub(super) fn is_cancel(failure: &CaseFailure) -> bool {
    failure.code == ErrorCode::Cancelled.as_str()
}
