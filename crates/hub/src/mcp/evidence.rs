//! The tools by which a runner shows a job while it runs.

use std::sync::Arc;

use everdict_contracts::{
    AttemptToken, FsAnswerArgs, FsAnswerReply, FsPollArgs, FsPollReply, REASON_NO_TOKEN, REASON_STALE,
    ReportLogArgs, ReportScreenArgs, ReportTraceArgs, ReportTrackArgs, decode,
};
use everdict_store::{Outcome, SharedWrite, Write};
use serde::Serialize;

use super::tools::{Answer, Refusal, json, runner, token};
use crate::auth::Principal;
use crate::clock;
use crate::desk::lease_of;
use crate::dispatch::storage;
use crate::live::{EVIDENCE_CAP, Kept, LiveRun};
use crate::peers::News;
use crate::queue::{Beat, Token};
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

/// What a holder writes to.
enum Writable {
    /// A run that only this hub writes to.
    Own(String, Arc<LiveRun>),
    /// A run that several hubs write to: whether the lease is current shows when it is written.
    Shared(Token),
}

/// A piece of a run's evidence.
enum Piece {
    Log(String),
    Event(&'static str, String),
}

impl Writable {
    async fn keep(&self, shared: &Shared, piece: Piece) -> Result<Pushed, Refusal> {
        let kept = match self {
            Self::Own(run, live) => match piece {
                Piece::Log(line) => live.log(&shared.store, run, line, shared.config.log_cap).await,
                Piece::Event(kind, body) => live.event(&shared.store, run, kind, body).await,
            },
            Self::Shared(token) => return push(shared, token, piece).await,
        };
        Ok(Pushed::kept(kept.map_err(storage)?))
    }
}

async fn push(shared: &Shared, token: &Token, piece: Piece) -> Result<Pushed, Refusal> {
    let (lease, at) = (lease_of(token), clock::now());
    let (write, news) = match piece {
        Piece::Log(line) => {
            let cap = shared.config.log_cap;
            let news = News::Log(token.job.to_string());
            (SharedWrite::Log { lease, at, line, cap }, vec![news])
        }
        Piece::Event(kind, body) => {
            let (kind, cap) = (kind.to_owned(), EVIDENCE_CAP);
            (
                SharedWrite::Event {
                    lease,
                    at,
                    kind,
                    body,
                    cap,
                },
                Vec::new(),
            )
        }
    };
    let written = shared
        .store
        .write_telling(Write::Shared(write), shared.news(&news))
        .await
        .map_err(storage)?;
    let kept = match written {
        Outcome::Applied => Kept::Yes,
        Outcome::Full => Kept::Full,
        Outcome::Refused => {
            let standing = shared.desk.standing(token).await.map_err(storage)?;
            return Ok(Pushed::refused(REASON_STALE, standing == Beat::Cancelled));
        }
    };
    shared.live.tick(token.job.as_str());
    Ok(Pushed::kept(kept))
}

/// Finds the run that the holder of this lease may write to.
async fn writable(
    shared: &Shared,
    principal: &Principal,
    attempt: Option<AttemptToken>,
) -> Result<Result<Writable, Pushed>, Refusal> {
    let who = runner(principal)?;
    let Some(attempt) = attempt else {
        return Ok(Err(Pushed::refused(REASON_NO_TOKEN, false)));
    };
    let token = token(who, attempt);
    if shared.store.is_shared() {
        return Ok(Ok(Writable::Shared(token)));
    }
    let standing = shared.desk.standing(&token).await.map_err(storage)?;
    if standing != Beat::Extended {
        return Ok(Err(Pushed::refused(REASON_STALE, standing == Beat::Cancelled)));
    }
    let run = token.job.into_string();
    let live = shared.live.find(&shared.store, &run).await.map_err(storage)?;
    Ok(live
        .map(|live| Writable::Own(run, live))
        .ok_or(Pushed::refused(REASON_STALE, false)))
}

pub(super) async fn log(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportLogArgs = decode(args)?;
    let pushed = match writable(shared, principal, args.attempt()).await? {
        Ok(run) => run.keep(shared, Piece::Log(args.line)).await?,
        Err(refused) => refused,
    };
    json(&pushed)
}

pub(super) async fn trace(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportTraceArgs = decode(args)?;
    let mut pushed = match writable(shared, principal, args.attempt()).await? {
        Ok(run) => {
            run.keep(shared, Piece::Event("trace", json(&args.events)?))
                .await?
        }
        Err(refused) => refused,
    };
    pushed.durable = None;
    json(&pushed)
}

pub(super) async fn track(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportTrackArgs = decode(args)?;
    let pushed = match writable(shared, principal, args.attempt()).await? {
        Ok(run) => run.keep(shared, Piece::Event("track", json(&args.item)?)).await?,
        Err(refused) => refused,
    };
    json(&pushed)
}

pub(super) async fn screen(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: ReportScreenArgs = decode(args)?;
    let pushed = match writable(shared, principal, args.attempt()).await? {
        Ok(Writable::Own(_, live)) => {
            live.show(args.frame);
            shown()
        }
        Ok(Writable::Shared(token)) => match shared.desk.standing(&token).await.map_err(storage)? {
            Beat::Extended => {
                let (run, at, frame) = (token.job.to_string(), clock::now(), args.frame);
                let screen = Write::Shared(SharedWrite::Screen { run, at, frame });
                shared.store.write(screen).await.map_err(storage)?;
                shown()
            }
            standing => Pushed::refused(REASON_STALE, standing == Beat::Cancelled),
        },
        Err(refused) => refused,
    };
    json(&pushed)
}

fn shown() -> Pushed {
    Pushed {
        durable: Some(false),
        reason: Some(REASON_FRAME),
        ..Pushed::kept(Kept::Yes)
    }
}

pub(super) async fn fs_poll(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: FsPollArgs = decode(args)?;
    let (job_id, lease_epoch) = (args.job_id, args.lease_epoch);
    let token = token(runner(principal)?, AttemptToken { job_id, lease_epoch });
    json(&match shared.desk.standing(&token).await.map_err(storage)? {
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

pub(super) async fn fs_answer(shared: &Shared, principal: &Principal, args: &str) -> Answer {
    let args: FsAnswerArgs = decode(args)?;
    let (job_id, lease_epoch) = (args.job_id, args.lease_epoch);
    let token = token(runner(principal)?, AttemptToken { job_id, lease_epoch });
    json(&match shared.desk.standing(&token).await.map_err(storage)? {
        Beat::Extended => {
            let elsewhere = shared
                .fs
                .answer(token.job.as_str(), &args.request_id, args.result);
            if let Some(answer) = elsewhere {
                let run = token.job.to_string();
                shared.tell(&News::Answered(run, args.request_id, Box::new(answer)));
            }
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
