//! The tools by which a runner shows a job while it runs.

use std::sync::Arc;

use everdict_contracts::{
    AttemptToken, FsAnswerArgs, FsAnswerReply, FsPollArgs, FsPollReply, REASON_NO_TOKEN, REASON_STALE,
    ReportLogArgs, ReportScreenArgs, ReportTraceArgs, ReportTrackArgs, decode,
};
use serde::Serialize;

use super::tools::{Answer, Refusal, json, runner, token};
use crate::auth::Principal;
use crate::dispatch::storage;
use crate::live::{Kept, LiveRun};
use crate::queue::Beat;
use crate::shared::Shared;

/// Why evidence is shown but not kept: its share of the disk is used up.
const REASON_FULL: &str = "this run keeps no more of it";

/// Why a screen is not durable: only the latest one is kept, in memory.
const REASON_FRAME: &str = "screens are shown while the case runs and not recorded";

#[derive(Debug, Serialize)]
struct Pushed {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    durable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// There when the run was cancelled, so that a job that talks hears it before its next heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<bool>,
}

impl Pushed {
    fn kept(kept: Kept) -> Self {
        Self {
            ok: true,
            durable: Some(kept == Kept::Yes),
            reason: (kept == Kept::Full).then_some(REASON_FULL),
            cancelled: None,
        }
    }

    fn refused(reason: &'static str, cancelled: bool) -> Self {
        Self {
            ok: false,
            durable: Some(false),
            reason: Some(reason),
            cancelled: cancelled.then_some(true),
        }
    }
}

/// Finds the run that the holder of this lease may write to.
async fn writable(
    shared: &Shared,
    principal: &Principal,
    attempt: Option<AttemptToken>,
) -> Result<Result<(String, Arc<LiveRun>), Pushed>, Refusal> {
    let who = runner(principal)?;
    let Some(attempt) = attempt else {
        return Ok(Err(Pushed::refused(REASON_NO_TOKEN, false)));
    };
    let token = token(who, attempt);
    let standing = shared.desk.ask(|queue, _| queue.standing(&token));
    if standing != Beat::Extended {
        return Ok(Err(Pushed::refused(REASON_STALE, standing == Beat::Cancelled)));
    }
    let run = token.job.into_string();
    let live = shared.live.find(&shared.store, &run).await.map_err(storage)?;
    Ok(live
        .map(|live| (run, live))
        .ok_or(Pushed::refused(REASON_STALE, false)))
}

pub(super) async fn log(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportLogArgs = decode(args)?;
    let pushed = match writable(shared, principal, args.attempt()).await? {
        Ok((run, live)) => {
            let kept = live
                .log(&shared.store, &run, args.line, shared.config.log_cap)
                .await;
            Pushed::kept(kept.map_err(storage)?)
        }
        Err(refused) => refused,
    };
    json(&pushed)
}

pub(super) async fn trace(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportTraceArgs = decode(args)?;
    let mut pushed = match writable(shared, principal, args.attempt()).await? {
        Ok((run, live)) => {
            let kept = live
                .event(&shared.store, &run, "trace", json(&args.events)?)
                .await;
            Pushed::kept(kept.map_err(storage)?)
        }
        Err(refused) => refused,
    };
    pushed.durable = None;
    json(&pushed)
}

pub(super) async fn track(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportTrackArgs = decode(args)?;
    let pushed = match writable(shared, principal, args.attempt()).await? {
        Ok((run, live)) => {
            let kept = live.event(&shared.store, &run, "track", json(&args.item)?).await;
            Pushed::kept(kept.map_err(storage)?)
        }
        Err(refused) => refused,
    };
    json(&pushed)
}

pub(super) async fn screen(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportScreenArgs = decode(args)?;
    let pushed = match writable(shared, principal, args.attempt()).await? {
        Ok((_, live)) => {
            live.show(args.frame);
            Pushed {
                durable: Some(false),
                reason: Some(REASON_FRAME),
                ..Pushed::kept(Kept::Yes)
            }
        }
        Err(refused) => refused,
    };
    json(&pushed)
}

pub(super) fn fs_poll(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: FsPollArgs = decode(args)?;
    let (job_id, lease_epoch) = (args.job_id, args.lease_epoch);
    let token = token(runner(principal)?, AttemptToken { job_id, lease_epoch });
    json(&match shared.desk.ask(|queue, _| queue.standing(&token)) {
        Beat::Extended => FsPollReply {
            requests: shared.fs.poll(token.job.as_str()),
            reason: None,
        },
        Beat::Cancelled | Beat::Stale => FsPollReply {
            requests: Vec::new(),
            reason: Some(REASON_STALE.to_owned()),
        },
    })
}

pub(super) fn fs_answer(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: FsAnswerArgs = decode(args)?;
    let (job_id, lease_epoch) = (args.job_id, args.lease_epoch);
    let token = token(runner(principal)?, AttemptToken { job_id, lease_epoch });
    json(&match shared.desk.ask(|queue, _| queue.standing(&token)) {
        Beat::Extended => {
            shared
                .fs
                .answer(token.job.as_str(), &args.request_id, args.result);
            FsAnswerReply {
                ok: true,
                reason: None,
            }
        }
        Beat::Cancelled | Beat::Stale => FsAnswerReply {
            ok: false,
            reason: Some(REASON_STALE.to_owned()),
        },
    })
}
