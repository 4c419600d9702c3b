//! Images pinned for one dispatch: a pinned topology is a version of its own.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use everdict_contracts::{Fault, ServiceHarness};
use sha1::{Digest as _, Sha1};

/// Hex digits of the pins' hash in a version; part of the protocol.
const PIN_DIGITS: usize = 8;

/// Replaces images by service name and says so in the version; without pins the spec stays as it is.
///
/// # Errors
/// `BAD_REQUEST` for a pin that no service takes.
pub fn apply(spec: &ServiceHarness, pins: &BTreeMap<String, String>) -> Result<ServiceHarness, Fault> {
    let mut pinned = spec.clone();
    if pins.is_empty() {
        return Ok(pinned);
    }
    for (name, image) in pins {
        let Some(service) = pinned.services.iter_mut().find(|service| service.name == *name) else {
            let known: Vec<&str> = spec
                .services
                .iter()
                .map(|service| service.name.as_str())
                .collect();
            return Err(Fault::bad_request(format!(
                "imagePins.{name}: no service has this name; the services are {}",
                known.join(", ")
            )));
        };
        if service.on_host() {
            return Err(Fault::bad_request(format!(
                "imagePins.{name}: the service runs on the host and has no image; take the pin out"
            )));
        }
        service.image = Some(image.clone());
    }
    pinned.version = format!("{}-pin-{}", spec.version, hash(pins));
    Ok(pinned)
}

/// Hashes the pins as the control plane does, whatever order they come in.
fn hash(pins: &BTreeMap<String, String>) -> String {
    let mut pairs: Vec<(&String, &String)> = pins.iter().collect();
    pairs.sort_by(|(one, _), (other, _)| collate(one, other));
    let json = serde_json::to_vec(&pairs).expect("BUG: pairs of text are JSON");
    let digest = Sha1::digest(&json);
    digest
        .iter()
        .take(PIN_DIGITS / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Compares as the control plane's locale does for the names that services have: signs, digits, letters whatever their
/// case; then lower case first.
fn collate(one: &str, other: &str) -> Ordering {
    let weight = |c: char| match c {
        '_' => (0, '\0'),
        '-' => (0, '\u{1}'),
        '.' => (0, '\u{2}'),
        c if c.is_ascii_digit() => (1, c),
        c => (2, c.to_ascii_lowercase()),
    };
    let primary = one.chars().map(weight).cmp(other.chars().map(weight));
    primary.then_with(|| other.cmp(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_the_control_plane_orders_them() {
        let mut names = ["b", "B", "a.b", "a-b", "a_b", "a1", "ab", "A", "a"];
        names.sort_by(|one, other| collate(one, other));
        assert_eq!(names, ["a", "A", "a_b", "a-b", "a.b", "a1", "ab", "b", "B"]);
    }

    #[test]
    fn the_hash_is_that_of_the_sorted_pairs_as_json() {
        let pins = BTreeMap::from([
            ("web".to_owned(), "r/web:2".to_owned()),
            ("api".to_owned(), "r/api:1".to_owned()),
        ]);
        let json = br#"[["api","r/api:1"],["web","r/web:2"]]"#;
        let whole: String = Sha1::digest(json)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hash(&pins), whole[..8]);
    }
}
