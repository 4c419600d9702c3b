//! What an earlier process of this runner left unfinished is brought to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::attempt::{Action, Attempt, Outcome};
use crate::drive::Reports;
use crate::journal::Orphan;
use crate::runner::Core;

/// A runner that is told to leave right after its start still delivers what it found, if the hub is there.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Delivers the results that the hub has not taken, and closes the attempts that have none: the hub gives their jobs
/// out again when the leases end. Ends soon after the runner's
/// work at the latest; what is not delivered by then stays.
pub(crate) async fn replay(core: &Arc<Core>) {
    let mut deliveries = JoinSet::new();
    for orphan in core.journal.orphans().await {
        if orphan.result.is_some() {
            deliveries.spawn(deliver(Arc::clone(core), orphan));
        } else {
            tracing::info!(
                case = %orphan.words.case_id,
                leased = %orphan.words.leased_at,
                "an attempt was cut short by the end of its runner; the hub gives the job out again"
            );
            orphan.entry.settle().await;
        }
    }
    let all = async { while deliveries.join_next().await.is_some() {} };
    let end = async {
        core.stop.cancel.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        biased;
        () = all => {}
        () = end => {}
    }
}

async fn deliver(core: Arc<Core>, orphan: Orphan) {
    let Orphan {
        entry,
        attempt,
        words,
        result,
    } = orphan;
    let Some(result) = result else { return };
    let mut reports = Reports::kept(&core, attempt, result);
    let (mut machine, first) = Attempt::produced();
    let mut next = Some(first);
    let outcome = loop {
        match next {
            Some(Action::Settle(outcome)) => break outcome,
            Some(action) => {
                let answer = reports.send(action).await;
                next = machine.handle(reports.note(answer));
            }
            None => return,
        }
    };
    tracing::info!(case = %words.case_id, run = ?words.run_id, ?outcome, "a result from before the last start was reported");
    core.board.job_delivered(outcome);
    if outcome != Outcome::Undelivered {
        entry.settle().await;
    }
}
