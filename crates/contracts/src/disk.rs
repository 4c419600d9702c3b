//! Sizes of disks, as people write them.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::{Serialize, Serializer};

const FORMS: &str = "a number of bytes of at least 1, or text such as \"50GB\", \"50Gi\" or \"1.5TB\"";

/// The units, and how many bytes each is: those with an `i` are powers of 1024, the others of 1000.
const UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
];

/// An amount of disk in bytes, at least 1. On the wire a number of bytes, or text with a unit; it is written as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskSize(u64);

impl DiskSize {
    /// Returns the amount, unless it is none.
    pub fn from_bytes(bytes: u64) -> Option<Self> {
        (bytes > 0 && i64::try_from(bytes).is_ok()).then_some(Self(bytes))
    }

    /// Returns how many bytes it is.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

/// Text that is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {FORMS}")]
pub struct NoDiskSize;

impl FromStr for DiskSize {
    type Err = NoDiskSize;

    fn from_str(text: &str) -> Result<Self, NoDiskSize> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let unit = unit.strip_suffix('b').unwrap_or(&unit);
        let &(_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(NoDiskSize)?;
        let bytes = match number.split_once('.') {
            None => whole(number)?.checked_mul(factor),
            Some((units, parts)) => {
                let units = whole(units)?.checked_mul(factor);
                // Nine places are less than a byte of any unit here, and fit the multiplication.
                let places = u32::try_from(parts.len().min(9)).unwrap_or(9);
                let parts = u128::from(whole(&parts[..parts.len().min(9)])?);
                let part = parts * u128::from(factor) / 10_u128.pow(places);
                units.and_then(|units| units.checked_add(u64::try_from(part).ok()?))
            }
        };
        bytes.and_then(Self::from_bytes).ok_or(NoDiskSize)
    }
}

fn whole(digits: &str) -> Result<u64, NoDiskSize> {
    digits.parse().map_err(|_| NoDiskSize)
}

impl Serialize for DiskSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for DiskSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Size;

        impl Visitor<'_> for Size {
            type Value = DiskSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORMS)
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<DiskSize, E> {
                DiskSize::from_bytes(bytes)
                    .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(bytes), &self))
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<DiskSize, E> {
                u64::try_from(bytes)
                    .ok()
                    .and_then(DiskSize::from_bytes)
                    .ok_or_else(|| E::invalid_value(Unexpected::Signed(bytes), &self))
            }

            fn visit_f64<E: Error>(self, bytes: f64) -> Result<DiskSize, E> {
                match crate::decode::exact_integer(bytes) {
                    Some(integer) => self.visit_i64(integer),
                    None => Err(E::invalid_value(Unexpected::Float(bytes), &self)),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<DiskSize, E> {
                text.parse()
                    .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaseJob, ResourceRequest, decode};

    #[test]
    fn a_size_is_read_in_every_form() {
        for (json, bytes) in [
            ("\"50GB\"", 50_000_000_000),
            ("\"50G\"", 50_000_000_000),
            ("\"50 gb\"", 50_000_000_000),
            ("\"50Gi\"", 50 << 30),
            ("\"50GiB\"", 50 << 30),
            ("\"1.5TB\"", 1_500_000_000_000),
            ("\"0.5Ki\"", 512),
            ("\"700MB\"", 700_000_000),
            ("\"4096\"", 4096),
            ("53687091200", 50 << 30),
            ("5e10", 50_000_000_000),
        ] {
            let read: DiskSize = decode(json).unwrap();
            assert_eq!(read.bytes(), bytes, "{json}");
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(decode::<DiskSize>(written.as_str()).unwrap(), read, "{json}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_place_and_the_forms_that_are() {
        for json in [
            "0",
            "-1",
            "1.5",
            "null",
            "true",
            "[]",
            "\"\"",
            "\"GB\"",
            "\"-5GB\"",
            "\"5 apples\"",
            "\"1.2.3GB\"",
            "\"5.GB\"",
            "\"0GB\"",
            "\"99999999999TB\"",
        ] {
            let job = format!(
                r#"{{"evalCase": {{"id": "c", "env": {{"kind": "prompt"}}, "task": "t", "resources": {{"disk": {json}}}}},
                    "harness": {{"id": "h", "version": "1"}}}}"#
            );
            let error = decode::<CaseJob>(job.as_str()).unwrap_err();
            assert_eq!(error.path, "evalCase.resources.disk", "{json}: {error}");
            assert!(error.message.contains("50GB"), "{json}: {error}");
        }
    }

    #[test]
    fn a_request_without_a_disk_stays_without() {
        let request: ResourceRequest = decode(r#"{"cpu": 500}"#).unwrap();
        assert_eq!(request.disk, None);
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"cpu":500}"#);
    }
}
