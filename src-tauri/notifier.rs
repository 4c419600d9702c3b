//! Tells people what happened: in their language, as few times as [`Folding`] allows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_app::Url;
use everdict_app::control::{AppEvent, Control, UpdateState};
use everdict_app::notices::{Folding, Moment, Notice, Post, Posted, QuietHours, Tally};

use crate::words::Words;

/// The finest hold-off of the folding is some seconds.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Follows the state to the end of the app, and notes whether notifications reach anybody. What the settings say counts
/// from the next look on.
pub async fn tell(control: Arc<Control>, words: Words) {
    let start = Instant::now();
    let mut folding = Folding::new(QuietHours::default());
    // Nobody who wants no notifications is told that there can be none.
    let mut state = None;
    let mut watch = control.watch();
    loop {
        // Nothing to tell is the usual case, and no reason to wake up.
        let next = if folding.waits() {
            tokio::time::timeout(LOOK_EVERY, watch.next()).await
        } else {
            Ok(watch.next().await)
        };
        let now = moment(start);
        match next {
            Ok(Some(AppEvent::Snapshot { snapshot, .. })) => folding.see(&snapshot, now),
            Ok(Some(AppEvent::Job { job, .. })) => {
                if let Some(outcome) = job.outcome {
                    folding.ended(outcome);
                }
            }
            Ok(None) => return,
            Err(_elapsed) => {}
        }
        let wanted = control.notifications();
        folding.keep_quiet(wanted.unwrap_or_default());
        let due = folding.due(now);
        if wanted.is_none() {
            // What is over by the time that somebody wants to be told is old news.
            continue;
        }
        if state.is_none() {
            note(&control, &mut state, Post.ask().await);
        }
        for notice in due {
            let (title, body) = text(&notice, &words);
            note(&control, &mut state, Post.show(&title, &body).await);
        }
    }
}

fn note(control: &Control, known: &mut Option<Posted>, now: Posted) {
    if *known != Some(now) {
        *known = Some(now);
        control.set_notices(now);
    }
}

fn moment(start: Instant) -> Moment {
    Moment {
        seconds: start.elapsed().as_secs(),
        minute_of_day: everdict_app::control::minute_of_day(),
    }
}

/// Title and body.
fn text(notice: &Notice, words: &Words) -> (String, String) {
    match notice {
        Notice::Drained(tally) => drained(*tally, words),
        Notice::Offline { hub, cause } => {
            let title = words.fill("notice.offline", "hub", &host(hub));
            let why = cause
                .as_deref()
                .and_then(|cause| words.find(&format!("cause.{cause}")));
            let body = words.text("notice.offline.body");
            (why.map_or(title.clone(), |why| format!("{title}: {why}")), body)
        }
        Notice::Back { hub } => (
            words.fill("notice.back", "hub", &host(hub)),
            words.text("notice.back.body"),
        ),
        Notice::Revoked { runner } => (
            words.text("notice.revoked"),
            words.fill("notice.revoked.body", "runner", runner),
        ),
        Notice::Asked { workspace, .. } => (
            words.fill("notice.ask", "workspace", workspace),
            words.text("notice.ask.body"),
        ),
        Notice::Trouble { cause, text } => {
            let text = words.find(&format!("need.{cause}")).unwrap_or(text);
            (words.text("notice.trouble"), text.to_owned())
        }
        Notice::Update { state, version } => {
            let key = match state {
                UpdateState::Waiting => "update.waiting",
                UpdateState::Ready => "update.ready",
                UpdateState::Failed => "update.failed",
                UpdateState::RolledBack => "update.rolledBack",
            };
            (words.text("notice.update"), words.fill(key, "version", version))
        }
    }
}

fn drained(tally: Tally, words: &Words) -> (String, String) {
    let title = match tally.done() {
        1 => words.text("notice.drainedOne"),
        count => words.fill("notice.drained", "count", &count.to_string()),
    };
    let mut body = words
        .fill("notice.drained.body", "passed", &tally.passed.to_string())
        .replace("{failed}", &tally.failed.to_string());
    if tally.uncounted > 0 {
        body.push_str(", ");
        body.push_str(&words.fill("notice.drained.uncounted", "count", &tally.uncounted.to_string()));
    }
    (title, body)
}

fn host(hub: &str) -> String {
    Url::parse(hub).map_or_else(|_| hub.to_owned(), |url| everdict_app::hub_url::host(&url))
}

#[cfg(test)]
mod tests {
    use everdict_exec::HostEnv;

    use super::*;

    fn told(notice: &Notice) -> String {
        let (title, body) = text(notice, &Words::for_session(&HostEnv::default()));
        format!("{title} | {body}")
    }

    #[test]
    fn a_drain_is_said_in_one_line() {
        let tally = Tally {
            passed: 2,
            failed: 1,
            uncounted: 0,
        };
        assert_eq!(told(&Notice::Drained(tally)), "3 jobs done | 2 passed, 1 failed");
        let tally = Tally {
            passed: 0,
            failed: 0,
            uncounted: 1,
        };
        assert_eq!(
            told(&Notice::Drained(tally)),
            "1 job done | 0 passed, 0 failed, 1 not counted"
        );
    }

    #[test]
    fn an_outage_names_the_hub_and_why() {
        let notice = Notice::Offline {
            hub: "https://team.example".into(),
            cause: Some("dns".into()),
        };
        assert!(told(&notice).starts_with("Can't reach team.example: name not found | "));
    }
}
