//! Whether this machine takes jobs now, by its own terms: a pure state machine, and the eyes that it sees with.
//!
//! What is seen flickers: a plug that is moved, a network that changes. A change counts once it has lasted, so nothing
//! flaps. What is seen first counts at once, because there is nothing that it could flap against.

pub(crate) mod awake;
pub(crate) mod bus;
pub(crate) mod eyes;
pub(crate) mod power;
pub(crate) mod slept;

use std::time::Duration;

use jiff::civil::DateTime;

use crate::control::WaitingReason;
use crate::settings::{OnBattery, Terms};

/// Long enough for a plug that is moved to another socket; short enough that a battery isn't spent on a new job.
const HOLD_AFTER: Duration = Duration::from_secs(60);
/// Mains that stay this long are there to stay; a laptop that docks is back at work soon.
const RELEASE_AFTER: Duration = Duration::from_secs(30);

/// Where the power comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Power {
    Mains,
    Battery,
}

/// What the machine looks like at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) power: Power,
    /// Not known counts as not metered.
    pub(crate) metered: Option<bool>,
    /// Whether somebody uses it; not known counts as nobody.
    pub(crate) in_use: Option<bool>,
    /// Free bytes where cases work; not known counts as enough.
    pub(crate) disk_free: Option<u64>,
    /// The clock on the wall here.
    pub(crate) local: DateTime,
}

/// What follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ruling {
    /// Why no new job is taken, strongest first; empty when they are.
    pub(crate) reasons: Vec<WaitingReason>,
    /// Whether running jobs are given back.
    pub(crate) hand_back: bool,
    /// Whether the share of the CPUs is that of a machine in use.
    pub(crate) in_use: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    battery: Settling,
    metered: Settling,
    disk: Settling,
    in_use: Settling,
}

impl Policy {
    /// Takes in what is seen at `now`, a clock that only goes forward.
    pub(crate) fn rule(&mut self, now: Duration, seen: &Seen, terms: &Terms) -> Ruling {
        let on_battery = self.battery.see(now, seen.power == Power::Battery, HOLD_AFTER);
        let metered = self.metered.see(now, seen.metered == Some(true), HOLD_AFTER);
        let short = terms.disk_floor > 0 && seen.disk_free.is_some_and(|free| free < terms.disk_floor);
        // A job that fills the disk is stopped by the next look, not a minute later.
        let disk = self.disk.see(now, short, Duration::ZERO);
        // The person at the keys goes first.
        let in_use = self.in_use.see(now, seen.in_use == Some(true), Duration::ZERO);
        let outside = !terms.hours.contain(seen.local.date(), seen.local.time());
        let battery_counts = on_battery && terms.on_battery != OnBattery::Ignore;
        let reasons = [
            (disk, WaitingReason::Disk),
            (battery_counts, WaitingReason::Battery),
            (metered && terms.wait_on_metered, WaitingReason::Metered),
            (outside, WaitingReason::Hours),
            (in_use && terms.wait_in_use, WaitingReason::InUse),
        ];
        Ruling {
            reasons: reasons
                .into_iter()
                .filter(|(holds, _)| *holds)
                .map(|(_, reason)| reason)
                .collect(),
            hand_back: on_battery && terms.on_battery == OnBattery::HandBack,
            in_use,
        }
    }
}

/// The words for a reason, as they stand after "waiting:".
pub(crate) fn words(reason: WaitingReason) -> &'static str {
    match reason {
        WaitingReason::Disk => "disk low",
        WaitingReason::Battery => "on battery",
        WaitingReason::Metered => "metered network",
        WaitingReason::Hours => "outside working hours",
        WaitingReason::InUse => "in use",
    }
}

/// Something that is on or off, and changes only once the change has lasted.
#[derive(Debug, Default)]
struct Settling {
    settled: Option<bool>,
    /// Since when it is seen other than settled.
    other_since: Option<Duration>,
}

impl Settling {
    fn see(&mut self, now: Duration, seen: bool, rise: Duration) -> bool {
        let settled = *self.settled.get_or_insert(seen);
        if seen == settled {
            self.other_since = None;
            return settled;
        }
        let since = *self.other_since.get_or_insert(now);
        let lasted = now.saturating_sub(since) >= if seen { rise } else { RELEASE_AFTER };
        if lasted {
            self.settled = Some(seen);
            self.other_since = None;
        }
        if lasted { seen } else { settled }
    }
}

#[cfg(test)]
mod tests;
