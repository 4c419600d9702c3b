//! What the tray shows: a pure function of the state, the language and the time.

use everdict_app::Url;
use everdict_app::control::{AppSnapshot, AppState, CapabilityState, CapabilityView, JobView, time_of_day};

use crate::words::Words;

/// Longer texts make a menu wider than the screen.
const MAX_TEXT: usize = 60;

/// The silhouette in the panel; shapes differ as well as colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyph {
    /// A ring.
    Idle,
    /// A ring with an arc.
    Busy,
    /// Two bars.
    Paused,
    /// A ring with a dot: something here needs the person.
    Attention,
    /// A broken ring: this app has no answer of a hub.
    Offline,
}

/// What the tray shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrayModel {
    /// The silhouette.
    pub glyph: Glyph,
    /// The state in words; also the first line of the menu.
    pub tooltip: String,
    /// The menu, top to bottom.
    pub items: Vec<Item>,
}

/// One entry of the menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A text that is no action.
    Line(String),
    /// A rule between groups.
    Separator,
    /// Something to press.
    Press(Action, String),
    /// Something to switch.
    Switch(Action, String, bool),
    /// A menu of its own.
    More(String, Vec<Item>),
}

/// What an entry does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Opens the window.
    Open,
    /// Opens the window, which offers to pair.
    Pair,
    /// Pauses for so many seconds; without a number until resumed.
    Pause(Option<u64>),
    /// Takes jobs again.
    Resume,
    /// Opens the window for a job's log.
    Log(String),
    /// Stops a job.
    Stop(String),
    /// Offers a capability that is off, or stops offering one that is on.
    Capability(String),
    /// Ends the app, once its jobs are done.
    Quit,
    /// Ends the app and its jobs.
    QuitNow,
}

/// How far the app is with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nobody asked for it.
    Working,
    /// It waits for its jobs.
    Leaving,
}

impl TrayModel {
    /// Puts the state into a menu. `now` is in seconds since 1970, as the times of the snapshot are.
    pub fn new(snapshot: &AppSnapshot, stage: Stage, words: &Words, now: i64) -> Self {
        let tooltip = state_line(snapshot, stage, words, now);
        let mut items = vec![Item::Line(tooltip.clone())];
        items.extend(snapshot.active.iter().map(|job| job_item(job, words, now)));
        items.extend([Item::Separator, Item::Press(Action::Open, words.text("open"))]);
        match stage {
            Stage::Leaving => items.push(Item::Press(Action::QuitNow, words.text("quit.now"))),
            Stage::Working => {
                items.extend(wishes(snapshot, words));
                items.push(Item::Separator);
                items.push(quit(snapshot, words));
            }
        }
        Self {
            glyph: glyph(snapshot.state),
            tooltip,
            items,
        }
    }
}

fn glyph(state: AppState) -> Glyph {
    match state {
        AppState::Idle => Glyph::Idle,
        AppState::Running => Glyph::Busy,
        AppState::Paused | AppState::Waiting => Glyph::Paused,
        AppState::Attention => Glyph::Attention,
        // Never shown as ready before a hub has said so.
        AppState::Unpaired | AppState::Offline | AppState::Starting => Glyph::Offline,
    }
}

/// State, hub, and the age of its last answer.
fn state_line(snapshot: &AppSnapshot, stage: Stage, words: &Words, now: i64) -> String {
    if stage == Stage::Leaving {
        return words.text("quit.leaving");
    }
    let hub = hub(snapshot);
    let state = match snapshot.state {
        AppState::Unpaired => words.text("state.unpaired"),
        AppState::Idle => words.text("state.idle"),
        AppState::Running => words.fill("state.running", "count", &snapshot.active.len().to_string()),
        AppState::Paused => match snapshot.paused_until.as_deref().and_then(time_of_day) {
            Some(time) => words.fill("state.pausedUntil", "time", &time),
            None => words.text("state.paused"),
        },
        AppState::Offline => words.fill("state.offline", "hub", hub.as_deref().unwrap_or("?")),
        AppState::Attention => words.fill("state.attention", "text", &snapshot.state_text),
        AppState::Starting => words.text("state.starting"),
        AppState::Waiting => words.fill("state.waiting", "text", &snapshot.state_text),
    };
    let mut parts = vec![cut(&state)];
    if matches!(snapshot.state, AppState::Idle | AppState::Running) {
        parts.extend(hub);
    }
    if !matches!(snapshot.state, AppState::Unpaired | AppState::Paused) {
        parts.extend(
            snapshot
                .last_answer_at
                .as_ref()
                .and_then(|at| age(at, words, now)),
        );
    }
    parts.join(" · ")
}

