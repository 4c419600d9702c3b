//! Which notifications a person gets: few, and each once.
//!
//! [`Folding`] is a pure state machine over the state of the app: times come from outside, and nothing is sent from
//! here. Invariants:
//! - one notice per drain, not per job;
//! - "offline" only after a minute of it, "back" only after an "offline", and of each at most one in ten minutes;
//! - a revoked access, a consent that is asked for, and a trouble are told once, until they are over;
//! - in quiet hours nothing is told; what still holds afterwards is.

mod post;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::control::{AppSnapshot, AppState, JobOutcome, UpdateState};

pub use post::{Post, Posted};

/// A hub that is restarted or a lift that is left is back within this.
const OFFLINE_HOLD: u64 = 60;

/// A hub that answers for so long is back, and not only flapping.
const BACK_HOLD: u64 = 10;

/// After a pair of "offline" and "back", how long the next pair has to wait.
const LINK_PAUSE: u64 = 600;

/// The next job of a queue is leased within a second or two; a queue that stays empty for so long is drained.
const DRAIN_HOLD: u64 = 5;

/// A keyring that is being unlocked, or a start that is under way, settles within this.
const TROUBLE_HOLD: u64 = 10;

/// Asks that come one by one are told together at most this often.
const ASK_PAUSE: u64 = 60;

/// Something that a person is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The queue is empty again.
    Drained(Tally),
    /// The hub hasn't answered for a while.
    Offline {
        /// Its address.
        hub: String,
        /// The code of why, as in the snapshot.
        cause: Option<String>,
    },
    /// It answers again.
    Back {
        /// Its address.
        hub: String,
    },
    /// A hub doesn't know this runner's token any more.
    Revoked {
        /// The label of the runner.
        runner: String,
    },
    /// Jobs wait for consent.
    Asked {
        /// In whose workspace the first of them is.
        workspace: String,
        /// How many wait.
        count: usize,
    },
    /// Something else needs the person.
    Trouble {
        /// Its code, as in the snapshot.
        cause: String,
        /// The sentence for it.
        text: String,
    },
    /// There is news of an update.
    Update {
        /// Which.
        state: UpdateState,
        /// Of which version.
        version: String,
    },
}

/// What jobs came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Passed.
    pub passed: u32,
    /// Failed or timed out.
    pub failed: u32,
    /// Not counted: unmeasured, or the surroundings failed.
    pub uncounted: u32,
}

impl Tally {
    /// Returns how many jobs ended.
    #[must_use]
    pub fn done(self) -> u32 {
        self.passed + self.failed + self.uncounted
    }

    fn add(&mut self, outcome: JobOutcome) {
        let count = match outcome {
            JobOutcome::Passed => &mut self.passed,
            JobOutcome::Failed | JobOutcome::TimedOut => &mut self.failed,
            JobOutcome::Unmeasured | JobOutcome::Infra => &mut self.uncounted,
            // Nothing came of it, and somebody knows already.
            JobOutcome::Cancelled | JobOutcome::HandedBack => return,
        };
        *count += 1;
    }
}

/// A moment, as far as notices depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds of a clock that never goes back.
    pub seconds: u64,
    /// Minutes since midnight on the clock on the wall.
    pub minute_of_day: u16,
}

/// A time of day, every day, in which nothing is told. Minutes since midnight; an end before the start lies on the next day,
/// and the same time twice means no quiet at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuietHours {
    /// From when.
    pub from: u16,
    /// Until when.
    pub to: u16,
}

impl QuietHours {
    fn holds(self, minute: u16) -> bool {
        if self.from <= self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// What the link to the hubs is like, since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// It can't be said: paused, starting, not paired.
    Unknown,
    Answering,
    Offline,
}

/// See the module.
#[derive(Debug)]
pub struct Folding {
    quiet: QuietHours,
    link: (Link, u64),
    hub: String,
    cause: Option<String>,
    told_offline: bool,
    /// When the last pair of "offline" and "back", or the first half of one, was told.
    link_told: Option<u64>,
    tally: Tally,
    running: bool,
    empty_since: u64,
    revoked: BTreeSet<String>,
    revoked_told: BTreeSet<String>,
    asks: Vec<(String, String)>,
    asks_told: BTreeSet<String>,
    ask_told: Option<u64>,
    trouble: Option<(String, String, u64)>,
    trouble_told: Option<String>,
    update: Option<(UpdateState, String)>,
    update_told: Option<(UpdateState, String)>,
}

impl Folding {
    /// Begins with nothing told.
    #[must_use]
    pub fn new(quiet: QuietHours) -> Self {
        Self {
            quiet,
            link: (Link::Unknown, 0),
            hub: String::new(),
            cause: None,
            told_offline: false,
            link_told: None,
            tally: Tally::default(),
            running: false,
            empty_since: 0,
            revoked: BTreeSet::new(),
            revoked_told: BTreeSet::new(),
            asks: Vec::new(),
            asks_told: BTreeSet::new(),
            ask_told: None,
            trouble: None,
            trouble_told: None,
            update: None,
            update_told: None,
        }
    }

    /// Takes other quiet hours from now on.
    pub fn keep_quiet(&mut self, quiet: QuietHours) {
        self.quiet = quiet;
    }

    /// Takes in a job that ended.
    pub fn ended(&mut self, outcome: JobOutcome) {
        self.tally.add(outcome);
    }

