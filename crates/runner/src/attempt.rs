//! The life of one leased attempt, as a pure state machine: no async, no clock, no I/O.
//!
//! The shell ([`crate::drive`]) turns replies, timers and signals into [`Event`]s and carries out the
//! [`Action`]s. What the machine guarantees, whatever the order of events:
//!
//! - at most one report is in flight, and none after the hub answered one for good;
//! - nothing is reported as valid once the lease is lost;
//! - a stop reason is only ever replaced by a stronger one;
//! - [`Action::Settle`] comes exactly once, and nothing after it.

#[cfg(test)]
mod tests;

use serde::Serialize;

/// Why a running attempt is stopped, weakest first. A stronger reason replaces a weaker one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The member stopped this runner. The hub is told that the case was cancelled.
    Member,
    /// The hub cancelled the attempt. It refuses further reports; one acknowledgement is sent.
    Hub,
    /// The lease belongs to nobody or to another runner. Nothing is sent.
    LeaseLost,
}

/// What is reported at the end of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The result as the case produced it.
    Result,
    /// The result without its trace, after the hub's schema refused the whole.
    Trimmed,
    /// A failed result made from the fault that ended the case.
    Fault,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The executor returned a result.
    Finished,
    /// The executor returned a fault.
    Failed,
    /// The hub answered a heartbeat.
    HeartbeatReply {
        /// The lease runs on.
        extended: bool,
        /// The attempt was cancelled.
        cancelled: bool,
    },
    /// No renewal was answered for longer than the lease can be expected to live.
    RenewalsMissed,
    /// The attempt is to stop.
    StopRequested(StopReason),
    /// The hub took the report (`accepted: true`).
    Accepted,
    /// The hub dropped the report (`accepted: false`): another answer stands, or the lease is not ours.
    Superseded {
        /// The report had been sent before within the same call, without an answer.
        repeated: bool,
    },
    /// The hub refused the report's shape or the call (`isError`).
    Refused,
    /// No usable answer to the report; the hub may have acted on it.
    Unanswered,
    /// There is no more time to deliver anything.
    GiveUp,
}

/// What the shell has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start the executor.
    StartExecution,
    /// Stop the executor's process tree, for this reason.
    StopExecution(StopReason),
    /// Send the report with `submit_job_result`; `tries` earlier sends of it went unanswered.
    Submit {
        /// Which report.
        form: Form,
        /// Earlier sends without an answer; the shell waits accordingly.
        tries: u32,
    },
    /// Send `fail_job`; `tries` as for a submit.
    FailJob {
        /// Earlier sends without an answer.
        tries: u32,
    },
    /// Tell the hub once that the cancelled attempt has stopped; any answer is fine.
    Acknowledge,
    /// The attempt is over.
    Settle(Outcome),
}

/// How an attempt ended, as the hub sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The hub took the report.
    Accepted(Form),
    /// The hub took a `fail_job`.
    FailedJob,
    /// The hub dropped the report. After a lost reply this may be our own earlier send.
    Superseded {
        /// An earlier send of the report had no answer.
        after_lost_reply: bool,
    },
    /// Stopped because the hub cancelled it.
    Cancelled,
    /// Stopped because the lease was lost; nothing was reported.
    LeaseLost,
    /// Nothing the hub would take, or no hub to take it in time.
    Undelivered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping(StopReason),
    Submitting { form: Form, tries: u32 },
    Failing { tries: u32 },
    Acknowledging,
    Settled,
}

/// The state machine. Create it with [`Attempt::leased`], [`Attempt::unreadable`] or [`Attempt::produced`].
#[derive(Debug)]
pub struct Attempt {
    phase: Phase,
    cancel_heard: bool,
    reply_lost: bool,
}

impl Attempt {
    /// A freshly leased job that can be run.
    #[must_use]
    pub fn leased() -> (Self, Action) {
        (Self::in_phase(Phase::Running), Action::StartExecution)
    }

    /// A leased job that can't be read: it is failed without running.
    #[must_use]
    pub fn unreadable() -> (Self, Action) {
        (
            Self::in_phase(Phase::Failing { tries: 0 }),
            Action::FailJob { tries: 0 },
        )
    }

    /// An attempt of an earlier process, whose result is there and was not delivered for all that is known.
    #[must_use]
    pub fn produced() -> (Self, Action) {
        let (form, tries) = (Form::Result, 0);
        (
            Self::in_phase(Phase::Submitting { form, tries }),
            Action::Submit { form, tries },
        )
    }

    const fn in_phase(phase: Phase) -> Self {
        Self {
            phase,
            cancel_heard: false,
            reply_lost: false,
        }
    }

