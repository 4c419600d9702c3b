//! The one-line note that the hub's roster shows for this runner.

use everdict_contracts::{CaseFailure, StatusLevel, clip_status};

use super::state::{ActiveJob, Link};

/// The note for the present state. Never longer than the hub's schema allows: a longer one makes the whole call
/// fail, and with it every later one.
pub(super) fn status(link: &Link, active: &[ActiveJob], note: Option<&str>) -> (String, StatusLevel) {
    let (line, level) = match (active, note) {
        ([], Some(note)) => (note.to_owned(), StatusLevel::Error),
        ([], None) if matches!(link, Link::Connecting) => ("starting".to_owned(), StatusLevel::Info),
        ([], None) => ("idle".to_owned(), StatusLevel::Info),
        ([only], _) => (format!("running: case {}", only.case_id), StatusLevel::Info),
        (several, _) => (format!("running {} job(s)", several.len()), StatusLevel::Info),
    };
    (clip_status(&line), level)
}

/// The note after a failed job.
pub(super) fn failure_note(failure: &CaseFailure) -> String {
    format!(
        "last job failed [{}]: {}",
        failure.class.as_str(),
        failure.message
    )
}
