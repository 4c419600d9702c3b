//! What a container may reach: the public internet and its peers; not the member's networks, the machine, or the
//! addresses by which clouds hand out credentials, unless that is declared.
//!
//! The rules are put into the container's own network name space, where nothing in it may change them: containers have
//! neither `NET_ADMIN` nor `NET_RAW`. The machine's own firewall is never touched, and the rules end with the container.

#[cfg(target_os = "linux")]
mod enter;
mod netlink;
mod rules;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};
use tokio::sync::oneshot;

use crate::engine::{ContainerView, DaemonInfo, Engine, EngineError, RunState};
use netlink::Batch;
use rules::{Beyond, Family, Rules};

pub(crate) use rules::Net;

/// Whether containers are held to what they may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EgressMode {
    /// They are, wherever this process can see to it.
    #[default]
    Fence,
    /// The member leaves the network open.
    Open,
}

/// How it is on an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Egress {
    Enforced,
    /// The member wants no rules.
    Open,
    /// Nobody can be held to anything, and why.
    Unenforced(String),
}

impl Egress {
    /// One line for people, when containers reach more than they should.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Enforced => None,
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
    /// How it is with egress rules here.
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
        match (self.egress_mode(), self.why_unenforced(info)) {
            (EgressMode::Open, _) => Egress::Open,
            (EgressMode::Fence, Some(why)) => Egress::Unenforced(why),
            (EgressMode::Fence, None) => Egress::Enforced,
        }
    }

    #[cfg(target_os = "linux")]
    fn why_unenforced(&self, info: &DaemonInfo) -> Option<String> {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        if info.kernel != kernel {
            return Some("its containers run on another machine, or in a virtual one".to_owned());
        }
        enter::permitted().err()
    }

    #[cfg(not(target_os = "linux"))]
    fn why_unenforced(&self, _info: &DaemonInfo) -> Option<String> {
        Some("its containers run in a virtual machine".to_owned())
    }

    /// Puts up a running container's rules, in place of earlier ones. Takes about a millisecond.
    pub(crate) async fn fence(&self, view: &ContainerView, reach: &Reach) -> Fenced {
        if self.egress_mode() == EgressMode::Open || view.state != RunState::Running || view.ranges.is_empty()
        {
            return Fenced::Yes;
        }
        let rules = rules_for(view, reach);
        let batches = families().map(|family| rules.put_up(family)).collect();
        match self.in_network_of(view, batches).await {
            Ok(()) => Fenced::Yes,
            // It has ended in the meantime, and its network with it.
            Err(_) if !self.runs(&view.id).await => Fenced::Yes,
            Err(Failure::NoWay(why) | Failure::Refused(why)) => Fenced::No(why),
        }
    }

    /// Lets a container reach a port of the machine for so long, if it is held back at all.
    pub(crate) async fn open_port(&self, view: &ContainerView, port: u16, limit: Duration) {
        let batches = families()
            .map(|family| rules::open(family, port, limit))
            .collect();
        self.change(view, batches).await;
    }

    /// The opposite.
    pub(crate) async fn close_port(&self, view: &ContainerView, port: u16) {
        let batches = families().map(|family| rules::close(family, port)).collect();
        self.change(view, batches).await;
    }

    /// Where there are no rules there is nothing to change, and no harm in that.
    async fn change(&self, view: &ContainerView, batches: Vec<Batch>) {
        if self.egress_mode() == EgressMode::Open {
            return;
        }
        if let Err(Failure::NoWay(why) | Failure::Refused(why)) = self.in_network_of(view, batches).await {
            tracing::debug!(container = %view.name, why, "egress rules stay as they are");
        }
    }

    async fn runs(&self, id: &str) -> bool {
        matches!(self.inspect_container(id).await, Ok(view) if view.state == RunState::Running)
    }

    #[cfg(target_os = "linux")]
    async fn in_network_of(&self, view: &ContainerView, batches: Vec<Batch>) -> Result<(), Failure> {
        let place = Place {
            container: view.id.clone(),
            sandbox: view.sandbox.clone(),
            pid: view.pid,
        };
        let (tell, told) = oneshot::channel();
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
    async fn in_network_of(&self, _view: &ContainerView, _batches: Vec<Batch>) -> Result<(), Failure> {
        Err(Failure::NoWay(
            "its containers run in a virtual machine".to_owned(),
        ))
    }
}

fn rules_for(view: &ContainerView, reach: &Reach) -> Rules {
    let mut machine = own_addresses();
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
    }
}

/// IPv4, and IPv6 where the kernel has it.
fn families() -> impl Iterator<Item = Family> {
    let six = std::path::Path::new("/proc/sys/net/ipv6").exists();
    [Family::V4, Family::V6]
        .into_iter()
        .filter(move |family| six || *family == Family::V4)
}

/// The addresses of this machine beyond its loopback, public ones too: whatever listens on them, such as a hub, listens
/// for containers as well.
fn own_addresses() -> BTreeSet<IpAddr> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut all = addresses_in_trie(&read("/proc/self/net/fib_trie"));
    all.extend(addresses_in_table(&read("/proc/self/net/if_inet6")));
    all.retain(|address| !address.is_loopback());
    all
}

/// Local addresses in the kernel's picture of its routes.
fn addresses_in_trie(text: &str) -> BTreeSet<IpAddr> {
    let mut found = BTreeSet::new();
    let mut last: Option<IpAddr> = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last);
        }
    }
    found
}

/// Addresses of interfaces, each 32 hex digits at the start of a line.
fn addresses_in_table(text: &str) -> BTreeSet<IpAddr> {
    let parse = |line: &str| {
        let digits = u128::from_str_radix(line.get(..32)?, 16).ok()?;
        Some(IpAddr::V6(digits.into()))
    };
    text.lines().filter_map(parse).collect()
}

/// What a case learns whose container can't be held to its policy.
pub(crate) fn unfenced(what: &str, why: &str) -> Fault {
    let text = format!("{what} can't be held to what it may reach: {why}");
    Fault::new(ErrorCode::DriverProvisionFailed, text)
}

#[cfg(test)]
mod tests {
    use super::{Egress, addresses_in_table, addresses_in_trie};

    #[test]
    fn local_addresses_are_read_out_of_the_kernels_tables() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\nLocal:\n     \
                    |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        let found: Vec<String> = addresses_in_trie(trie).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.7"]);
        let table = "fe800000000000000242d2fffe0e5d4a 04 40 20 80  docker0\nshort\n";
        let found: Vec<String> = addresses_in_table(table)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, ["fe80::242:d2ff:fe0e:5d4a"]);
    }

    #[test]
    fn a_policy_that_nobody_sees_to_is_refused_with_the_reason() {
        assert!(Egress::Enforced.demand("p").is_ok());
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
