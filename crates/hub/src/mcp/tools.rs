//! The tools: who may call them, what they take and what they answer.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{
    AcceptedReply, AttemptToken, DecodeError, FailArgs, Fault, HeartbeatArgs, HeartbeatReply, LeaseArgs,
    LeaseReply, PROTOCOL_VERSION, PairBody, REASON_NO_TOKEN, RevokedReply, RunnerId, RunnerList, SubmitArgs,
    decode,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::evidence;
use crate::auth::Principal;
use crate::dispatch::storage;
use crate::mcp::lease::LeaseCall;
use crate::mcp::wire::ToolReply;
use crate::pairing;
use crate::queue::{Beat, CapSet, Member, Token};
use crate::report;
use crate::shared::{Hubbed, Shared};

/// How a tool call goes on.
pub(crate) enum Called {
    Done(ToolReply),
    /// A lease call: its answer has to be delivered with care.
    Lease(Box<LeaseCall>),
}

/// Where a call comes from.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Arc<Principal>,
    pub(crate) session: String,
}

/// Why a call gets no ordinary answer.
pub(super) enum Refusal {
    Arguments(DecodeError),
    Fault(Fault),
    NotARunner,
    NoSuchTool,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::Arguments(error)
    }
}

pub(super) type Answer = Result<String, Refusal>;

/// Calls a tool. Every refusal is an answer, as clients of the protocol expect.
pub(crate) async fn call(
    shared: &Hubbed,
    caller: &Caller,
    id: &str,
    name: &str,
    args: Option<&RawValue>,
) -> Called {
    let args = args.map_or("{}", RawValue::get);
    if name == "lease_job" {
        return match lease(shared, caller, id, args) {
            Ok(Ok(call)) => Called::Lease(Box::new(call)),
            Ok(Err(reply)) => Called::Done(ToolReply::Json(reply)),
            Err(refusal) => Called::Done(refused(name, &refusal)),
        };
    }
    Called::Done(match quick(shared, caller, name, args).await {
        Ok(reply) => ToolReply::Json(reply),
        Err(refusal) => refused(name, &refusal),
    })
}

async fn quick(shared: &Hubbed, caller: &Caller, name: &str, args: &str) -> Answer {
    let principal = &caller.principal;
    match name {
        "heartbeat_job" => heartbeat(shared, principal, args).await,
        "submit_job_result" => submit(shared, principal, args).await,
        "fail_job" => fail(shared, principal, args).await,
        "report_case_log" => evidence::log(shared, principal, args).await,
        "report_case_trace" => evidence::trace(shared, principal, args).await,
        "report_case_track" => evidence::track(shared, principal, args).await,
        "report_case_screen" => evidence::screen(shared, principal, args).await,
        "poll_case_fs_requests" => evidence::fs_poll(shared, principal, args).await,
        "answer_case_fs_request" => evidence::fs_answer(shared, principal, args).await,
        "list_runners" => json(&RunnerList {
            runners: pairing::list(shared, principal)?,
        }),
        "pair_runner" => {
            let body: PairBody = decode(args)?;
            json(&pairing::pair(shared, principal, body).await?)
        }
        "revoke_runner" => {
            let Revoke { id } = decode(args)?;
            pairing::revoke(shared, principal, &id).await?;
            json(&RevokedReply { id, revoked: true })
        }
        _ => Err(Refusal::NoSuchTool),
    }
}

#[derive(Debug, Deserialize)]
struct Revoke {
    id: RunnerId,
}

pub(super) fn runner(principal: &Principal) -> Result<&Member, Refusal> {
    match principal {
        Principal::Runner { member, .. } => Ok(member),
        Principal::Key { .. } => Err(Refusal::NotARunner),
    }
}

pub(super) fn token(who: &Member, attempt: AttemptToken) -> Token {
    Token {
        job: attempt.job_id,
        epoch: attempt.lease_epoch,
        runner: who.runner.clone(),
    }
}

fn caps(names: Option<&Vec<String>>) -> Option<CapSet> {
    names.map(|names| CapSet::from_names(names))
}

/// Starts a lease call, or answers at once when the runner is too old to get a job.
fn lease(
    shared: &Hubbed,
    caller: &Caller,
    id: &str,
    args: &str,
) -> Result<Result<LeaseCall, String>, Refusal> {
    let args: LeaseArgs = decode(args)?;
    let who = runner(&caller.principal)?;
    shared.store_touch(shared.roster.on_lease(&who.runner, &args));
    if args.is_outdated() {
        let reply = LeaseReply::UpdateRequired {
            server_protocol: Some(PROTOCOL_VERSION),
        };
        return json(&reply).map(Err);
    }
    if let Some(reason) = shared.roster.paused(&who.runner) {
        return Ok(Err(paused(reason)));
    }
    let caps = caps(args.capabilities.as_ref());
    let wait = Duration::from_millis(args.wait_ms.unwrap_or_default().into());
    let open = shared.sessions.call(&caller.session, id);
    Ok(Ok(LeaseCall::start(shared, who.clone(), caps, wait, open)))
}

