//! What the tray shows: a pure function of the state, the language and the time.

use everdict_app::Url;
use everdict_app::control::{
    AppSnapshot, AppState, AutostartState, CapabilityState, CapabilityView, JobView, NoticesState,
    UpdateState, WaitingReason, time_of_day,
};

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
    /// The state in words, as in the first line of the menu, and whether notifications can't be shown.
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
    /// Takes no new jobs; paused once the running ones are over.
    FinishThenPause,
    /// Takes jobs again.
    Resume,
    /// Opens the window for a job's log.
    Log(String),
    /// Stops a job.
    Stop(String),
    /// Offers a capability that is off, or stops offering one that is on.
    Capability(String),
    /// Starts the app at login, or no longer.
    Autostart,
    /// Closes the window; the app goes on in the tray.
    Stay,
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
        let Head { glyph, line } = head(snapshot, stage, words, now);
        let mut items = vec![Item::Line(line.clone())];
        items.extend(snapshot.active.iter().map(|job| job_item(job, words, now)));
        if stage == Stage::Working {
            items.extend(remarks(snapshot, words).map(Item::Line));
        }
        items.extend([Item::Separator, Item::Press(Action::Open, words.text("open"))]);
        match stage {
            Stage::Leaving => items.push(Item::Press(Action::QuitNow, words.text("quit.now"))),
            Stage::Working => {
                items.extend(link(snapshot, words));
                items.extend(wishes(snapshot, words));
                items.push(Item::Separator);
                items.extend(autostart(snapshot, words));
                items.push(quit(snapshot, words));
            }
        }
        // Without notifications this is the one place that a person sees without opening anything.
        let tooltip = match snapshot.notices {
            NoticesState::Ok => line,
            NoticesState::Denied | NoticesState::Unavailable => {
                format!("{line} · {}", words.text("notices.off"))
            }
        };
        Self {
            glyph,
            tooltip,
            items,
        }
    }
}

/// What stands first: the silhouette and the line of words for it.
struct Head {
    glyph: Glyph,
    line: String,
}

fn head(snapshot: &AppSnapshot, stage: Stage, words: &Words, now: i64) -> Head {
    let glyph = glyph(snapshot);
    if stage == Stage::Leaving {
        let line = words.text("quit.leaving");
        return Head { glyph, line };
    }
    let hub = hub(snapshot);
    let mut parts = vec![cut(&state_word(snapshot, hub.as_deref(), words))];
    if matches!(snapshot.state, AppState::Idle | AppState::Running) && !needs_person(snapshot) {
        parts.extend(hub);
    }
    let aged = [
        AppState::Idle,
        AppState::Running,
        AppState::Offline,
        AppState::Starting,
    ];
    if aged.contains(&snapshot.state) && !needs_person(snapshot) {
        parts.extend(
            snapshot
                .last_answer_at
                .as_ref()
                .and_then(|at| age(at, words, now)),
        );
    }
    let line = parts.join(" · ");
    Head { glyph, line }
}

/// A job that waits for consent needs the person, whatever else is going on.
fn needs_person(snapshot: &AppSnapshot) -> bool {
    !snapshot.asks.is_empty()
}

fn glyph(snapshot: &AppSnapshot) -> Glyph {
    if needs_person(snapshot) {
        return Glyph::Attention;
    }
    match snapshot.state {
        AppState::Idle => Glyph::Idle,
        AppState::Running => Glyph::Busy,
        AppState::Paused | AppState::Waiting => Glyph::Paused,
        AppState::Attention => Glyph::Attention,
        // Never shown as ready before a hub has said so.
        AppState::Unpaired | AppState::Offline | AppState::Starting => Glyph::Offline,
    }
}

