//! SIGINT, SIGTERM and SIGHUP as requests to stop.
//!
//! SIGINT once: drain, finish what runs. Twice: cancel what runs and clean up. Three times: leave at once;
//! the next start sweeps up. SIGTERM, and SIGHUP unless it was ignored at the start (`nohup`): drain with a deadline,
//! then cancel.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// What the person or the system asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Take no new work, finish what runs.
    Drain,
    /// Cancel what runs and clean up.
    Cancel,
    /// Leave now.
    Leave,
}

/// Turns signals into requests, each stronger than the one before.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
    ladder: Ladder,
}

impl Signals {
    /// Starts listening; from here on neither signal ends the process by itself.
    pub(crate) fn listen(term_deadline: Duration) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: (!hang_up_is_ignored())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
            ladder: Ladder {
                level: 0,
                term_deadline,
                cancel_at: None,
            },
        })
    }

    /// Waits for the next request. Cancel safe.
    pub(crate) async fn next(&mut self) -> Stop {
        loop {
            let cancel_at = self.ladder.cancel_at;
            let request = tokio::select! {
                _ = self.interrupt.recv() => Some(self.ladder.interrupted()),
                () = received(self.hang_up.as_mut()) => self.ladder.terminated(Instant::now()),
                _ = self.terminate.recv() => self.ladder.terminated(Instant::now()),
                () = sleep_until(cancel_at.unwrap_or_else(Instant::now)), if cancel_at.is_some() => {
                    self.ladder.deadline_passed()
                }
            };
            if let Some(stop) = request {
                return stop;
            }
        }
    }
}

async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Listening to a signal ends its being ignored, and `nohup` means that it shall be.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        // Without a way to know, the signal is left as it is.
        .is_none_or(|mask| mask & 1 != 0)
}

struct Ladder {
    level: u8,
    term_deadline: Duration,
    cancel_at: Option<Instant>,
}

impl Ladder {
    fn interrupted(&mut self) -> Stop {
        self.level = (self.level + 1).min(3);
        match self.level {
            1 => Stop::Drain,
            2 => {
                self.cancel_at = None;
                Stop::Cancel
            }
            _ => Stop::Leave,
        }
    }

    fn terminated(&mut self, now: Instant) -> Option<Stop> {
        if self.cancel_at.is_none() && self.level < 2 {
            self.cancel_at = Some(now + self.term_deadline);
        }
        if self.level == 0 {
            self.level = 1;
            return Some(Stop::Drain);
        }
        None
    }

    fn deadline_passed(&mut self) -> Option<Stop> {
        self.cancel_at = None;
        (self.level < 2).then(|| {
            self.level = 2;
            Stop::Cancel
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Ladder {
        Ladder {
            level: 0,
            term_deadline: Duration::from_secs(5),
            cancel_at: None,
        }
    }

    #[test]
    fn each_interrupt_is_stronger_than_the_last() {
        let mut ladder = ladder();
        let asked: Vec<Stop> = (0..4).map(|_| ladder.interrupted()).collect();
        assert_eq!(asked, [Stop::Drain, Stop::Cancel, Stop::Leave, Stop::Leave]);
    }

    #[test]
    fn terminate_drains_and_cancels_at_its_deadline() {
        let mut ladder = ladder();
        let now = Instant::now();
        assert_eq!(ladder.terminated(now), Some(Stop::Drain));
        assert_eq!(ladder.cancel_at, Some(now + Duration::from_secs(5)));
        assert_eq!(ladder.terminated(now), None);
        assert_eq!(ladder.deadline_passed(), Some(Stop::Cancel));
        assert_eq!(ladder.interrupted(), Stop::Leave);
    }

    #[test]
    fn terminate_after_an_interrupt_only_adds_the_deadline() {
        let mut ladder = ladder();
        ladder.interrupted();
        assert_eq!(ladder.terminated(Instant::now()), None);
        assert!(ladder.cancel_at.is_some());
        assert_eq!(ladder.interrupted(), Stop::Cancel);
        assert_eq!(ladder.cancel_at, None);
    }
}
