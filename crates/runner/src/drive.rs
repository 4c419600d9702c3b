//! Carries one attempt from lease to settlement: the async shell around [`Attempt`].
//!
//! One loop waits for whatever happens next (the case ends, a heartbeat is answered, a report is answered, somebody
//! wants to stop, time runs out), hands it to the machine and carries out the action. The case, the heartbeats and the
//! log run on tasks of their own, so none of them can hold up another.

mod beats;
mod reports;

use std::sync::Arc;
use std::time::Duration;

use everdict_cases::{CaseContext, Progress};
use everdict_contracts::{AttemptToken, CaseJob, CaseResult, ErrorCode, Fault};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::attempt::{Action, Attempt, Event, Outcome};
use crate::board::JobSummary;
use crate::evidence::Evidence;
use crate::hops::{self, Hop};
use crate::hub::Leased;
use crate::report::{self, Span};
use crate::runner::Core;
use beats::{Beat, Beats};
use reports::Answer;
pub(crate) use reports::Reports;

/// A stopped executor ends within its own grace (TERM, wait, KILL, clean-up) or is dropped, which kills what it
/// started. Longer than any grace in use, shorter than anybody's patience.
const STOP_LIMIT: Duration = Duration::from_secs(90);
/// After a member's "stop now" the report gets this long. Then the lease runs out by itself.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Runs a leased job to its settlement. Returns early only with the process.
pub(crate) async fn drive(core: &Arc<Core>, leased: Leased) -> Outcome {
    let Leased { attempt, job, ttl } = leased;
    let job = Arc::new(job);
    let env = &core.config.host_env;
    hops::passed(env, Hop::Leased);
    let (machine, first) = Attempt::leased();
    let mut run = Run::new(core, attempt, Some(Arc::clone(&job)), ttl, machine);
    let begun = core.journal.begin(&run.attempt, &job).await;
    hops::passed(env, Hop::Journaled);
    let entry = match begun {
        Ok(entry) => {
            run.reports.keep_in(entry.clone());
            Some(entry)
        }
        Err(error) => {
            run.refusal = Some(unwritten(&error));
            None
        }
    };
    core.board
        .job_started(&run.attempt.job_id, run.attempt.lease_epoch, &job);
    let outcome = run.run_to_settlement(first).await;
    hops::passed(env, Hop::Answered);
    if let Some(entry) = entry
        && outcome != Outcome::Undelivered
    {
        entry.settle().await;
    }
    hops::passed(env, Hop::Settled);
    core.board.job_finished(run.summary(&job, outcome));
    outcome
}

/// No entry, no start: what is not written down could be left behind by a crash and never be found.
fn unwritten(error: &std::io::Error) -> Fault {
    let why = format!(
        "this runner can't write down that the attempt begins: {error}; free space on, or make writable, its state folder"
    );
    Fault::new(ErrorCode::DriverProvisionFailed, why)
}

/// Fails a leased job that can't be read.
pub(crate) async fn fail_unreadable(
    core: &Arc<Core>,
    attempt: AttemptToken,
    ttl: Duration,
    why: String,
) -> Outcome {
    tracing::warn!(job = %attempt.job_id, %why, "unreadable job");
    let (machine, first) = Attempt::unreadable();
    let mut run = Run::new(core, attempt, None, ttl, machine);
    run.reports.fail_with(why);
    let outcome = run.run_to_settlement(first).await;
    core.board.job_unreadable(outcome);
    outcome
}

/// Everything around the machine of one attempt.
struct Run<'a> {
    core: &'a Arc<Core>,
    attempt: AttemptToken,
    job: Option<Arc<CaseJob>>,
    ttl: Duration,
    machine: Attempt,
    leased_at: Timestamp,
    started: Instant,
    /// Cancels the executor.
    cancel: CancellationToken,
    /// Ends the heartbeats.
    over: CancellationToken,
    execution: JoinSet<Result<CaseResult, Fault>>,
    /// Why the case is not started.
    refusal: Option<Fault>,
    evidence: Option<Evidence>,
    reports: Reports,
    beats: mpsc::Receiver<Beat>,
    beats_to: Option<mpsc::Sender<Beat>>,
    deadlines: Deadlines,
}