    /// Whether the last action was [`Action::Settle`].
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Settled
    }

    /// Takes one event and says what to do about it, if anything.
    pub fn handle(&mut self, event: Event) -> Option<Action> {
        match event {
            Event::HeartbeatReply { extended, cancelled } => self.heartbeat(extended, cancelled),
            Event::StopRequested(reason) => self.stop(reason),
            Event::RenewalsMissed => self.renewals_missed(),
            Event::Finished => self.executed(Form::Result),
            Event::Failed => self.executed(Form::Fault),
            Event::Accepted | Event::Superseded { .. } | Event::Refused | Event::Unanswered => {
                self.answered(event)
            }
            Event::GiveUp => self.give_up(),
        }
    }

    fn heartbeat(&mut self, extended: bool, cancelled: bool) -> Option<Action> {
        self.cancel_heard |= cancelled;
        if cancelled {
            self.stop(StopReason::Hub)
        } else if extended {
            None
        } else {
            // A report in flight may just have ended the lease itself: its own answer decides.
            self.stop(StopReason::LeaseLost)
        }
    }

    fn stop(&mut self, reason: StopReason) -> Option<Action> {
        match self.phase {
            Phase::Running => {}
            Phase::Stopping(current) if reason > current => {}
            _ => return None,
        }
        self.phase = Phase::Stopping(reason);
        Some(Action::StopExecution(reason))
    }

    fn renewals_missed(&mut self) -> Option<Action> {
        match self.phase {
            Phase::Running | Phase::Stopping(_) => self.stop(StopReason::LeaseLost),
            Phase::Submitting { .. } | Phase::Failing { .. } | Phase::Acknowledging => {
                self.settle(Outcome::LeaseLost)
            }
            Phase::Settled => None,
        }
    }

    fn executed(&mut self, form: Form) -> Option<Action> {
        match self.phase {
            // A member's stop may come too late to change the result; a result that exists is worth reporting.
            Phase::Running | Phase::Stopping(StopReason::Member) => {
                self.phase = Phase::Submitting { form, tries: 0 };
                Some(Action::Submit { form, tries: 0 })
            }
            Phase::Stopping(StopReason::Hub) => {
                self.phase = Phase::Acknowledging;
                Some(Action::Acknowledge)
            }
            Phase::Stopping(StopReason::LeaseLost) => self.settle(Outcome::LeaseLost),
            _ => None,
        }
    }

    fn answered(&mut self, event: Event) -> Option<Action> {
        match (self.phase, event) {
            (Phase::Acknowledging, _) => self.settle(Outcome::Cancelled),
            (Phase::Submitting { form, .. }, Event::Accepted) => self.settle(Outcome::Accepted(form)),
            (Phase::Failing { .. }, Event::Accepted) => self.settle(Outcome::FailedJob),
            (Phase::Submitting { .. } | Phase::Failing { .. }, Event::Superseded { repeated }) => self
                .settle(if self.cancel_heard {
                    Outcome::Cancelled
                } else {
                    Outcome::Superseded {
                        after_lost_reply: self.reply_lost || repeated,
                    }
                }),
            (Phase::Submitting { form, tries }, Event::Unanswered) => {
                self.reply_lost = true;
                let tries = tries.saturating_add(1);
                self.phase = Phase::Submitting { form, tries };
                Some(Action::Submit { form, tries })
            }
            (Phase::Failing { tries }, Event::Unanswered) => {
                self.reply_lost = true;
                let tries = tries.saturating_add(1);
                self.phase = Phase::Failing { tries };
                Some(Action::FailJob { tries })
            }
            (Phase::Submitting { form, .. }, Event::Refused) => Some(self.repair(form)),
            (Phase::Failing { .. }, Event::Refused) => self.settle(Outcome::Undelivered),
            _ => None,
        }
    }

    /// The next smaller report after a refusal: the verdict matters more than its trace.
    fn repair(&mut self, refused: Form) -> Action {
        match refused {
            Form::Result => {
                self.phase = Phase::Submitting {
                    form: Form::Trimmed,
                    tries: 0,
                };
                Action::Submit {
                    form: Form::Trimmed,
                    tries: 0,
                }
            }
            Form::Trimmed | Form::Fault => {
                self.phase = Phase::Failing { tries: 0 };
                Action::FailJob { tries: 0 }
            }
        }
    }

    fn give_up(&mut self) -> Option<Action> {
        match self.phase {
            Phase::Running => self.stop(StopReason::Member),
            Phase::Stopping(_) | Phase::Settled => None,
            Phase::Acknowledging => self.settle(Outcome::Cancelled),
            Phase::Submitting { .. } | Phase::Failing { .. } => self.settle(Outcome::Undelivered),
        }
    }

    fn settle(&mut self, outcome: Outcome) -> Option<Action> {
        self.phase = Phase::Settled;
        Some(Action::Settle(outcome))
    }
}