/// The reply to a runner that is paused.
pub(super) fn paused(reason: String) -> String {
    serde_json::to_string(&LeaseReply::Paused { reason }).expect("BUG: a text is JSON")
}

async fn heartbeat(shared: &Hubbed, principal: &Principal, args: &str) -> Answer {
    let args: HeartbeatArgs = decode(args)?;
    let who = runner(principal)?;
    let touch = shared
        .roster
        .on_heartbeat(&who.runner, args.status.as_deref(), args.status_level);
    shared.store_touch(touch);
    shared.metrics.beat();
    let (beat, reason) = match (args.attempt(), &args.job_id) {
        (Some(attempt), _) => {
            let (token, caps) = (token(who, attempt), caps(args.capabilities.as_ref()));
            let beat = shared.desk.heartbeat(who, &token, caps).await;
            (Some(beat.map_err(storage)?), None)
        }
        (None, Some(_)) => (Some(Beat::Stale), Some(REASON_NO_TOKEN.to_owned())),
        (None, None) => (None, None),
    };
    json(&HeartbeatReply {
        ok: true,
        extended: beat.map(|beat| beat == Beat::Extended),
        cancelled: beat.map(|beat| beat == Beat::Cancelled),
        reason,
        paused: shared.roster.paused(&who.runner),
    })
}

async fn submit(shared: &Hubbed, principal: &Principal, args: &str) -> Answer {
    let args: SubmitArgs = decode(args)?;
    let who = runner(principal)?.clone();
    let token = token(&who, args.attempt.clone());
    let hub = shared.clone();
    let accepted = finish(shared, async move {
        report::accept(&hub, &who, &token, args.result).await
    })
    .await?;
    json(&AcceptedReply {
        job_id: args.attempt.job_id,
        accepted,
    })
}

async fn fail(shared: &Hubbed, principal: &Principal, args: &str) -> Answer {
    let args: FailArgs = decode(args)?;
    let who = runner(principal)?.clone();
    let token = token(&who, args.attempt.clone());
    let hub = shared.clone();
    let accepted = finish(shared, async move {
        report::give_up(&hub, &who, &token, args.message).await
    })
    .await?;
    json(&AcceptedReply {
        job_id: args.attempt.job_id,
        accepted,
    })
}

/// Runs work that must not stop half-way when the caller hangs up.
async fn finish<T: Send + 'static>(
    shared: &Shared,
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    match shared.tasks.spawn(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Fault::internal("the hub failed while it took the report").caused_by(error)),
    }
}

pub(super) fn json<T: Serialize>(value: &T) -> Answer {
    serde_json::to_string(value).map_err(|error| {
        Fault::internal("the answer has no JSON form")
            .caused_by(error)
            .into()
    })
}

fn refused(name: &str, refusal: &Refusal) -> ToolReply {
    ToolReply::Refused(match refusal {
        Refusal::NoSuchTool => format!("MCP error -32602: Tool {name} not found"),
        Refusal::NotARunner => "FORBIDDEN: runner credentials (rnr_ pairing token) required.".to_owned(),
        Refusal::Fault(fault) => self::refusal(fault),
        Refusal::Arguments(error) => {
            let issues = serde_json::json!([{ "message": error.message, "path": segments(&error.path) }]);
            format!("MCP error -32602: Input validation error: Invalid arguments for tool {name}: {issues:#}")
        }
    })
}

/// Prints a fault as tools do: code, message, then the data if there is any.
pub(crate) fn refusal(fault: &Fault) -> String {
    let head = format!("{}: {}", fault.code, fault.message);
    match &fault.extra.data {
        Some(data) => format!("{head}\n{:#}", serde_json::Value::from(data.clone())),
        None => head,
    }
}

/// Splits a path such as `result.trace[0]` the way validation issues list it.
fn segments(path: &str) -> Vec<serde_json::Value> {
    path.split(['.', '['])
        .filter(|part| !part.is_empty())
        .map(|part| match part.strip_suffix(']') {
            Some(index) => index.parse::<u64>().map_or_else(|_| index.into(), Into::into),
            None => part.into(),
        })
        .collect()
}
