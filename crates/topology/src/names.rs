//! Names of engine objects: readable, within every limit, and different where the things are.

use crate::digest::{SpecDigest, short_hash};
use crate::plan::TopologyKey;

/// Start of every name.
const PREFIX: &str = "everdict";
/// Longest part of a name that comes from outside; two of them, the prefix, the suffix and three dashes make 59.
const PART_CHARS: usize = 19;
/// Hex digits of a topology's suffix: 40 bits, enough to tell apart what one machine ever runs.
const SUFFIX_DIGITS: usize = 10;
/// Longest label of a DNS name (RFC 1035).
const DNS_LABEL_CHARS: usize = 63;

/// Replaces every character that the engine doesn't take in a name by a dash.
pub fn sanitize(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') {
                c
            } else {
                '-'
            }
        })
        .collect()
}

/// Returns `text`, sanitised, when that changes nothing and it fits; else as much as fits and a hash of the whole.
pub fn distinct(text: &str, max: usize) -> String {
    let clean = sanitize(text);
    if clean == text && clean.len() <= max {
        return clean;
    }
    let hash = short_hash(&[text], 8);
    let kept: String = clean.chars().take(max - hash.len() - 1).collect();
    format!("{kept}-{hash}")
}

/// Returns the name of an installation's topology, at most 60 characters. Two installations on one daemon have different
/// names for the same topology: engine 20.10 can't start a container while two networks share a name.
pub fn topology(install: &str, key: &TopologyKey, digest: &SpecDigest) -> String {
    let part = |text: &str| sanitize(text).chars().take(PART_CHARS).collect::<String>();
    let suffix = short_hash(
        &[install, &key.tenant, &key.harness, &key.version, digest.as_str()],
        SUFFIX_DIGITS,
    );
    format!("{PREFIX}-{}-{}-{suffix}", part(&key.harness), part(&key.version))
}

/// Returns the name of a container that belongs to a topology.
pub fn member(topology: &str, member: &str) -> String {
    format!("{topology}-{}", distinct(member, DNS_LABEL_CHARS))
}

/// Returns the network alias of a store, which peers and injected variables carry.
pub fn store_alias(harness: &str, store: &str) -> String {
    format!("{}-{store}", distinct(harness, DNS_LABEL_CHARS - store.len() - 1))
}

/// Returns the network alias of a case's browser.
pub fn browser_alias(run: &str) -> String {
    format!("browser-{}", distinct(run, DNS_LABEL_CHARS - "browser-".len()))
}

/// Returns the container name of an attempt's browser: a leftover of an earlier attempt never stands in its way.
pub fn browser(topology: &str, run: &str, attempt: &str) -> String {
    format!(
        "{topology}-browser-{}-{}",
        distinct(run, 40),
        short_hash(&[run, attempt], 8)
    )
}

/// Returns the name of a topology's own volume; the member's volumes have other names.
pub fn volume(topology: &str, volume: &str) -> String {
    format!("{topology}.{}", distinct(volume, DNS_LABEL_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, harness: &str, version: &str) -> TopologyKey {
        TopologyKey {
            tenant: tenant.to_owned(),
            harness: harness.to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn a_name_is_readable_and_short() {
        let digest = SpecDigest::of(b"x");
        let name = topology("inst", &key("acme", "browser-use", "1.0.0"), &digest);
        assert!(name.starts_with("everdict-browser-use-1.0.0-"), "{name}");
        let long = topology("inst", &key("acme", &"h".repeat(200), &"9".repeat(200)), &digest);
        assert!(long.len() <= 60, "{long}");
    }

    #[test]
    fn what_sanitising_makes_equal_is_still_told_apart() {
        let digest = SpecDigest::of(b"x");
        let names = [
            topology("inst", &key("acme", "h", "1.0+a"), &digest),
            topology("inst", &key("acme", "h", "1.0-a"), &digest),
            topology("inst", &key("other", "h", "1.0-a"), &digest),
            topology("inst", &key("acme", "h", "1.0-a"), &SpecDigest::of(b"y")),
            topology("other", &key("acme", "h", "1.0-a"), &digest),
        ];
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert_ne!(distinct("a+b", 40), distinct("a-b", 40));
    }

    #[test]
    fn aliases_fit_a_dns_label() {
        let long = "x".repeat(300);
        assert!(store_alias(&long, "postgres").len() <= 63);
        assert!(browser_alias(&long).len() <= 63);
        assert_eq!(store_alias("bu", "postgres"), "bu-postgres");
        assert_eq!(browser_alias("r-1"), "browser-r-1");
    }

    #[test]
    fn attempts_of_one_run_have_browsers_of_their_own() {
        assert_ne!(
            browser("everdict-t", "r", "r#g1"),
            browser("everdict-t", "r", "r#g2")
        );
    }

    #[test]
    fn every_name_is_one_that_the_engine_takes() {
        for text in ["a", "/", "a/b:c", "ünïcode", "-x", ""] {
            for name in [
                member("everdict-t", text),
                volume("everdict-t", text),
                browser("everdict-t", text, text),
            ] {
                assert!(
                    name.chars()
                        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')),
                    "{name}"
                );
            }
        }
    }
}
