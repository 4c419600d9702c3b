//! What this machine can do, found out without starting a process.

mod probes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::Capability;
use everdict_exec::HostEnv;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the probes run again: a handful of file look-ups in 15 s costs nothing that shows. Whoever watches the
/// container engine tells of its changes at once.
const REPROBE_EVERY: Duration = Duration::from_secs(15);

/// How long the first look waits for word of the container engine. A live one answers in milliseconds; one that is off
/// or asleep must not hold up the jobs that don't need it.
const ENGINE_WORD_LIMIT: Duration = Duration::from_secs(2);

/// The capabilities that this build can honour. What is missing here is probed and shown, never offered: a desktop case
/// would be leased only to fail.
const USABLE: [Capability; 8] = [
    Capability::Git,
    Capability::Docker,
    Capability::Browser,
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
    /// The machine has it, and takes no job for it now: the disk is low.
    HeldBack,
}

/// What the container engine can do for cases now. The text is one line for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContainerOffer {
    /// Not known yet.
    #[default]
    Unknown,
    /// It answers: where, and what it is.
    Ready(String),
    /// It answers, and yet takes no case: why.
    HeldBack(String),
    /// None answers: why.
    Absent(String),
}

impl ContainerOffer {
    /// Whether its capabilities are there, and the reason.
    fn found(&self) -> (Offer, String) {
        match self {
            Self::Unknown => (
                Offer::Absent,
                "the container engine has not answered yet".to_owned(),
            ),
            Self::Ready(where_) => (Offer::Offered, where_.clone()),
            Self::HeldBack(why) => (Offer::HeldBack, why.clone()),
            Self::Absent(why) => (Offer::Absent, why.clone()),
        }
    }
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

    /// [`Self::offered`] as the wire has it.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let offered = self.offered().into_iter();
        offered.map(|capability| capability.as_str().to_owned()).collect()
    }
}

/// Probes this machine once; starts no process and waits for nothing.
///
/// `switched_off` are capabilities that the member does not want to offer.
#[must_use]
pub fn probe(
    host: &HostEnv,
    containers: &ContainerOffer,
    switched_off: &BTreeSet<Capability>,
) -> CapabilityReport {
    let entries = probes::all(host, containers)
        .into_iter()
        .map(|(capability, offer, reason)| {
            let offer = match offer {
                Offer::Offered if switched_off.contains(&capability) => Offer::SwitchedOff,
                Offer::Offered if !USABLE.contains(&capability) => Offer::NotInThisBuild,
                other => other,
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

/// What decides the offer beside the machine itself.
pub(crate) struct Inputs {
    pub(crate) host: Arc<HostEnv>,
    pub(crate) switched_off: watch::Receiver<BTreeSet<Capability>>,
    pub(crate) containers: Option<watch::Receiver<ContainerOffer>>,
}

impl Inputs {
    /// The first look, once the container engine has answered or has had its time.
    pub(crate) async fn first(&mut self) -> CapabilityReport {
        if let Some(containers) = &mut self.containers {
            let known = containers.wait_for(|offer| *offer != ContainerOffer::Unknown);
            // Late or gone: then it is not there yet, which the report says.
            let _ = tokio::time::timeout(ENGINE_WORD_LIMIT, known).await;
        }
        self.look()
    }

    fn look(&mut self) -> CapabilityReport {
        let off = self.switched_off.borrow_and_update().clone();
        let containers = match &mut self.containers {
            Some(containers) => containers.borrow_and_update().clone(),
            None => ContainerOffer::Absent("this runner was started without a container engine".to_owned()),
        };
        probe(&self.host, &containers, &off)
    }

    /// Looks again and again until `stop`, and publishes what is seen.
    pub(crate) async fn keep_looking(mut self, publish: impl Fn(CapabilityReport), stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                // A member's switch and the engine's coming and going take effect now, not at the next round.
                changed = self.switched_off.changed() => if changed.is_err() { return },
                () = changed(&mut self.containers) => {}
                () = tokio::time::sleep(REPROBE_EVERY) => {}
            }
            publish(self.look());
        }
    }
}

async fn changed(containers: &mut Option<watch::Receiver<ContainerOffer>>) {
    if let Some(receiver) = containers
        && receiver.changed().await.is_ok()
    {
        return;
    }
    // Nobody watches the engine any more.
    *containers = None;
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(containers: &ContainerOffer, off: &[Capability], wanted: Capability) -> CapabilityStatus {
        let off = off.iter().copied().collect();
        let report = probe(&HostEnv::default(), containers, &off);
        report
            .entries
            .into_iter()
            .find(|entry| entry.capability == wanted)
            .unwrap()
    }

    #[test]
    fn docker_and_browser_follow_the_engine_and_the_member() {
        let ready = ContainerOffer::Ready("here".to_owned());
        let low = ContainerOffer::HeldBack("disk low".to_owned());
        let gone = ContainerOffer::Absent("nobody answers".to_owned());
        for capability in [Capability::Docker, Capability::Browser] {
            assert_eq!(offer(&ready, &[], capability).offer, Offer::Offered);
            assert_eq!(offer(&ready, &[capability], capability).offer, Offer::SwitchedOff);
            assert_eq!(offer(&low, &[], capability).offer, Offer::HeldBack);
            assert_eq!(offer(&low, &[], capability).reason, "disk low");
            assert_eq!(offer(&gone, &[capability], capability).offer, Offer::Absent);
            assert_eq!(
                offer(&ContainerOffer::Unknown, &[], capability).offer,
                Offer::Absent
            );
        }
    }

    #[tokio::test]
    async fn an_engine_that_says_nothing_holds_up_the_first_look_only_for_a_moment() {
        let (_tell, containers) = watch::channel(ContainerOffer::Unknown);
        let (_switch, switched_off) = watch::channel(BTreeSet::new());
        let host = Arc::new(HostEnv::default());
        let begin = tokio::time::Instant::now();
        let mut inputs = Inputs {
            host,
            switched_off,
            containers: Some(containers),
        };
        assert!(inputs.first().await.offered().is_empty());
        assert!(begin.elapsed() < 2 * ENGINE_WORD_LIMIT);
    }

    #[tokio::test]
    async fn the_engine_s_coming_and_going_is_published_at_once() {
        let (tell, containers) = watch::channel(ContainerOffer::Ready("here".to_owned()));
        let (_switch, switched_off) = watch::channel(BTreeSet::new());
        let mut inputs = Inputs {
            host: Arc::new(HostEnv::default()),
            switched_off,
            containers: Some(containers),
        };
        assert!(inputs.first().await.offered().contains(&Capability::Docker));
        let (publish, mut published) = watch::channel(CapabilityReport::default());
        let stop = CancellationToken::new();
        let looking = inputs.keep_looking(|report| _ = publish.send_replace(report), stop.clone());
        let begin = tokio::time::Instant::now();
        let watching = async {
            tell.send_replace(ContainerOffer::Absent("gone".to_owned()));
            published.changed().await.unwrap();
            assert!(published.borrow_and_update().offered().is_empty());
            tell.send_replace(ContainerOffer::Ready("back".to_owned()));
            published.changed().await.unwrap();
            assert!(published.borrow().offered().contains(&Capability::Browser));
            stop.cancel();
        };
        tokio::join!(looking, watching);
        assert!(begin.elapsed() < REPROBE_EVERY);
    }
}
