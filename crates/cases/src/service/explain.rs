//! Says why a case has no result, with what the topology knows about it.

use std::time::Duration;

use everdict_contracts::{ErrorCode, FailurePlacement, Fault};

use super::aftermath;
use super::marks::Marks;
use super::patience::Patience;
use super::run::Stage;

/// Explaining a failure must not take long: the daemon may be what failed.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(15);

impl Stage<'_> {
    /// The fault of a front door that never said that it was done; `budget` in seconds when the case's own ran out.
    pub(super) async fn out_of_time(&self, words: String, budget: Option<u64>, marks: &Marks) -> Fault {
        let mut fault =
            Fault::new(ErrorCode::HarnessRunFailed, words).with_data("reason", "completion-timeout");
        if let Some(seconds) = budget {
            fault = fault.with_data("budgetSec", seconds);
        }
        fault.extra.placement = Some(FailurePlacement {
            unit: Some(self.plan.door.spec.service.clone()),
            node: None,
            events: Some(marks.words()),
        });
        self.explained(fault).await
    }

    /// Adds what the topology has to say to a fault that it may be to blame for.
    pub(super) async fn explained(&self, mut fault: Fault) -> Fault {
        if fault.code == ErrorCode::Cancelled {
            return fault;
        }
        let patience = Patience::new(&self.ctx.cancel, EXPLAIN_LIMIT);
        if let Some(health) = aftermath::diagnosis(self.topology, &patience).await {
            if !fault.message.contains(&health) {
                fault.message.push_str(&format!("; {health}"));
            }
            fault = fault.with_data("topologyHealth", health);
        }
        let door = &self.plan.door.spec.service;
        match aftermath::log_tail(self.topology, door, self.logs, &patience).await {
            Some(log) if fault.extra.log_tail.is_none() => fault.with_log_tail(log),
            _ => fault,
        }
    }
}
