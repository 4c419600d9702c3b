//! Pairing and revoking runners.

use everdict_contracts::{Fault, PairBody, PairedRunner, RunnerId, RunnerMeta};
use everdict_store::{Outcome, RunnerRow, Write};
use uuid::Uuid;

use crate::auth::{self, Action, Principal};
use crate::clock;
use crate::dispatch::storage;
use crate::peers::News;
use crate::queue::{Member, Owner};
use crate::shared::Shared;

/// Lists the caller's own runners.
pub(crate) fn list(shared: &Shared, principal: &Principal) -> Result<Vec<RunnerMeta>, Fault> {
    let subject = principal.allow(Action::RunnersManage)?;
    Ok(shared.roster.list(&Owner::Personal(subject.clone())))
}

/// Pairs a runner for the caller; the token is in the answer and nowhere else.
pub(crate) async fn pair(
    shared: &Shared,
    principal: &Principal,
    body: PairBody,
) -> Result<PairedRunner, Fault> {
    let subject = principal.allow(Action::RunnersManage)?;
    let token = auth::new_secret("rnr_");
    let row = RunnerRow {
        owner: Owner::Personal(subject.clone()).to_string(),
        id: Uuid::new_v4().to_string(),
        workspace: principal.workspace().to_string(),
        label: body.label,
        os: body.os,
        capabilities: body
            .capabilities
            .unwrap_or_default()
            .into_iter()
            .map(|capability| capability.to_string())
            .collect(),
        token_hash: auth::hash(token.expose()),
        paired_at: clock::now(),
        last_seen_at: None,
        version: None,
        protocol: None,
        paused: None,
    };
    shared
        .store
        .write_telling(
            Write::InsertRunner(row.clone()),
            shared.news(&[News::Paired(row.id.clone())]),
        )
        .await
        .map_err(storage)?;
    let runner = RunnerMeta {
        id: RunnerId::from(row.id.as_str()),
        label: row.label.clone(),
        os: row.os.clone(),
        capabilities: row.capabilities.clone(),
        paired_at: clock::iso(row.paired_at),
        last_seen_at: None,
        version: None,
        protocol: None,
        update_required: None,
        status: None,
        paused: None,
    };
    shared.roster.insert(row);
    Ok(PairedRunner {
        runner,
        token,
        attach_command: None,
        install_command: None,
    })
}

/// Pauses one of the caller's runners for a reason, or ends that. What it runs goes on; its waiting calls are answered at
/// once. The pause is kept over restarts of the hub.
pub(crate) async fn pause(
    shared: &Shared,
    principal: &Principal,
    id: &RunnerId,
    reason: Option<String>,
) -> Result<(), Fault> {
    let subject = principal.allow(Action::RunnersManage)?;
    let owner = Owner::Personal(subject.clone());
    if !shared.roster.holds(&owner, id) {
        return Err(Fault::not_found(format!("no runner {id} of yours")));
    }
    let write = Write::PauseRunner {
        owner: owner.to_string(),
        id: id.to_string(),
        reason: reason.clone(),
    };
    let news = shared.news(&[News::Paused(id.to_string(), reason.clone())]);
    let stored = shared.store.write_telling(write, news).await.map_err(storage)?;
    if stored == Outcome::Refused || !shared.roster.pause(&owner, id, reason) {
        return Err(Fault::not_found(format!("no runner {id} of yours")));
    }
    shared.desk.dismiss(&Member {
        owner,
        runner: id.clone(),
    });
    Ok(())
}

/// Revokes one of the caller's runners; an unknown one is as good as revoked. Its token stops working at
/// once and its waiting calls end without a job; what it runs is requeued when the lease runs out.
pub(crate) async fn revoke(shared: &Shared, principal: &Principal, id: &RunnerId) -> Result<(), Fault> {
    let subject = principal.allow(Action::RunnersManage)?;
    let owner = Owner::Personal(subject.clone());
    let write = Write::DeleteRunner {
        owner: owner.to_string(),
        id: id.to_string(),
        at: clock::now(),
    };
    let news = shared.news(&[News::Revoked(owner.to_string(), id.to_string())]);
    shared.store.write_telling(write, news).await.map_err(storage)?;
    if shared.roster.remove(&owner, id) {
        shared.desk.dismiss(&Member {
            owner,
            runner: id.clone(),
        });
    }
    Ok(())
}
