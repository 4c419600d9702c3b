//! The addresses of this machine beyond its loopback, public ones too: whatever listens on them, such as a hub, listens
//! for containers as well.

use std::collections::BTreeSet;
use std::net::IpAddr;

pub(super) fn own_addresses() -> BTreeSet<IpAddr> {
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

#[cfg(test)]
mod tests {
    use super::{addresses_in_table, addresses_in_trie};

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
}
