//! Which packets may leave a container, as packet rules of its own network name space.
//!
//! Rules rather than routes, because a container has to answer whoever calls it: a route that forbids the way to the
//! machine forbids the answers to its published ports too.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::netlink::{APPEND, Attrs, Batch, CREATE, IPV6, octets};

/// Table, chain and set of ours.
const TABLE: &str = "everdict";
const CHAIN: &str = "egress";
const CALLBACKS: &str = "callbacks";

const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const DELETE_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const NEW_ELEMENT: u16 = 12;
const DELETE_ELEMENT: u16 = 14;

/// The hook for packets that a process of the name space sends.
const HOOK_OUTPUT: u32 = 3;
/// Beside other filters: after addresses have been translated, which is how Docker's DNS works.
const PRIORITY_FILTER: u32 = 0;
const ACCEPT: u32 = 1;
/// The set's elements end by themselves.
const SET_WITH_TIMEOUT: u32 = 0x10;
/// How the tool that lists rules shows the set's elements: as ports.
const TYPE_PORT: u32 = 13;
/// Of the loopback, in every name space.
const LOOPBACK_INDEX: u32 = 1;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const DNS: u16 = 53;
/// Messages without which IPv6 finds no neighbour: solicitations, advertisements, membership.
const NEIGHBOURHOOD: [u8; 4] = [133, 135, 136, 143];

/// An address range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Net {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl Net {
    pub(crate) const fn new(address: IpAddr, bits: u8) -> Self {
        Self { address, bits }
    }

    pub(crate) fn host(address: IpAddr) -> Self {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self { address, bits }
    }

    fn mask(self) -> Vec<u8> {
        let mut mask = vec![0_u8; octets(self.address).len()];
        for bit in 0..usize::from(self.bits).min(mask.len() * 8) {
            mask[bit / 8] |= 0x80 >> (bit % 8);
        }
        mask
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Net {
    Net::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits)
}

const fn v6(first: u16, bits: u8) -> Net {
    Net::new(IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0)), bits)
}

/// What isn't the public internet: the member's networks, and the addresses by which clouds hand out credentials.
const NEAR: [Net; 10] = [
    v4(10, 0, 0, 0, 8),
    v4(172, 16, 0, 0, 12),
    v4(192, 168, 0, 0, 16),
    // Shared address space: networks of providers and of Tailscale, Alibaba's metadata.
    v4(100, 64, 0, 0, 10),
    // Link-local: the metadata address of most clouds.
    v4(169, 254, 0, 0, 16),
    // Oracle's older metadata address.
    v4(192, 0, 0, 0, 24),
    // Azure's.
    v4(168, 63, 129, 16, 32),
    // Unique local: AWS' metadata over IPv6 too.
    v6(0xfc00, 7),
    v6(0xfe80, 10),
    v6(0xfec0, 10),
];

/// What lies beyond those that a container may talk to in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Beyond {
    /// The public internet, and name servers wherever they are.
    Public,
    /// Nothing: names are resolved beforehand, if at all.
    Nothing,
}

/// The rules of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Addresses of the machine, on which a listener of ours may be.
    pub(crate) machine: BTreeSet<IpAddr>,
    /// Networks of containers that belong together.
    pub(crate) peers: BTreeSet<Net>,
    /// What is declared.
    pub(crate) declared: BTreeSet<Net>,
    pub(crate) beyond: Beyond,
    /// Containers reach this machine by an address that it doesn't know itself, as from a virtual one: then the port
    /// that is open for a call is open wherever it leads.
    pub(crate) machine_is_elsewhere: bool,
}

/// The address families that rules are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => IPV6,
        }
    }

    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }

    /// Where a packet has the address that it goes to.
    fn destination(self) -> u32 {
        match self {
            Self::V4 => 16,
            Self::V6 => 24,
        }
    }

    /// The code of "administratively prohibited".
    fn prohibited(self) -> u8 {
        match self {
            Self::V4 => 13,
            Self::V6 => 1,
        }
    }
}