/// The instants at which waiting ends.
struct Deadlines {
    /// The lease can't be expected to live beyond this.
    lease: Instant,
    /// The executor is dropped.
    execution: Option<Instant>,
    /// Delivery is given up.
    delivery: Option<Instant>,
}

/// What the loop woke up for.
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, on the stack of one loop"
)]
enum Wake {
    Beat(Beat),
    Executed(Result<CaseResult, Fault>),
    Answered(Answer),
    MemberStop,
    LeaseDeadline,
    ExecutionDeadline,
    DeliveryDeadline,
}

impl<'a> Run<'a> {
    fn new(
        core: &'a Arc<Core>,
        attempt: AttemptToken,
        job: Option<Arc<CaseJob>>,
        ttl: Duration,
        machine: Attempt,
    ) -> Self {
        let started = Instant::now();
        // Two beats fit: the loop takes each at once, and a late one is as good as the next.
        let (beats_to, beats) = mpsc::channel(2);
        Self {
            reports: Reports::new(core, attempt.clone()),
            core,
            attempt,
            job,
            ttl,
            machine,
            leased_at: Timestamp::now(),
            started,
            cancel: CancellationToken::new(),
            over: CancellationToken::new(),
            execution: JoinSet::new(),
            refusal: None,
            evidence: None,
            beats,
            beats_to: Some(beats_to),
            deadlines: Deadlines {
                lease: started + ttl + core.config.lease_grace,
                execution: None,
                delivery: None,
            },
        }
    }

    async fn run_to_settlement(&mut self, first: Action) -> Outcome {
        let mut next = Some(first);
        let mut report: Option<BoxFuture<'static, Answer>> = None;
        loop {
            match next.take() {
                Some(Action::Settle(outcome)) => return outcome,
                Some(Action::StartExecution) => self.start(),
                Some(Action::StopExecution(reason)) => {
                    self.core.board.job_stopping(&self.attempt.job_id, reason);
                    self.cancel.cancel();
                    self.deadlines.execution = Some(Instant::now() + STOP_LIMIT);
                }
                Some(action) => {
                    report = Some(self.reports.send(action));
                    if self.core.stop.cancel.is_cancelled() {
                        self.limit_delivery();
                    }
                }
                None => {}
            }
            let wake = self.wait(&mut report).await;
            next = self.woken(wake, &mut report);
        }
    }

    /// Waits for the next thing to happen.
    async fn wait(&mut self, report: &mut Option<BoxFuture<'static, Answer>>) -> Wake {
        let member_may_stop = !self.cancel.is_cancelled() || self.deadlines.delivery.is_none();
        tokio::select! {
            biased;
            () = self.core.stop.cancel.cancelled(), if member_may_stop => Wake::MemberStop,
            Some(done) = self.execution.join_next() => Wake::Executed(done.unwrap_or_else(|error| {
                Err(if error.is_panic() {
                    Fault::internal("the case runner panicked")
                } else {
                    Fault::cancelled("the case did not stop in time and was dropped")
                })
            })),
            answer = async { report.as_mut().expect("BUG: polled only with a report").await },
                if report.is_some() => Wake::Answered(answer),
            Some(beat) = self.beats.recv() => Wake::Beat(beat),
            () = tokio::time::sleep_until(self.deadlines.lease) => Wake::LeaseDeadline,
            () = until(self.deadlines.execution) => Wake::ExecutionDeadline,
            () = until(self.deadlines.delivery) => Wake::DeliveryDeadline,
        }
    }

