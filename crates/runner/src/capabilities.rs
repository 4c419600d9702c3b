//! What this machine can do, found out without starting a process wherever a file or a socket answers.

mod docker;
mod probes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::Capability;
use everdict_exec::HostEnv;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the probes run again. A member who starts Docker sees it offered within a cup of coffee, and five
/// file look-ups with one local socket in 15 s cost nothing that shows.
const REPROBE_EVERY: Duration = Duration::from_secs(15);

/// The capabilities that this build can honour. What is missing here is probed and shown, never offered: a
/// service topology, a container image, a browser or a desktop case would be leased only to fail.
const USABLE: [Capability; 6] = [
    Capability::Git,
    Capability::OsWindows,
    Capability::OsMacos,
    Capability::Gpu,
    Capability::CodexLogin,
    Capability::ClaudeLogin,
];

/// Whether a capability is offered to the hub, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    /// Sent with every lease.
    Offered,
    /// The machine does not have it.
    Absent,
    /// The machine has it, and this build has no use for it yet.
    NotInThisBuild,
    /// The member switched it off.
    SwitchedOff,
}

/// One capability with the reason for what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityStatus {
    /// Which capability.
    pub capability: Capability,
    /// Whether it is offered.
    pub offer: Offer,
    /// What the probe saw: a path, an address, or what was missing. One line.
    pub reason: String,
}

/// The outcome of one round of probes, in the order of the protocol's vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct CapabilityReport {
    /// One entry per capability that a runner can have.
    pub entries: Vec<CapabilityStatus>,
}

impl CapabilityReport {
    /// The capabilities to send with a lease, in the order of the vocabulary.
    #[must_use]
    pub fn offered(&self) -> Vec<Capability> {
        self.entries
            .iter()
            .filter(|entry| entry.offer == Offer::Offered)
            .map(|entry| entry.capability)
            .collect()
    }
}

/// Probes this machine once. Starts no process and waits at most a second, for the Docker daemon.
///
/// `switched_off` are capabilities that the member does not want to offer.
pub async fn probe(host: &HostEnv, switched_off: &BTreeSet<Capability>) -> CapabilityReport {
    let docker = docker::ping(host).await;
    let entries = probes::all(host, docker)
        .into_iter()
        .map(|(capability, found)| {
            let (present, reason) = match found {
                Ok(reason) => (true, reason),
                Err(reason) => (false, reason),
            };
            let offer = if !present {
                Offer::Absent
            } else if switched_off.contains(&capability) {
                Offer::SwitchedOff
            } else if USABLE.contains(&capability) {
                Offer::Offered
            } else {
                Offer::NotInThisBuild
            };
            CapabilityStatus {
                capability,
                offer,
                reason,
            }
        })
        .collect();
    CapabilityReport { entries }
}

/// Probes again and again until `stop`, and publishes each change.
pub(crate) async fn keep_probing(
    host: Arc<HostEnv>,
    mut switched_off: watch::Receiver<BTreeSet<Capability>>,
    publish: impl Fn(CapabilityReport),
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            // A member's switch takes effect now, not at the next round.
            changed = switched_off.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(REPROBE_EVERY) => {}
        }
        let off = switched_off.borrow_and_update().clone();
        publish(probe(&host, &off).await);
    }
}
