//! From the runtime a run names to the queue its job goes to, or the reason why there is none.

use everdict_contracts::{
    CaseJob, ErrorCode, Fault, HarnessSpec, RunnerId, RuntimeTarget, Subject, WorkspaceId,
};

use crate::queue::{CapSet, Member, Owner, QueueKey};
use crate::roster::{Candidate, Roster};

/// Labels named in a remark; more would not be read.
const NAMED: usize = 3;

/// Where a job goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) key: QueueKey,
    /// Why it may have to wait.
    pub(crate) note: Option<String>,
}

/// Finds the queue for a job.
///
/// Somebody else's runner is answered as one that does not exist.
pub(crate) fn route(
    roster: &Roster,
    target: &RuntimeTarget,
    job: &CaseJob,
    needs: CapSet,
    (submitter, workspace): (&Subject, &WorkspaceId),
) -> Result<Route, Fault> {
    let personal = || Owner::Personal(submitter.clone());
    let shared = || Owner::Workspace(workspace.clone());
    match target {
        RuntimeTarget::Personal => pool(roster, &personal(), "self", needs),
        RuntimeTarget::Workspace => pool(roster, &shared(), "self:ws", needs),
        RuntimeTarget::PersonalRunner(id) => pinned(roster, personal(), id, job),
        RuntimeTarget::WorkspaceRunner(id) => pinned(roster, shared(), id, job),
        RuntimeTarget::Other(name) => {
            let text =
                format!("no runtime `{name}` is registered: this hub runs jobs on `self` and `self:<id>`");
            Err(Fault::not_found(text).with_data("runtime", name.as_str()))
        }
    }
}

fn pool(roster: &Roster, owner: &Owner, name: &str, needs: CapSet) -> Result<Route, Fault> {
    let all = roster.candidates(owner);
    if all.is_empty() {
        let text = match owner {
            Owner::Personal(_) => "you have no runner yet: pair one first",
            Owner::Workspace(_) => "this workspace shares no runner yet: pair one for it first",
        };
        return Err(Fault::not_found(text)
            .with_data("resource", "runner")
            .with_data("pool", owner.to_string()));
    }
    let capable: Vec<_> = all.iter().filter(|one| may_run(one, needs)).collect();
    if capable.is_empty() {
        let need: Vec<_> = needs.iter().map(|capability| capability.to_string()).collect();
        let advertised: std::collections::BTreeSet<_> = all
            .iter()
            .flat_map(|one| one.capabilities.iter().cloned())
            .collect();
        let advertised: Vec<_> = advertised.into_iter().collect();
        // The record of a run keeps the words alone, so they name both sides too.
        let text = format!(
            "no runner in the {name} pool has all of what this job needs: {}; they have: {}",
            need.join(", "),
            listed(&advertised)
        );
        return Err(Fault::bad_request(text)
            .with_data("pool", name)
            .with_data("need", need)
            .with_data("advertised", advertised));
    }
    let note = (!capable.iter().any(|one| one.online)).then(|| offline_pool(name, &capable));
    Ok(Route {
        key: QueueKey::pool(owner),
        note,
    })
}

/// A runner that was paired without a word about itself and never called may turn out to be capable.
fn may_run(candidate: &Candidate, needs: CapSet) -> bool {
    let silent = candidate.capabilities.is_empty() && !candidate.online;
    silent || needs.missing_from(candidate.caps()).is_empty()
}

fn offline_pool(name: &str, capable: &[&Candidate]) -> String {
    let labels: Vec<_> = capable.iter().take(NAMED).map(|one| one.label.as_str()).collect();
    let more = capable.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "no runner of the {name} pool is online ({}{more}): the job waits for one",
        labels.join(", ")
    )
}

fn pinned(roster: &Roster, owner: Owner, id: &RunnerId, job: &CaseJob) -> Result<Route, Fault> {
    let found = roster.candidates(&owner).into_iter().find(|one| one.id == *id);
    let Some(runner) = found else {
        let text = match &owner {
            Owner::Personal(_) => "no such runner among yours: only your own can be named",
            Owner::Workspace(_) => "no such runner is shared in this workspace",
        };
        let mut fault = Fault::not_found(text)
            .with_data("runnerId", id.as_str())
            .with_data("resource", "runner");
        fault.extra.runner_id = Some(id.to_string());
        return Err(fault);
    };
    if needs_docker(job) && !runner.capabilities.iter().any(|name| name == "docker") {
        let text = format!(
            "this runner has no docker, which a service harness needs; it has: {}; start Docker there, and the runner \
             offers it within half a minute",
            listed(&runner.capabilities)
        );
        let mut fault = Fault::new(ErrorCode::BadRequest, text)
            .with_data("runnerId", id.as_str())
            .with_data("need", "docker")
            .with_data("have", runner.capabilities.clone());
        fault.extra.runner_id = Some(id.to_string());
        return Err(fault);
    }
    let note = (!runner.online).then(|| {
        let name = if runner.label.is_empty() {
            id.as_str()
        } else {
            &runner.label
        };
        format!("runner \"{name}\" is offline: the job waits for it")
    });
    let member = Member {
        owner,
        runner: id.clone(),
    };
    Ok(Route {
        key: QueueKey::runner(&member),
        note,
    })
}

fn listed(capabilities: &[String]) -> String {
    if capabilities.is_empty() {
        "nothing".to_owned()
    } else {
        capabilities.join(", ")
    }
}

fn needs_docker(job: &CaseJob) -> bool {
    match &job.harness_spec {
        Some(HarnessSpec::Service(service)) => service.services.iter().any(|service| !service.on_host()),
        Some(HarnessSpec::Process(_) | HarnessSpec::Command(_)) | None => false,
    }
}