/// The only hub's name; several have no line of their own.
fn hub(snapshot: &AppSnapshot) -> Option<String> {
    let mut hubs = snapshot.runners.iter().map(|runner| runner.hub.as_str());
    let first = hubs.next()?;
    if hubs.any(|other| other != first) {
        return None;
    }
    let url = Url::parse(first).ok()?;
    Some(everdict_app::hub_url::host(&url))
}

/// In coarse steps: a text that changes each second would be rewritten under the person's pointer.
fn age(at: &str, words: &Words, now: i64) -> Option<String> {
    let (key, count) = match elapsed(at, now)? {
        seconds if seconds < 60 => return Some(words.text("age.now")),
        seconds if seconds < 3600 => ("age.minutes", seconds / 60),
        seconds if seconds < 86_400 => ("age.hours", seconds / 3600),
        seconds => ("age.days", seconds / 86_400),
    };
    Some(words.fill(key, "count", &count.to_string()))
}

fn elapsed(at: &str, now: i64) -> Option<i64> {
    let at = everdict_app::control::epoch_seconds(at)?;
    Some((now - at).max(0))
}

fn job_item(job: &JobView, words: &Words, now: i64) -> Item {
    let minutes = elapsed(&job.started_at, now).unwrap_or(0) / 60;
    let text = words
        .fill("job.line", "minutes", &minutes.to_string())
        .replace("{case}", &cut(&job.case_id));
    Item::More(
        text,
        vec![
            Item::Press(Action::Log(job.id.clone()), words.text("job.open")),
            Item::Press(Action::Stop(job.id.clone()), words.text("job.stop")),
        ],
    )
}

/// What the person may want of the runners.
fn wishes(snapshot: &AppSnapshot, words: &Words) -> Vec<Item> {
    if snapshot.runners.is_empty() {
        return vec![Item::Press(Action::Pair, words.text("pair"))];
    }
    let mut items = vec![if snapshot.paused_until.is_some() {
        Item::Press(Action::Resume, words.text("resume"))
    } else {
        pause(words)
    }];
    let switches: Vec<Item> = snapshot
        .capabilities
        .iter()
        .filter_map(|found| switch(found, words))
        .collect();
    if !switches.is_empty() {
        items.push(Item::More(words.text("capabilities"), switches));
    }
    items
}

fn pause(words: &Words) -> Item {
    Item::More(
        words.text("pause"),
        vec![
            Item::Press(Action::Pause(Some(3600)), words.text("pause.hour")),
            Item::Press(
                Action::Pause(Some(4 * 3600)),
                words.fill("pause.hours", "count", "4"),
            ),
            Item::Press(Action::Pause(None), words.text("pause.open")),
        ],
    )
}

/// A switch for what is on this machine and has a name in the person's language.
fn switch(found: &CapabilityView, words: &Words) -> Option<Item> {
    let name = words.find(&format!("capability.{}", found.name))?;
    let usable = matches!(found.state, CapabilityState::Found | CapabilityState::OffByYou);
    usable.then(|| {
        let action = Action::Capability(found.name.clone());
        Item::Switch(action, name.to_owned(), found.on)
    })
}

fn quit(snapshot: &AppSnapshot, words: &Words) -> Item {
    if snapshot.active.is_empty() {
        return Item::Press(Action::Quit, words.text("quit"));
    }
    Item::More(
        words.text("quit"),
        vec![
            Item::Press(Action::Quit, words.text("quit.after")),
            Item::Press(Action::QuitNow, words.text("quit.now")),
        ],
    )
}

fn cut(text: &str) -> String {
    // A line break in a case's id would break the menu.
    let mut short: String = text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect();
    if text.chars().count() > MAX_TEXT {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;
