//! Two batches side by side.

use std::collections::BTreeMap;

use crate::control::view::{CompareView, JobOutcome, RunView};

/// Compares by the id of the case; the second run of a case in one batch meets the second in the other.
pub(super) fn compare(base: &[RunView], candidate: &[RunView]) -> CompareView {
    let (mut before, now) = (by_case(base), by_case(candidate));
    let mut view = CompareView::default();
    for (case, now) in now {
        match (before.remove(&case).flatten(), now) {
            (Some(before), Some(now)) if before == now => view.same += 1,
            (Some(_), Some(JobOutcome::Passed)) => view.fixed.push(case),
            (Some(JobOutcome::Passed), Some(_)) => view.broken.push(case),
            (Some(_), Some(_)) => view.changed.push(case),
            _ => view.missing.push(case),
        }
    }
    view.missing.extend(before.into_keys());
    view.missing.sort();
    view
}

/// What each case came to; `None` where that says nothing about the case.
fn by_case(rows: &[RunView]) -> BTreeMap<String, Option<JobOutcome>> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut cases = BTreeMap::new();
    for row in rows {
        let times = seen.entry(&row.case_id).or_default();
        *times += 1;
        let name = match *times {
            1 => row.case_id.clone(),
            times => format!("{} ({times})", row.case_id),
        };
        cases.insert(name, row.outcome.filter(|outcome| is_about_the_case(*outcome)));
    }
    cases
}

fn is_about_the_case(outcome: JobOutcome) -> bool {
    match outcome {
        JobOutcome::Passed | JobOutcome::Failed | JobOutcome::TimedOut | JobOutcome::Unmeasured => true,
        JobOutcome::Infra | JobOutcome::Cancelled | JobOutcome::HandedBack => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::view::RunState;

    fn rows(cases: &[(&str, Option<JobOutcome>)]) -> Vec<RunView> {
        let row = |(case, outcome): &(&str, Option<JobOutcome>)| RunView {
            id: String::new(),
            batch: None,
            case_id: (*case).to_owned(),
            harness: "h@1".to_owned(),
            runtime: "self".to_owned(),
            status: RunState::Ended,
            outcome: *outcome,
            score: None,
            submitted_at: String::new(),
            started_at: None,
            ended_at: None,
            runner: None,
        };
        cases.iter().map(row).collect()
    }

    #[test]
    fn each_case_is_in_one_place_and_infra_says_nothing_about_it() {
        use JobOutcome::{Cancelled, Failed, Infra, Passed, TimedOut};
        let base = rows(&[
            ("same", Some(Passed)),
            ("fixed", Some(Failed)),
            ("broken", Some(Passed)),
            ("changed", Some(Failed)),
            ("infra", Some(Passed)),
            ("gone", Some(Passed)),
            ("twice", Some(Failed)),
            ("twice", Some(Passed)),
        ]);
        let candidate = rows(&[
            ("same", Some(Passed)),
            ("fixed", Some(Passed)),
            ("broken", Some(TimedOut)),
            ("changed", Some(TimedOut)),
            ("infra", Some(Infra)),
            ("new", Some(Passed)),
            ("open", None),
            ("stopped", Some(Cancelled)),
            ("twice", Some(Failed)),
            ("twice", Some(Failed)),
        ]);
        let view = compare(&base, &candidate);
        assert_eq!(view.same, 2, "same, and the first of the two");
        assert_eq!(view.fixed, ["fixed"]);
        assert_eq!(view.broken, ["broken", "twice (2)"]);
        assert_eq!(view.changed, ["changed"]);
        assert_eq!(view.missing, ["gone", "infra", "new", "open", "stopped"]);
    }
}