    /// Takes in the state.
    pub fn see(&mut self, snapshot: &AppSnapshot, now: Moment) {
        let link = match snapshot.state {
            AppState::Idle | AppState::Running => Link::Answering,
            AppState::Offline => Link::Offline,
            _ => Link::Unknown,
        };
        if link != self.link.0 {
            self.link = (link, now.seconds);
        }
        if link == Link::Offline {
            let away = snapshot
                .runners
                .iter()
                .find(|runner| runner.state == AppState::Offline);
            self.hub = away.map(|runner| runner.hub.clone()).unwrap_or_default();
            self.cause.clone_from(&snapshot.cause);
        }
        let running = !snapshot.active.is_empty();
        if self.running && !running {
            self.empty_since = now.seconds;
        }
        self.running = running;
        let revoked = snapshot
            .runners
            .iter()
            .filter(|runner| runner.cause.as_deref() == Some("revoked"));
        self.revoked = revoked.map(|runner| runner.label.clone()).collect();
        self.revoked_told.retain(|label| self.revoked.contains(label));
        let asks = snapshot.asks.iter();
        self.asks = asks.map(|ask| (ask.id.clone(), ask.workspace.clone())).collect();
        self.asks_told
            .retain(|known| self.asks.iter().any(|(id, _)| id == known));
        self.see_trouble(snapshot, now);
        let update = snapshot.update.as_ref();
        self.update = update
            .filter(|update| update.state != UpdateState::Waiting)
            .map(|update| (update.state, update.version.clone()));
    }

    fn see_trouble(&mut self, snapshot: &AppSnapshot, now: Moment) {
        let cause = snapshot
            .cause
            .as_ref()
            .filter(|cause| snapshot.state == AppState::Attention && *cause != "revoked");
        match (cause, &mut self.trouble) {
            (None, trouble) => {
                *trouble = None;
                self.trouble_told = None;
            }
            (Some(cause), Some((known, text, _))) if known == cause => text.clone_from(&snapshot.state_text),
            (Some(cause), trouble) => {
                *trouble = Some((cause.clone(), snapshot.state_text.clone(), now.seconds));
            }
        }
    }

    /// Returns what is to be told now; each is returned once.
    pub fn due(&mut self, now: Moment) -> Vec<Notice> {
        if self.quiet.holds(now.minute_of_day) {
            return Vec::new();
        }
        let mut due = Vec::new();
        for runner in self.revoked.difference(&self.revoked_told) {
            due.push(Notice::Revoked {
                runner: runner.clone(),
            });
        }
        self.revoked_told.clone_from(&self.revoked);
        due.extend(self.due_ask(now));
        due.extend(self.due_link(now));
        due.extend(self.due_trouble(now));
        if self.tally.done() > 0 && !self.running && since(self.empty_since, now) >= DRAIN_HOLD {
            due.push(Notice::Drained(std::mem::take(&mut self.tally)));
        }
        if let Some((state, version)) = self.update.clone()
            && self.update != self.update_told
        {
            self.update_told.clone_from(&self.update);
            due.push(Notice::Update { state, version });
        }
        due
    }

    /// Tells whether the passing of time alone can make something due; else it takes a change of the state.
    #[must_use]
    pub fn waits(&self) -> bool {
        let link = match self.link.0 {
            Link::Offline => !self.told_offline,
            Link::Answering => self.told_offline,
            Link::Unknown => false,
        };
        let trouble = self.trouble.as_ref();
        link || trouble.is_some_and(|(cause, ..)| self.trouble_told.as_ref() != Some(cause))
            || self.tally.done() > 0
            || self.revoked != self.revoked_told
            || self.asks.iter().any(|(id, _)| !self.asks_told.contains(id))
            || (self.update.is_some() && self.update != self.update_told)
    }

    fn due_ask(&mut self, now: Moment) -> Option<Notice> {
        let (_, workspace) = self.asks.iter().find(|(id, _)| !self.asks_told.contains(id))?;
        if self.ask_told.is_some_and(|at| since(at, now) < ASK_PAUSE) {
            return None;
        }
        let notice = Notice::Asked {
            workspace: workspace.clone(),
            count: self.asks.len(),
        };
        self.ask_told = Some(now.seconds);
        self.asks_told = self.asks.iter().map(|(id, _)| id.clone()).collect();
        Some(notice)
    }

    fn due_link(&mut self, now: Moment) -> Option<Notice> {
        let (link, at) = self.link;
        let lasted = since(at, now);
        let rested = self.link_told.is_none_or(|told| since(told, now) >= LINK_PAUSE);
        match link {
            Link::Offline if !self.told_offline && lasted >= OFFLINE_HOLD && rested => {
                self.told_offline = true;
                self.link_told = Some(now.seconds);
                Some(Notice::Offline {
                    hub: self.hub.clone(),
                    cause: self.cause.clone(),
                })
            }
            Link::Answering if self.told_offline && lasted >= BACK_HOLD => {
                self.told_offline = false;
                self.link_told = Some(now.seconds);
                Some(Notice::Back {
                    hub: self.hub.clone(),
                })
            }
            _ => None,
        }
    }

    fn due_trouble(&mut self, now: Moment) -> Option<Notice> {
        let (cause, text, at) = self.trouble.as_ref()?;
        if self.trouble_told.as_ref() == Some(cause) || since(*at, now) < TROUBLE_HOLD {
            return None;
        }
        self.trouble_told = Some(cause.clone());
        Some(Notice::Trouble {
            cause: cause.clone(),
            text: text.clone(),
        })
    }
}

fn since(at: u64, now: Moment) -> u64 {
    now.seconds.saturating_sub(at)
}
