//! What a container may reach: the public internet and its peers; not the member's networks, the machine, or the
//! addresses by which clouds hand out credentials, unless that is declared.
//!
//! The rules are put into the container's own network name space, where nothing in it may change them: containers have
//! neither `NET_ADMIN` nor `NET_RAW`. The machine's own firewall is never touched, and the rules end with the container.
//!
//! A runner with the privilege enters that name space itself. Any other has a helper container do it, see [`gate`]. That
//! takes a fifth of a second, for which a service is kept frozen: either way it is held before it has run for long.

mod declared;
#[cfg(target_os = "linux")]
mod enter;
mod gate;
mod hosts;
mod machine;
mod netlink;
mod rules;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};

use crate::engine::{ContainerView, DaemonInfo, Engine, EngineError, RunState};
use netlink::Batch;
use rules::{Beyond, Family, Rules};

pub(crate) use declared::Wanted;
pub use declared::{CaseNetwork, Reaching};
pub(crate) use gate::{Gates, is_gate};
pub(crate) use rules::Net;

/// Whether containers are held to what they may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EgressMode {
    /// They are, wherever this process can see to it.
    #[default]
    Fence,
    /// They are, and always by a helper container: what a runner without privileges does, shown by one that has them.
    Gate,
    /// The member leaves the network open.
    Open,
}

/// Who puts up the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// This process enters the container's network.
    Runner,
    /// A helper container does.
    Gate,
}

/// How it is on an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Egress {
    Enforced(Through),
    /// The member wants no rules.
    Open,
    /// Nobody can be held to anything, and why.
    Unenforced(String),
}

impl Egress {
    /// One line for people, when containers reach more than they should.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Enforced(_) => None,
            Self::Open => Some("egress rules are off (topology.egress = \"open\")".to_owned()),
            Self::Unenforced(why) => Some(unenforced(why)),
        }
    }

    /// Refuses a policy that is stricter than what can be seen to. `place` is that of the policy in the job.
    ///
    /// # Errors
    /// `BAD_REQUEST`.
    pub(crate) fn demand(&self, place: &str) -> Result<(), Fault> {
        match self.warning() {
            None => Ok(()),
            Some(why) => Err(Fault::bad_request(format!(
                "{place}: can't be held to here, since {why}"
            ))),
        }
    }
}

/// The sentence for people.
pub(crate) fn unenforced(why: &str) -> String {
    format!("egress rules are not enforced on this engine: {why}")
}

/// What containers of one kind may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Whether the other containers of its networks belong to it.
    pub(crate) peers: bool,
    /// What is declared to be reached, and if anything is, nothing beyond it.
    pub(crate) declared: Option<BTreeSet<Net>>,
}

impl Reach {
    /// A member of a topology, or a browser in it.
    pub(crate) fn of_peers() -> Self {
        Self {
            peers: true,
            declared: None,
        }
    }

    /// A container that has the internet, or what is declared, and nobody beside it.
    pub(crate) fn alone(declared: Option<BTreeSet<Net>>) -> Self {
        Self {
            peers: false,
            declared,
        }
    }

    /// Whether the case would be another one without the rules.
    pub(crate) fn is_strict(&self) -> bool {
        self.declared.is_some()
    }
}

/// Where the container's network is.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Place {
    container: String,
    /// The engine's file for the name space.
    sandbox: String,
    pid: i64,
}

/// Why rules could not be put up.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Failure {
    /// The container can't be got at from here.
    NoWay(String),
    /// The kernel doesn't take them.
    Refused(String),
}

/// What became of a container's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// They are up, or there is nothing to hold back: it has ended, or has no network.
    Yes,
    /// They aren't, and why: to be told in the job's log.
    No(String),
}

impl Engine {
    /// How it is with egress rules here, as far as that is known before a container is to be held.
    ///
    /// # Errors
    /// Any [`EngineError`] of asking the daemon about itself.
    pub async fn egress(&self) -> Result<Egress, EngineError> {
        if self.egress_mode() == EgressMode::Open {
            return Ok(Egress::Open);
        }
        let info = self.info().await?;
        Ok(self.egress_on(&info))
    }

