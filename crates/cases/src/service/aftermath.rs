//! What the members of a topology have to say when a case is over.

use std::time::Duration;

use everdict_contracts::{InfraEvent, InfraScope, TraceEvent};
use everdict_topology::runtime::MemberStatus;
use futures_util::future::join_all;

use super::logs::CaseLogs;
use super::marks::Marks;
use super::patience::Patience;
use super::port::TopologyUse;

/// Members that are told of; set by the protocol.
const MAX_MEMBERS: usize = 20;

/// A daemon that doesn't answer must not hold up a result that is already there.
const LIMIT: Duration = Duration::from_secs(10);

/// How the members are, then what they wrote since the case began. Cancelled or late, it is what came by then.
pub(crate) async fn roster_and_logs(
    topology: &dyn TopologyUse,
    logs: &CaseLogs,
    marks: &Marks,
    patience: &Patience,
) -> Vec<TraceEvent> {
    let patience = patience.within(LIMIT);
    let Ok(mut members) = patience.wait(topology.members()).await else {
        return Vec::new();
    };
    members.truncate(MAX_MEMBERS);
    let mut events: Vec<_> = members.iter().map(|member| marks.event(status(member))).collect();
    let reads = members.iter().map(|member| logs.read(topology, &member.name));
    if let Ok(logs) = patience.wait(join_all(reads)).await {
        let told = members
            .iter()
            .zip(logs)
            .filter_map(|(member, log)| Some((member, log?)));
        events.extend(told.map(|(member, log)| marks.event(of(member, "logs", log))));
    }
    events
}

/// The end of one member's log, for a failure.
pub(crate) async fn log_tail(
    topology: &dyn TopologyUse,
    member: &str,
    logs: &CaseLogs,
    patience: &Patience,
) -> Option<String> {
    patience
        .within(LIMIT)
        .wait(logs.read(topology, member))
        .await
        .ok()
        .flatten()
}

/// What is wrong with the topology, for a failure.
pub(crate) async fn diagnosis(topology: &dyn TopologyUse, patience: &Patience) -> Option<String> {
    patience
        .within(LIMIT)
        .wait(topology.diagnose())
        .await
        .ok()
        .flatten()
}

fn status(member: &MemberStatus) -> InfraEvent {
    let state = if member.running { "running" } else { "ended" };
    let mut message = format!("{}/{} {state}", member.role, member.name);
    if let Some(trouble) = &member.trouble {
        message.push_str(&format!(", {trouble}"));
    }
    of(member, state, message)
}

fn of(member: &MemberStatus, event: &str, message: String) -> InfraEvent {
    InfraEvent {
        event: Some(event.to_owned()),
        service: Some(member.name.clone()),
        ..InfraEvent::new(InfraScope::Service, message)
    }
}
