//! The hosts that a case declares that it reaches.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use everdict_contracts::Fault;

use super::Net;
use crate::engine::Engine;

/// Where hosts are declared.
const PLACE: &str = "evalCase.network.allowedHosts";

/// By this name containers know the machine.
const MACHINE: &str = "host.docker.internal";

/// For a name server that is slow; one that doesn't answer is asked several times within it.
const RESOLVE_LIMIT: Duration = Duration::from_secs(20);

/// A host as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Range(Net),
    /// Resolved when the container is made, and kept for its life.
    Name(String),
    Machine,
}

/// What the declared hosts come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) ranges: BTreeSet<Net>,
    /// `name:address`, so that a name is in the container what it was when the rules were made.
    pub(crate) pinned: Vec<String>,
}

/// Reads hosts: addresses, ranges, and names.
///
/// # Errors
/// `BAD_REQUEST` with the place of what is none of them.
pub(crate) fn parse(hosts: &[String]) -> Result<Vec<Host>, Fault> {
    let hosts = hosts.iter().enumerate();
    hosts
        .map(|(index, host)| {
            host_of(host).ok_or_else(|| {
                Fault::bad_request(format!(
                    "{PLACE}[{index}]: `{host}` is no host; give an address, a range such as 10.1.0.0/16, or a name \
                     without wildcard and port"
                ))
            })
        })
        .collect()
}

fn host_of(text: &str) -> Option<Host> {
    if text == MACHINE {
        return Some(Host::Machine);
    }
    if let Ok(address) = text.parse() {
        return Some(Host::Range(Net::host(address)));
    }
    if let Some((address, bits)) = text.split_once('/') {
        let address: IpAddr = address.parse().ok()?;
        let most = Net::host(address).bits;
        let bits = bits.parse().ok().filter(|bits| *bits <= most)?;
        return Some(Host::Range(Net::new(address, bits)));
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    (text.len() <= 253 && text.split('.').all(label)).then(|| Host::Name(text.to_owned()))
}

/// Finds the addresses.
///
/// # Errors
/// `BAD_REQUEST` with the place of a name that has none.
pub(crate) async fn resolve(hosts: &[Host], engine: &Engine) -> Result<Resolved, Fault> {
    let mut resolved = Resolved::default();
    for (index, host) in hosts.iter().enumerate() {
        match host {
            Host::Range(net) => drop(resolved.ranges.insert(*net)),
            Host::Machine => resolved.ranges.extend(engine.host_gateway().await.map(Net::host)),
            Host::Name(name) => {
                let lookup = tokio::time::timeout(RESOLVE_LIMIT, tokio::net::lookup_host((name.as_str(), 0)));
                let found: BTreeSet<IpAddr> = match lookup.await {
                    Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
                    Ok(Err(_)) | Err(_) => BTreeSet::new(),
                };
                if found.is_empty() {
                    let text = format!("{PLACE}[{index}]: `{name}` has no address");
                    return Err(Fault::bad_request(text));
                }
                for address in found {
                    resolved.ranges.insert(Net::host(address));
                    resolved.pinned.push(format!("{name}:{address}"));
                }
            }
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::super::Net;
    use super::{Host, parse};

    #[test]
    fn hosts_are_addresses_ranges_and_names() {
        let texts = [
            "10.1.2.3",
            "10.1.0.0/16",
            "fd00::/8",
            "db.lan",
            "host.docker.internal",
        ];
        let hosts = parse(&texts.map(str::to_owned)).unwrap();
        assert_eq!(hosts[0], Host::Range(Net::host("10.1.2.3".parse().unwrap())));
        assert_eq!(hosts[1], Host::Range(Net::new("10.1.0.0".parse().unwrap(), 16)));
        assert_eq!(hosts[2], Host::Range(Net::new("fd00::".parse().unwrap(), 8)));
        assert_eq!(hosts[3], Host::Name("db.lan".to_owned()));
        assert_eq!(hosts[4], Host::Machine);
    }

    #[test]
    fn what_is_no_host_is_refused_with_its_place() {
        for text in [
            "*.example.com",
            "example.com:443",
            "https://a",
            "10.0.0.0/33",
            "a..b",
            "",
        ] {
            let fault = parse(&["a.b".to_owned(), text.to_owned()]).unwrap_err();
            assert!(
                fault.message.starts_with("evalCase.network.allowedHosts[1]: "),
                "{fault}"
            );
        }
    }
}
