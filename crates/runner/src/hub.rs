//! The hub's runner tools, typed.

use std::time::Duration;

use everdict_contracts::{
    AcceptedReply, AttemptToken, CaseJob, CaseResult, DecodeError, FailArgs, HeartbeatArgs, HeartbeatReply,
    Lease, LeaseArgs, LeaseReply, PushReply, ReportLogArgs, ReportScreenArgs, ReportTraceArgs,
    ReportTrackArgs, TraceEvent, TrackEntry, decode,
};
use rmcp::model::JsonObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::board::Board;
use crate::session::{CallError, HubSession, Reply};

/// A call that does not wait by design. A quarter of the lease's 120 s, so that a renewal that runs into it twice
/// still leaves time for a third try.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// What a long poll may take beyond its wait: the way there and back, and a hub that is busy.
const POLL_MARGIN: Duration = Duration::from_secs(15);

/// A poll that is held this long on an open session shows that the hub is there; without this the runner would look
/// offline until its first poll ends. Errors come faster, so a hub that fails does not flicker.
const HELD: Duration = Duration::from_millis(200);

/// By then a poll that was called off has ended.
const LAST_WORD: Duration = Duration::from_millis(1_500);
/// A poll that was on its way to the hub when it was called off is told again.
const CALL_OFF_AGAIN: Duration = Duration::from_millis(250);

/// The typed face of a [`HubSession`]. Each answer and each failure shows on the board.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    session: HubSession,
    board: Board,
}

/// What a lease poll brought.
pub(crate) enum Poll {
    Leased(Box<Leased>),
    /// A job that can't be read; it is failed by its token.
    Unreadable {
        attempt: AttemptToken,
        ttl: Duration,
        why: String,
    },
    Empty,
    UpdateRequired,
    /// The hub gives this machine no jobs for now.
    Paused,
}

/// A lease with its job.
pub(crate) struct Leased {
    pub(crate) attempt: AttemptToken,
    pub(crate) job: CaseJob,
    pub(crate) ttl: Duration,
}

/// The hub's answer to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) accepted: bool,
    /// The report went out twice; the first one may be what stands.
    pub(crate) repeated: bool,
}

/// How an evidence push went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    Taken,
    /// The lease is not ours, or the job has no run to show evidence in.
    Refused,
    /// The hub will never take this one.
    Unreadable,
    Unanswered,
}

impl Hub {
    pub(crate) fn new(session: HubSession, board: Board) -> Self {
        Self { session, board }
    }

    /// Connects anew; calls in flight are left to their time-outs.
    pub(crate) fn start_over(&self) {
        self.session.start_over();
    }

    pub(crate) async fn close(&self) {
        self.session.close().await;
    }

