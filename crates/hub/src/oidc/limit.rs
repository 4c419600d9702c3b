//! Failures per peer: guessing must not be free.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use everdict_contracts::{ErrorCode, Fault};

/// A person who mistypes, or an app with a wrong clock, fails a few times; ten in a minute is a program.
const FAILURES: u32 = 10;

/// Over which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Peers remembered; beyond it the rest share one count, so that many addresses cost no memory.
const PEERS: usize = 1_024;

#[derive(Debug, Clone, Copy)]
struct Count {
    since: Instant,
    failures: u32,
}

#[derive(Debug, Default)]
struct Counts {
    peers: HashMap<IpAddr, Count>,
    others: Option<Count>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Counts>);

impl Failures {
    /// Refuses a peer that has failed too often.
    pub(super) fn check(&self, peer: IpAddr) -> Result<(), Fault> {
        self.check_at(peer, Instant::now())
    }

    /// Counts a failure.
    pub(super) fn count(&self, peer: IpAddr) {
        self.count_at(peer, Instant::now());
    }

    fn check_at(&self, peer: IpAddr, now: Instant) -> Result<(), Fault> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.peers.get(&key(peer));
        let count = match known {
            Some(count) => Some(*count),
            None if counts.peers.len() >= PEERS => counts.others,
            None => None,
        };
        let Some(left) = count.and_then(|count| count.left(now)) else {
            return Ok(());
        };
        let seconds = left.as_secs() + 1;
        Err(Fault::new(
            ErrorCode::RateLimited,
            format!("too many failed sign-ins from here: try again in {seconds} s"),
        )
        .with_data("retryAfter", seconds))
    }

    fn count_at(&self, peer: IpAddr, now: Instant) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let peer = key(peer);
        if counts.peers.len() >= PEERS && !counts.peers.contains_key(&peer) {
            counts
                .peers
                .retain(|_, count| now.duration_since(count.since) < WINDOW);
        }
        let fresh = Count {
            since: now,
            failures: 0,
        };
        let full = counts.peers.len() >= PEERS && !counts.peers.contains_key(&peer);
        let count = if full {
            counts.others.get_or_insert(fresh)
        } else {
            counts.peers.entry(peer).or_insert(fresh)
        };
        if now.duration_since(count.since) >= WINDOW {
            *count = fresh;
        }
        count.failures += 1;
    }
}

impl Count {
    /// How long the peer stays refused, if it is.
    fn left(self, now: Instant) -> Option<Duration> {
        let left = WINDOW.checked_sub(now.duration_since(self.since))?;
        (self.failures >= FAILURES).then_some(left)
    }
}

/// Who has one IPv6 address has the whole network of 64 bits.
fn key(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn a_peer_that_fails_too_often_waits_and_others_do_not() {
        let failures = Failures::default();
        let start = Instant::now();
        for _ in 0..FAILURES {
            failures.check_at(v4(1), start).unwrap();
            failures.count_at(v4(1), start);
        }
        let refused = failures.check_at(v4(1), start).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        assert_eq!(refused.extra.data.as_ref().unwrap()["retryAfter"], 61);
        failures.check_at(v4(2), start).unwrap();
        failures.check_at(v4(1), start + WINDOW).unwrap_err();
        failures
            .check_at(v4(1), start + WINDOW + Duration::from_secs(1))
            .unwrap();
    }

    #[test]
    fn one_network_of_ipv6_is_one_peer() {
        let at = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, host]);
        let failures = Failures::default();
        let now = Instant::now();
        for host in 0..10 {
            failures.count_at(at(host), now);
        }
        failures.check_at(at(99), now).unwrap_err();
    }

    #[test]
    fn many_peers_cost_no_more_memory_and_are_counted_together() {
        let failures = Failures::default();
        let now = Instant::now();
        for high in 0..8 {
            for low in 0..=255 {
                failures.count_at(IpAddr::from([10, 0, high, low]), now);
            }
        }
        assert_eq!(failures.0.lock().unwrap().peers.len(), PEERS);
        failures.check_at(v4(9), now).unwrap_err();
        failures.count_at(v4(9), now + WINDOW);
        failures.check_at(v4(9), now + WINDOW).unwrap();
        assert_eq!(failures.0.lock().unwrap().peers.len(), 1);
    }
}
