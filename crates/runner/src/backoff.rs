//! Jittered, capped, exponential waiting.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Grows from `base` by doubling up to `cap`, each wait drawn from its upper half.
///
/// The jitter keeps a fleet that lost its hub at one moment from returning at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base: base.min(cap),
            cap,
            failures: 0,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// The wait after `failures` earlier ones.
    pub(crate) fn after(&self, failures: u32) -> Duration {
        // 2^20 times any base is beyond every cap in use.
        let full = self.base.saturating_mul(1 << failures.min(20)).min(self.cap);
        jitter(full)
    }
}

/// A random duration between half of `full` and `full`.
pub(crate) fn jitter(full: Duration) -> Duration {
    // A fresh `RandomState` is keyed from the OS; the quality needed here is "differs between machines".
    let random = RandomState::new().build_hasher().finish();
    let fraction = random as f64 / u64::MAX as f64;
    full.mul_f64(0.5 + fraction / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_start_over_after_a_success() {
        let cap = Duration::from_secs(60);
        let mut backoff = Backoff::new(Duration::from_secs(2), cap);
        let waits: Vec<_> = (0..40).map(|_| backoff.next()).collect();
        assert!(waits[0] >= Duration::from_secs(1) && waits[0] <= Duration::from_secs(2));
        assert!(waits.iter().all(|wait| *wait <= cap));
        assert!(waits[39] >= cap / 2);
        backoff.reset();
        assert!(backoff.next() <= Duration::from_secs(2));
    }
}