impl Rules {
    /// Puts up the rules of one family in place of those that are there. Ports that are open stay open.
    pub(super) fn put_up(&self, family: Family) -> Batch {
        let mut batch = Batch::new(family.number());
        batch.add(NEW_TABLE, CREATE, &Attrs::new().text(1, TABLE));
        let set = Attrs::new()
            .text(1, TABLE)
            .text(2, CALLBACKS)
            .number(3, SET_WITH_TIMEOUT)
            .number(4, TYPE_PORT)
            .number(5, 2)
            .number(10, 1);
        batch.add(NEW_SET, CREATE, &set);
        let hook = Attrs::new().number(1, HOOK_OUTPUT).number(2, PRIORITY_FILTER);
        let chain = Attrs::new()
            .text(1, TABLE)
            .text(3, CHAIN)
            .nest(4, &hook)
            .number(5, ACCEPT)
            .text(7, "filter");
        batch.add(NEW_CHAIN, CREATE, &chain);
        batch.add(DELETE_RULE, 0, &Attrs::new().text(1, TABLE).text(2, CHAIN));
        for rule in self.rules(family) {
            let rule = Attrs::new().text(1, TABLE).text(2, CHAIN).nest(4, &rule.0);
            batch.add(NEW_RULE, CREATE | APPEND, &rule);
        }
        batch
    }

    /// In this order, since the first that fits decides.
    fn rules(&self, family: Family) -> Vec<Rule> {
        let mut rules = vec![
            Rule::new().on_loopback().accept(),
            // Whoever calls the container gets an answer: its published port, its peers, the runner's own probes.
            Rule::new().answering().accept(),
        ];
        if family == Family::V6 {
            rules.extend(NEIGHBOURHOOD.map(|kind| Rule::new().protocol(ICMP6).icmp(kind).accept()));
        }
        if self.beyond == Beyond::Public {
            // Docker's name server asks the machine's ones from within the container's name space.
            rules.extend([UDP, TCP].map(|protocol| Rule::new().protocol(protocol).port(DNS).accept()));
        }
        let fits = |net: &&Net| family.has(net.address);
        for net in self.declared.iter().filter(fits) {
            rules.push(Rule::new().to(family, *net).accept());
        }
        if self.machine_is_elsewhere {
            rules.push(Rule::new().protocol(TCP).open_port().accept());
        }
        for address in self.machine.iter().filter(|address| family.has(**address)) {
            let host = Net::host(*address);
            rules.push(Rule::new().to(family, host).protocol(TCP).open_port().accept());
            rules.push(Rule::new().to(family, host).reject(family));
        }
        for net in self.peers.iter().filter(fits) {
            rules.push(Rule::new().to(family, *net).accept());
        }
        match self.beyond {
            Beyond::Public => {
                let near = NEAR.iter().filter(fits);
                rules.extend(near.map(|net| Rule::new().to(family, *net).reject(family)));
            }
            Beyond::Nothing => rules.push(Rule::new().reject(family)),
        }
        rules
    }
}

/// Lets packets to a port of the machine pass, for so long.
pub(super) fn open(family: Family, port: u16, limit: Duration) -> Batch {
    let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let element = key(port).bytes(4, &milliseconds.to_be_bytes());
    elements(family, NEW_ELEMENT, CREATE, &element)
}

/// The opposite.
pub(super) fn close(family: Family, port: u16) -> Batch {
    elements(family, DELETE_ELEMENT, 0, &key(port))
}

fn key(port: u16) -> Attrs {
    Attrs::new().nest(1, &Attrs::new().bytes(1, &port.to_be_bytes()))
}

fn elements(family: Family, message: u16, flags: u16, element: &Attrs) -> Batch {
    let attrs = Attrs::new()
        .text(1, TABLE)
        .text(2, CALLBACKS)
        .nest(3, &Attrs::new().nest(1, element));
    let mut batch = Batch::new(family.number());
    batch.add(message, flags, &attrs);
    batch
}

/// One rule: steps that look, and a last one that decides.
struct Rule(Attrs);

/// The register that values are looked at in.
const REGISTER: u32 = 1;

impl Rule {
    fn new() -> Self {
        Self(Attrs::new())
    }

    fn step(self, name: &str, data: &Attrs) -> Self {
        let step = Attrs::new().text(1, name).nest(2, data);
        Self(self.0.nest(1, &step))
    }

