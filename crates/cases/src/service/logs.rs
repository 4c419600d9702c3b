//! What the members of a topology wrote since a case began, and not a line of the case before it.

use std::collections::BTreeMap;
use std::time::Duration;

use everdict_contracts::ServiceHarness;
use everdict_topology::stores;
use futures_util::future::join_all;
use jiff::Timestamp;

use super::patience::Patience;
use super::port::TopologyUse;

/// Characters of each member's log, the last ones; set by the protocol.
const LOG_CHARS: usize = 8_000;

/// A look at logs that are there already; without it the case goes on.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// A topology that took longer to stand was started for the case: everything in its logs belongs to it.
const WARM_LIMIT: Duration = Duration::from_secs(1);

/// The part of the logs that belongs to one case.
#[derive(Debug)]
pub(crate) struct CaseLogs {
    since: Timestamp,
    /// What others wrote in the second in which the case began: daemons count in whole seconds.
    before: BTreeMap<String, String>,
    /// The topology was started for the case.
    started_here: bool,
}

impl CaseLogs {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        Self {
            since: Timestamp::now(),
            before: BTreeMap::new(),
            started_here: false,
        }
    }

    /// Whether the topology was started for the case, so that everything in its logs belongs to it.
    pub(crate) fn are_all_its_own(&self) -> bool {
        self.started_here
    }

    /// Looks at what is there before the case writes anything.
    pub(crate) async fn skip_what_is_there(
        &mut self,
        topology: &dyn TopologyUse,
        spec: &ServiceHarness,
        patience: &Patience,
    ) {
        let age = Timestamp::now().duration_since(self.since);
        if age.unsigned_abs() > WARM_LIMIT {
            self.started_here = true;
            return;
        }
        let members: Vec<String> = members(spec);
        let second = self.since.as_second();
        let looks = members.iter().map(|member| topology.logs(member, second));
        if let Ok(logs) = patience.within(LOOK_LIMIT).wait(join_all(looks)).await {
            self.before = members
                .into_iter()
                .zip(logs)
                .filter_map(|(member, log)| Some((member, log?)))
                .collect();
        }
    }

    /// The end of what a member wrote for the case.
    pub(crate) async fn read(&self, topology: &dyn TopologyUse, member: &str) -> Option<String> {
        let log = topology.logs(member, self.since.as_second()).await?;
        let before = self.before.get(member).map_or("", String::as_str);
        // Where the start has scrolled away, so have the lines of others.
        let own = log.strip_prefix(before).unwrap_or(&log);
        (!own.trim().is_empty()).then(|| tail(own))
    }
}

pub(crate) fn members(spec: &ServiceHarness) -> Vec<String> {
    let mut names: Vec<String> = spec.services.iter().map(|service| service.name.clone()).collect();
    for dependency in &spec.dependencies {
        let name = stores::kind_name(dependency.store);
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn tail(log: &str) -> String {
    match log.char_indices().rev().nth(LOG_CHARS - 1) {
        Some((start, _)) => log[start..].to_owned(),
        None => log.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_kept_whole_characters_only() {
        let log = "é".repeat(LOG_CHARS + 5);
        assert_eq!(tail(&log).chars().count(), LOG_CHARS);
        assert_eq!(tail("short"), "short");
    }
}