    /// The same for who has asked already.
    pub fn egress_on(&self, info: &DaemonInfo) -> Egress {
        if self.egress_mode() == EgressMode::Open {
            return Egress::Open;
        }
        let why = match self.may_enter() {
            Ok(()) if same_kernel(info) => return Egress::Enforced(Through::Runner),
            Ok(()) => "its containers run on another machine, or in a virtual one".to_owned(),
            Err(why) => why,
        };
        match gate::facts_of(info).unfit {
            None => Egress::Enforced(Through::Gate),
            Some(unfit) => Egress::Unenforced(both(&why, &unfit)),
        }
    }

    /// Whether this process may enter the network of containers that are on its own kernel; why not, if it may not.
    fn may_enter(&self) -> Result<(), String> {
        if self.egress_mode() == EgressMode::Gate {
            return Err("this process leaves it to helpers".to_owned());
        }
        permitted()
    }

    /// Freezes a container that has just been started, when it takes a while until its rules are up; [`Engine::fence`]
    /// is to follow, and [`Engine::let_go`]. Where the engine can't freeze, the container runs on meanwhile.
    pub(crate) async fn keep_still(&self, id: &str) {
        if self.egress_mode() == EgressMode::Open || self.may_enter().is_ok() {
            return;
        }
        if !matches!(self.gate_facts().await, Ok(facts) if facts.unfit.is_none()) {
            return;
        }
        if let Err(error) = self.pause_container(id).await {
            tracing::debug!(container = id, %error, "a container isn't frozen until its rules are up");
        }
    }

    /// Lets a container go on that may be frozen.
    ///
    /// # Errors
    /// Any [`EngineError`].
    pub(crate) async fn let_go(&self, view: &ContainerView) -> Result<(), EngineError> {
        if view.paused {
            self.unpause_container(&view.id).await
        } else {
            Ok(())
        }
    }

    /// Puts up a running container's rules, in place of earlier ones. Takes about a millisecond, or a fifth of a second
    /// with a helper.
    pub(crate) async fn fence(&self, view: &ContainerView, reach: &Reach) -> Fenced {
        if self.egress_mode() == EgressMode::Open || view.state != RunState::Running || view.ranges.is_empty()
        {
            return Fenced::Yes;
        }
        let put_up = |family, beside| rules_for(view, reach, beside).put_up(family);
        match self.apply(view, &put_up).await {
            Ok(()) => Fenced::Yes,
            // It has ended in the meantime, and its network with it.
            Err(_) if !self.runs(&view.id).await => Fenced::Yes,
            Err(Failure::NoWay(why) | Failure::Refused(why)) => Fenced::No(why),
        }
    }

    /// Lets a container reach a port of the machine for so long, if it is held back at all.
    pub(crate) async fn open_port(&self, view: &ContainerView, port: u16, limit: Duration) {
        self.change(view, &|family, _| rules::open(family, port, limit))
            .await;
    }

    /// The opposite.
    pub(crate) async fn close_port(&self, view: &ContainerView, port: u16) {
        self.change(view, &|family, _| rules::close(family, port)).await;
    }

    /// Where there are no rules there is nothing to change, and no harm in that.
    async fn change(&self, view: &ContainerView, batch: &Batches<'_>) {
        if self.egress_mode() == EgressMode::Open {
            return;
        }
        if let Err(Failure::NoWay(why) | Failure::Refused(why)) = self.apply(view, batch).await {
            tracing::debug!(container = %view.name, why, "egress rules stay as they are");
        }
    }

    /// Brings batches into the container's name space: by entering it, else through the gate.
    async fn apply(&self, view: &ContainerView, batch: &Batches<'_>) -> Result<(), Failure> {
        let why = match self.may_enter() {
            Err(why) => why,
            Ok(()) => {
                let batches = families().map(|family| batch(family, true)).collect();
                match in_network_of(view, batches).await {
                    Err(Failure::NoWay(why)) => why,
                    other => return other,
                }
            }
        };
        let beside = self.gate_facts().await?.beside;
        // Whether its kernel has IPv6 is for the gate to see.
        let batches = Family::ALL.map(|family| batch(family, beside));
        let network = format!("container:{}", view.id);
        match self.through_gate(&network, &batches).await {
            Err(Failure::NoWay(unfit)) => Err(Failure::NoWay(both(&why, &unfit))),
            other => other,
        }
    }