    fn meta(self, key: u32) -> Self {
        self.step("meta", &Attrs::new().number(1, REGISTER).number(2, key))
    }

    /// `base` 1 is the packet's own header, 2 that of the protocol in it.
    fn field(self, base: u32, offset: u32, length: u32) -> Self {
        let attrs = Attrs::new()
            .number(1, REGISTER)
            .number(2, base)
            .number(3, offset)
            .number(4, length);
        self.step("payload", &attrs)
    }

    fn equals(self, value: &[u8]) -> Self {
        let attrs = Attrs::new()
            .number(1, REGISTER)
            .number(2, 0)
            .nest(3, &Attrs::new().bytes(1, value));
        self.step("cmp", &attrs)
    }

    fn on_loopback(self) -> Self {
        self.meta(5).equals(&LOOPBACK_INDEX.to_ne_bytes())
    }

    fn answering(self) -> Self {
        self.step("ct", &Attrs::new().number(1, REGISTER).number(2, 1))
            .equals(&[1])
    }

    fn protocol(self, number: u8) -> Self {
        self.meta(16).equals(&[number])
    }

    fn port(self, port: u16) -> Self {
        self.field(2, 2, 2).equals(&port.to_be_bytes())
    }

    fn icmp(self, kind: u8) -> Self {
        self.field(2, 0, 1).equals(&[kind])
    }

    fn open_port(self) -> Self {
        let attrs = Attrs::new().text(1, CALLBACKS).number(2, REGISTER);
        self.field(2, 2, 2).step("lookup", &attrs)
    }

    fn to(self, family: Family, net: Net) -> Self {
        let mask = net.mask();
        let length = u32::try_from(mask.len()).expect("BUG: an address is short");
        let base: Vec<u8> = octets(net.address)
            .iter()
            .zip(&mask)
            .map(|(byte, mask)| byte & mask)
            .collect();
        let looked = self.field(1, family.destination(), length);
        let value = |bytes: &[u8]| Attrs::new().bytes(1, bytes);
        let masked = Attrs::new()
            .number(1, REGISTER)
            .number(2, REGISTER)
            .number(3, length)
            .nest(4, &value(&mask))
            .nest(5, &value(&vec![0; mask.len()]));
        looked.step("bitwise", &masked).equals(&base)
    }

    fn accept(self) -> Self {
        let verdict = Attrs::new().nest(2, &Attrs::new().number(1, ACCEPT));
        self.step("immediate", &Attrs::new().number(1, 0).nest(2, &verdict))
    }

    /// With an answer, so that the caller learns at once rather than by a time-out.
    fn reject(self, family: Family) -> Self {
        let attrs = Attrs::new().number(1, 0).bytes(2, &[family.prohibited()]);
        self.step("reject", &attrs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_their_bits_from_the_left() {
        assert_eq!(v4(10, 0, 0, 0, 8).mask(), [255, 0, 0, 0]);
        assert_eq!(v4(100, 64, 0, 0, 10).mask(), [255, 192, 0, 0]);
        assert_eq!(v4(1, 2, 3, 4, 32).mask(), [255; 4]);
        assert_eq!(v6(0xfc00, 7).mask()[..2], [254, 0]);
        assert_eq!(v4(0, 0, 0, 0, 0).mask(), [0; 4]);
    }

    #[test]
    fn nothing_beyond_means_no_name_servers_either() {
        let rules = |beyond| Rules {
            machine: BTreeSet::new(),
            peers: BTreeSet::new(),
            declared: BTreeSet::new(),
            beyond,
            machine_is_elsewhere: false,
        };
        let public = rules(Beyond::Public).rules(Family::V4).len();
        assert_eq!(
            public,
            4 + NEAR.iter().filter(|net| net.address.is_ipv4()).count()
        );
        assert_eq!(rules(Beyond::Nothing).rules(Family::V4).len(), 3);
        // From a virtual machine the way to the open port is a rule of its own, before those that refuse.
        let elsewhere = Rules {
            machine_is_elsewhere: true,
            ..rules(Beyond::Nothing)
        };
        assert_eq!(elsewhere.rules(Family::V4).len(), 4);
    }
}