/// The state's word with what stands behind it.
fn state_word(snapshot: &AppSnapshot, hub: Option<&str>, words: &Words) -> String {
    if let Some(ask) = snapshot.asks.first() {
        return words.fill("state.ask", "workspace", &ask.workspace);
    }
    match snapshot.state {
        AppState::Unpaired => words.text("state.unpaired"),
        AppState::Idle => words.text("state.idle"),
        AppState::Running => {
            let count = snapshot.active.len().to_string();
            let key = if snapshot.paused_until.is_some() {
                "state.finishing"
            } else {
                "state.running"
            };
            words.fill(key, "count", &count)
        }
        AppState::Paused => match (
            snapshot.paused_until.as_deref().map(time_of_day),
            &snapshot.hub_pause,
        ) {
            (Some(Some(time)), _) => words.fill("state.pausedUntil", "time", &time),
            (None, Some(reason)) => words.fill("state.pausedByHub", "reason", &cut(reason)),
            _ => words.text("state.paused"),
        },
        AppState::Waiting => waiting(snapshot, words).unwrap_or_else(|| words.text("state.waiting")),
        AppState::Offline => {
            let line = words.fill("state.offline", "hub", hub.unwrap_or("?"));
            let why = snapshot
                .cause
                .as_deref()
                .and_then(|cause| words.find(&format!("cause.{cause}")));
            why.map_or(line.clone(), |why| format!("{line}: {why}"))
        }
        AppState::Attention => attention(snapshot, words),
        AppState::Starting => words.text("state.starting"),
    }
}

/// In the person's language where there is a word for it, else in the engine's.
fn attention(snapshot: &AppSnapshot, words: &Words) -> String {
    let cause = snapshot.cause.as_deref().unwrap_or_default();
    if let Some(whole) = words.find(&format!("state.{cause}")) {
        return whole.to_owned();
    }
    let text = words
        .find(&format!("need.{cause}"))
        .unwrap_or(&snapshot.state_text);
    words.fill("state.attention", "text", text)
}

fn waiting(snapshot: &AppSnapshot, words: &Words) -> Option<String> {
    let reason = match snapshot.waiting.as_ref()?.reason {
        WaitingReason::Disk => "waiting.disk",
        WaitingReason::Battery => "waiting.battery",
        WaitingReason::Metered => "waiting.metered",
        WaitingReason::Hours => "waiting.hours",
        WaitingReason::InUse => "waiting.in-use",
    };
    Some(words.fill("state.waitingFor", "reason", &words.text(reason)))
}

/// Lines below the state that say what it doesn't.
fn remarks<'a>(snapshot: &'a AppSnapshot, words: &'a Words) -> impl Iterator<Item = String> + use<'a> {
    let held = waiting(snapshot, words).filter(|_| snapshot.state != AppState::Waiting);
    let update = snapshot.update.as_ref().map(|update| {
        let key = match update.state {
            UpdateState::Waiting => "update.waiting",
            UpdateState::Ready => "update.ready",
            UpdateState::Failed => "update.failed",
            UpdateState::RolledBack => "update.rolledBack",
        };
        words.fill(key, "version", &cut(&update.version))
    });
    // Where the system has no tooltips for tray icons this line is all there is.
    let silent = (snapshot.notices != NoticesState::Ok).then(|| words.text("notices.offLine"));
    held.into_iter().chain(update).chain(silent)
}

/// A pairing link that was opened waits in the window.
fn link(snapshot: &AppSnapshot, words: &Words) -> Option<Item> {
    let hub = Url::parse(&snapshot.deep_link.as_ref()?.hub).ok()?;
    let text = words.fill("link", "hub", &cut(&everdict_app::hub_url::host(&hub)));
    Some(Item::Press(Action::Open, text))
}

fn autostart(snapshot: &AppSnapshot, words: &Words) -> Option<Item> {
    let on = match snapshot.autostart {
        AutostartState::On => true,
        AutostartState::Off => false,
        AutostartState::Unavailable => return None,
    };
    Some(Item::Switch(Action::Autostart, words.text("autostart"), on))
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
    if snapshot.paused_until.is_none() && !snapshot.active.is_empty() {
        let text = words.text("finishThenPause");
        items.push(Item::Press(Action::FinishThenPause, text));
    }
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
            Item::Press(Action::Stay, words.text("quit.stay")),
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