    pub(crate) async fn lease(&self, args: &LeaseArgs) -> Result<Poll, CallError> {
        let wait = Duration::from_millis(u64::from(args.wait_ms.unwrap_or(0)));
        let mut call = std::pin::pin!(self.call_unseen::<LeaseReply>("lease_job", args, wait + POLL_MARGIN));
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut call => break outcome,
                () = tokio::time::sleep(HELD) => if self.session.is_open() {
                    self.board.answered();
                    break call.await;
                }
            }
        };
        if let Ok((LeaseReply::UpdateRequired { server_protocol }, _)) = &outcome {
            self.board.update_required(*server_protocol);
            return Ok(Poll::UpdateRequired);
        }
        if matches!(outcome, Err(CallError::CalledOff)) {
            return Ok(Poll::Empty);
        }
        self.show(&outcome);
        let reply = outcome?.0;
        self.board.hub_paused(match &reply {
            LeaseReply::Paused { reason } => Some(reason),
            _ => None,
        });
        match reply {
            LeaseReply::Leased(lease) => open(lease),
            LeaseReply::Paused { .. } => Ok(Poll::Paused),
            LeaseReply::Idle | LeaseReply::UpdateRequired { .. } => Ok(Poll::Empty),
        }
    }

    /// Calls off a poll that waits, and hears it out: a job that was handed to it in that moment is not lost.
    pub(crate) async fn last_word(
        &self,
        mut poll: std::pin::Pin<&mut impl Future<Output = Result<Poll, CallError>>>,
    ) -> Result<Poll, CallError> {
        let deadline = Instant::now() + LAST_WORD;
        // Without a session nothing waits at the hub.
        while self.session.is_open() && Instant::now() < deadline {
            self.session.call_off_polls();
            tokio::select! {
                biased;
                polled = &mut poll => return polled,
                () = tokio::time::sleep(CALL_OFF_AGAIN) => {}
            }
        }
        Ok(Poll::Empty)
    }

    pub(crate) async fn heartbeat(&self, args: &HeartbeatArgs) -> Result<HeartbeatReply, CallError> {
        let reply: HeartbeatReply = self.call("heartbeat_job", args, CALL_TIMEOUT).await?;
        self.board.hub_paused(reply.paused.as_ref());
        Ok(reply)
    }

    pub(crate) async fn submit(
        &self,
        attempt: &AttemptToken,
        result: &CaseResult,
    ) -> Result<Verdict, CallError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Args<'a> {
            #[serde(flatten)]
            attempt: &'a AttemptToken,
            result: &'a CaseResult,
        }
        let args = Args { attempt, result };
        self.report("submit_job_result", &args).await
    }

    pub(crate) async fn fail(&self, attempt: &AttemptToken, message: &str) -> Result<Verdict, CallError> {
        let args = FailArgs {
            attempt: attempt.clone(),
            message: message.to_owned(),
        };
        self.report("fail_job", &args).await
    }

    async fn report(&self, tool: &'static str, args: &impl Serialize) -> Result<Verdict, CallError> {
        let (reply, repeated): (AcceptedReply, bool) = self.call_noting(tool, args, CALL_TIMEOUT).await?;
        Ok(Verdict {
            accepted: reply.accepted,
            repeated,
        })
    }

    pub(crate) async fn push_log(&self, attempt: &AttemptToken, line: &str) -> Push {
        let args = ReportLogArgs::new(attempt, line.to_owned());
        self.push("report_case_log", &args).await
    }

    pub(crate) async fn push_track(&self, attempt: &AttemptToken, item: &TrackEntry) -> Push {
        let args = ReportTrackArgs::new(attempt, item.clone());
        self.push("report_case_track", &args).await
    }

    pub(crate) async fn push_frame(&self, attempt: &AttemptToken, frame: &str) -> Push {
        let args = ReportScreenArgs::new(attempt, frame.to_owned());
        self.push("report_case_screen", &args).await
    }

    pub(crate) async fn push_trace(&self, attempt: &AttemptToken, events: &[TraceEvent]) -> Push {
        let args = ReportTraceArgs::new(attempt, events.to_vec());
        self.push("report_case_trace", &args).await
    }

    async fn push(&self, tool: &'static str, args: &impl Serialize) -> Push {
        match self.call::<PushReply>(tool, args, CALL_TIMEOUT).await {
            Ok(PushReply { ok: true, .. }) => Push::Taken,
            Ok(_) => Push::Refused,
            Err(CallError::Refused { .. }) => Push::Unreadable,
            // A body the hub or a proxy finds too large, or finds wrong, is refused every time it is sent.
            Err(CallError::Unreachable {
                cause: crate::session::UnreachableCause::Http(400 | 413 | 422),
                ..
            }) => Push::Unreadable,
            Err(_) => Push::Unanswered,
        }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        args: &impl Serialize,
        time_out: Duration,
    ) -> Result<T, CallError> {
        let (reply, _repeated) = self.call_noting(tool, args, time_out).await?;
        Ok(reply)
    }

    /// The reply, and whether the call went out twice.
    async fn call_noting<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        args: &impl Serialize,
        time_out: Duration,
    ) -> Result<(T, bool), CallError> {
        let outcome = self.call_unseen(tool, args, time_out).await;
        self.show(&outcome);
        outcome
    }

    fn show<T>(&self, outcome: &Result<T, CallError>) {
        match outcome {
            // A refusal is an answer: the hub is there. What it means is the caller's business.
            Ok(_) | Err(CallError::Refused { .. }) => self.board.answered(),
            Err(error) => self.board.failed(error),
        }
    }

    /// A call whose outcome does not show on the board.
    async fn call_unseen<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        args: &impl Serialize,
        time_out: Duration,
    ) -> Result<(T, bool), CallError> {
        let Reply { text, repeated } = self.call_raw(tool, args, time_out).await?;
        match decode(text.as_str()) {
            Ok(reply) => Ok((reply, repeated)),
            Err(error) => Err(CallError::Malformed {
                detail: format!("reply to {tool}: {error}"),
            }),
        }
    }

    async fn call_raw(
        &self,
        tool: &'static str,
        args: &impl Serialize,
        time_out: Duration,
    ) -> Result<Reply, CallError> {
        let arguments = match serde_json::to_value(args) {
            Ok(Value::Object(object)) => object,
            Ok(_) => JsonObject::new(),
            Err(error) => {
                // Only a result with a number that JSON can't carry; the caller falls back to a smaller one.
                return Err(CallError::Refused {
                    text: format!("MCP error -32602: not sent: {error}"),
                });
            }
        };
        self.session.call(tool, arguments, time_out).await
    }
}

fn open(lease: Lease) -> Result<Poll, CallError> {
    let ttl = Duration::from_millis(lease.ttl_ms());
    let read = lease.case_job();
    let attempt = lease.attempt.ok_or_else(|| CallError::Malformed {
        detail: "the lease carries no attempt token: this hub is older than protocol 2".to_owned(),
    })?;
    Ok(match read {
        Ok(job) => Poll::Leased(Box::new(Leased { attempt, job, ttl })),
        Err(error) => Poll::Unreadable {
            attempt,
            ttl,
            why: malformed(&error),
        },
    })
}

/// The message of a `fail_job` for a job that can't be read: where, what, and whether an update may help.
fn malformed(error: &DecodeError) -> String {
    let hint = if error.is_version_skew() {
        " — the hub may speak a newer protocol than this runner; update the runner"
    } else {
        ""
    };
    format!("malformed job: {error}{hint}")
}
