//! Keeping the system from sleeping, only while there is a reason.

use std::time::Duration;

use tokio::time::Instant;

use super::bus::{Inhibitor, SystemBus};

/// A system that refuses, or that has nobody to ask, is asked again this rarely.
const RETRY: Duration = Duration::from_secs(60);

/// What the person who lists the inhibitors reads (`systemd-inhibit --list`).
const WHY: &str = "a job is running";

/// Holds the system awake, or doesn't.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    held: Option<Inhibitor>,
    not_before: Option<Instant>,
}

impl Awake {
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Takes the hold or lets it go; tells whether it is held now.
    pub(crate) async fn hold(&mut self, wanted: bool, bus: &SystemBus) -> bool {
        if !wanted {
            self.held = None;
            self.not_before = None;
            return false;
        }
        let may_ask = self.not_before.is_none_or(|time| Instant::now() >= time);
        if self.held.is_none() && may_ask {
            self.held = bus.stay_awake(WHY).await;
            self.not_before = Some(Instant::now() + RETRY);
        }
        self.held.is_some()
    }
}