    /// Turns what happened into an event for the machine, and returns its action.
    fn woken(&mut self, wake: Wake, report: &mut Option<BoxFuture<'static, Answer>>) -> Option<Action> {
        let event = match wake {
            Wake::MemberStop => {
                self.cancel.cancel();
                if report.is_some() {
                    self.limit_delivery();
                } else {
                    // Nothing to deliver yet: the limit is set with the first report.
                    self.deadlines
                        .delivery
                        .get_or_insert(Instant::now() + STOP_LIMIT + LAST_WORDS);
                }
                Event::StopRequested(crate::attempt::StopReason::Member)
            }
            Wake::Executed(outcome) => {
                self.deadlines.execution = None;
                self.executed(outcome)
            }
            Wake::Answered(answer) => {
                *report = None;
                self.reports.note(answer)
            }
            Wake::Beat(beat) => {
                if beat.extended {
                    self.deadlines.lease = beat.sent + self.ttl + self.core.config.lease_grace;
                }
                Event::HeartbeatReply {
                    extended: beat.extended,
                    cancelled: beat.cancelled,
                }
            }
            Wake::LeaseDeadline => {
                // Once is enough: the machine either stops the tree or settles.
                self.deadlines.lease = Instant::now() + STOP_LIMIT + LAST_WORDS;
                Event::RenewalsMissed
            }
            Wake::ExecutionDeadline => {
                self.deadlines.execution = None;
                self.execution.abort_all();
                return None;
            }
            Wake::DeliveryDeadline => {
                self.deadlines.delivery = Some(Instant::now() + LAST_WORDS);
                Event::GiveUp
            }
        };
        self.machine.handle(event)
    }

    /// Gives the report in flight its last deadline.
    fn limit_delivery(&mut self) {
        self.deadlines.delivery = Some(Instant::now() + LAST_WORDS);
    }

    /// Starts the case first, then what runs beside it.
    fn start(&mut self) {
        let job = Arc::clone(self.job.as_ref().expect("BUG: only a readable job is started"));
        let evidence = Evidence::new(
            self.attempt.job_id.clone(),
            self.core.board.clone(),
            self.core.config.work_root.clone(),
        );
        let context = CaseContext {
            host_env: Arc::clone(&self.core.config.host_env),
            work_root: self.core.config.work_root.clone(),
            progress: Arc::new(evidence.clone()),
            services: None,
            containers: None,
            mask: Arc::clone(&self.core.mask),
            cancel: self.cancel.clone(),
        };
        match self.refusal.take() {
            None => {
                evidence.log("▶ Started: running the case on this self-hosted runner");
                self.execution
                    .spawn((self.core.executor)(Arc::clone(&job), context));
            }
            Some(fault) => _ = self.execution.spawn(async move { Err(fault) }),
        }
        hops::passed(&self.core.config.host_env, Hop::Started);
        // Without a run there is no place that evidence could be shown in.
        if job.run_id.is_some() {
            self.reports.pump(evidence.clone());
        }
        if let Some(to) = self.beats_to.take() {
            let beats = Beats {
                core: Arc::clone(self.core),
                attempt: self.attempt.clone(),
                ttl: self.ttl,
                over: self.over.clone(),
                evidence: evidence.clone(),
                to,
            };
            beats.start();
        }
        self.evidence = Some(evidence);
    }

    /// Makes the report out of what the executor returned.
    fn executed(&mut self, outcome: Result<CaseResult, Fault>) -> Event {
        hops::passed(&self.core.config.host_env, Hop::Produced);
        let job = Arc::clone(self.job.as_ref().expect("BUG: only a readable job is started"));
        let span = Span {
            leased: self.leased_at,
            finished: Timestamp::now(),
        };
        let place = &self.core.place;
        let (result, event) = match outcome {
            Ok(mut result) => {
                report::frame(&mut result, place, span);
                (report::fit(result, report::MAX_RESULT_BYTES), Event::Finished)
            }
            Err(fault) => (
                report::failed_result(&job, fault.failure(), place, span),
                Event::Failed,
            ),
        };
        if let Some(evidence) = &self.evidence {
            // Before the report: afterwards the hub refuses it, because the lease has ended.
            evidence.log(&report::closing_line(&result));
        }
        self.reports.result(result);
        event
    }

    fn summary(&self, job: &CaseJob, outcome: Outcome) -> JobSummary {
        let result = self.reports.latest();
        JobSummary {
            job_id: self.attempt.job_id.clone(),
            case_id: job.eval_case.id.clone(),
            run_id: job.run_id.clone(),
            outcome,
            duration: self.started.elapsed(),
            scores: result
                .map(|result| report::summarise(&result.scores))
                .unwrap_or_default(),
            failure: result.and_then(|result| result.failure.clone()),
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
