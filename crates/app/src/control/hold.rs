//! Whether the person wants new jobs held back, and until when.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Longer than any plan for a pause; a longer one is a number in another unit.
const MAX_PAUSE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The person's wish about new jobs. Ends by the clock on the wall, so a machine that slept through it wakes resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "at")]
pub(super) enum Hold {
    /// Take jobs.
    #[default]
    None,
    /// Take none before this.
    Until(Timestamp),
    /// Take none until somebody resumes.
    UntilResumed,
    /// The same, but it counts as a pause only once the running jobs are over.
    AfterJobs,
}

impl Hold {
    /// A pause of so many seconds from `now`; `None` is without end.
    pub(super) fn new(seconds: Option<u64>, now: Timestamp) -> Self {
        let span = match seconds {
            None => return Self::UntilResumed,
            Some(seconds) => Duration::from_secs(seconds).min(MAX_PAUSE),
        };
        now.checked_add(span).map_or(Self::UntilResumed, Self::Until)
    }

    pub(super) fn holds(self, now: Timestamp) -> bool {
        match self {
            Self::None => false,
            Self::Until(end) => now < end,
            Self::UntilResumed | Self::AfterJobs => true,
        }
    }

    /// What is left of it at `now`.
    pub(super) fn at(self, now: Timestamp) -> Self {
        if self.holds(now) { self } else { Self::None }
    }

    /// The text that a window gets.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Until(end) => Some(end.to_string()),
            Self::UntilResumed | Self::AfterJobs => Some("resume".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    #[test]
    fn a_pause_of_an_hour_is_over_after_a_sleep_of_two() {
        let hold = Hold::new(Some(3600), at(0));
        assert!(hold.holds(at(0)));
        assert_eq!(hold.text().unwrap(), at(1).to_string());
        assert!(!hold.holds(at(2)));
        assert_eq!(hold.at(at(2)), Hold::None);
    }

    #[test]
    fn a_pause_without_end_outlives_everything_but_a_resume() {
        let hold = Hold::new(None, at(0));
        assert!(hold.at(at(100_000)).holds(at(100_000)));
        assert_eq!(hold.text().unwrap(), "resume");
    }

    #[test]
    fn a_span_beyond_all_reason_is_cut() {
        assert!(!Hold::new(Some(u64::MAX), at(0)).holds(at(366 * 24)));
    }
}