    async fn runs(&self, id: &str) -> bool {
        matches!(self.inspect_container(id).await, Ok(view) if view.state == RunState::Running)
    }
}

/// Makes the batch of a family; the flag says whether the engine is beside this process, see [`gate::Facts`].
type Batches<'a> = dyn Fn(Family, bool) -> Batch + Sync + 'a;

/// One sentence about why this process doesn't put up rules, and why no helper does.
fn both(own: &str, helper: &str) -> String {
    format!("{own}, and a helper container can't do it either: {helper}")
}

fn refused(error: io::Error) -> Failure {
    Failure::Refused(format!("the kernel takes no packet rules: {error}"))
}

#[cfg(target_os = "linux")]
fn permitted() -> Result<(), String> {
    enter::permitted()
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> Result<(), String> {
    Err("its containers run in a virtual machine".to_owned())
}

/// Whether the engine's containers run on this process' own kernel.
#[cfg(target_os = "linux")]
fn same_kernel(info: &DaemonInfo) -> bool {
    info.kernel == rustix::system::uname().release().to_string_lossy()
}

#[cfg(not(target_os = "linux"))]
fn same_kernel(_info: &DaemonInfo) -> bool {
    false
}

#[cfg(target_os = "linux")]
async fn in_network_of(view: &ContainerView, batches: Vec<Batch>) -> Result<(), Failure> {
    let place = Place {
        container: view.id.clone(),
        sandbox: view.sandbox.clone(),
        pid: view.pid,
    };
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread of its own: it never comes back from the name space, and a pool's would carry others' work there.
    let begun = std::thread::Builder::new()
        .name("egress".to_owned())
        .spawn(move || drop(tell.send(enter::act(&place, batches))));
    if let Err(error) = begun {
        return Err(Failure::NoWay(format!("no thread to enter its network: {error}")));
    }
    told.await.unwrap_or_else(|_| {
        Err(Failure::NoWay(
            "the thread that entered its network broke".to_owned(),
        ))
    })
}

#[cfg(not(target_os = "linux"))]
async fn in_network_of(_view: &ContainerView, _batches: Vec<Batch>) -> Result<(), Failure> {
    permitted().map_err(Failure::NoWay)
}

fn rules_for(view: &ContainerView, reach: &Reach, beside: bool) -> Rules {
    let mut machine = machine::own_addresses();
    machine.extend(view.gateways.values());
    Rules {
        machine,
        peers: if reach.peers {
            view.ranges.iter().copied().collect()
        } else {
            BTreeSet::new()
        },
        declared: reach.declared.clone().unwrap_or_default(),
        beyond: match reach.declared {
            None => Beyond::Public,
            Some(_) => Beyond::Nothing,
        },
        machine_is_elsewhere: !beside,
    }
}

/// IPv4, and IPv6 where the kernel has it.
fn families() -> impl Iterator<Item = Family> {
    let six = std::path::Path::new("/proc/sys/net/ipv6").exists();
    Family::ALL
        .into_iter()
        .filter(move |family| six || *family == Family::V4)
}

/// What a case learns whose container can't be held to its policy.
pub(crate) fn unfenced(what: &str, why: &str) -> Fault {
    let text = format!("{what} can't be held to what it may reach: {why}");
    Fault::new(ErrorCode::DriverProvisionFailed, text)
}

#[cfg(test)]
mod tests {
    use super::{Egress, Through};

    #[test]
    fn a_policy_that_nobody_sees_to_is_refused_with_the_reason() {
        for through in [Through::Runner, Through::Gate] {
            assert!(Egress::Enforced(through).demand("p").is_ok());
        }
        for (egress, why) in [
            (Egress::Open, "topology.egress"),
            (Egress::Unenforced("no way".to_owned()), "no way"),
        ] {
            let fault = egress.demand("evalCase.network").unwrap_err();
            assert!(fault.message.starts_with("evalCase.network: "), "{fault}");
            assert!(fault.message.contains(why), "{fault}");
        }
    }
}
