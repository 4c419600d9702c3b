//! Whether the machine slept since the last look: one of two clocks goes on in sleep, the other stands still.

use std::time::Duration;

/// Below this the difference is the time between two readings, or a machine that was merely slow.
const LEAST: Duration = Duration::from_secs(2);

/// Time since the machine started, sleep included. It only goes forward.
pub(crate) fn since_boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        clock(rustix::time::ClockId::Boottime)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        awake()
    }
}

fn awake() -> Duration {
    clock(rustix::time::ClockId::Monotonic)
}

fn clock(id: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(id);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Remembers how far the clocks were apart.
#[derive(Debug)]
pub(crate) struct SleepClock {
    apart: Duration,
}

impl SleepClock {
    pub(crate) fn start() -> Self {
        Self { apart: apart() }
    }

    /// How long the machine slept since the last call, if it did.
    pub(crate) fn slept(&mut self) -> Option<Duration> {
        self.slept_until(apart())
    }

    fn slept_until(&mut self, apart: Duration) -> Option<Duration> {
        let before = std::mem::replace(&mut self.apart, apart);
        Some(apart.saturating_sub(before)).filter(|slept| *slept >= LEAST)
    }
}

fn apart() -> Duration {
    // The one that is ahead is read second: what passes in between never looks like sleep twice.
    let awake = awake();
    since_boot().saturating_sub(awake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_seen_once_with_its_length() {
        let mut clock = SleepClock {
            apart: Duration::from_secs(100),
        };
        assert_eq!(clock.slept_until(Duration::from_millis(100_300)), None);
        assert_eq!(
            clock.slept_until(Duration::from_millis(3_700_300)),
            Some(Duration::from_secs(3600))
        );
        assert_eq!(clock.slept_until(Duration::from_millis(3_700_300)), None);
    }

    #[test]
    fn the_clocks_of_this_machine_go_forward_and_tell_of_no_sleep_that_was_not() {
        let mut clock = SleepClock::start();
        let first = since_boot();
        assert!(since_boot() >= first);
        assert_eq!(clock.slept(), None);
    }
}
