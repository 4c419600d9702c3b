//! Digests that tell whether two resolved specs are the same without keeping what is in them.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Block length of SHA-256, which HMAC pads its key to (RFC 2104).
const BLOCK: usize = 64;

/// SHA-256 of a resolved spec, in which every value that may be a secret stands as its HMAC.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpecDigest(String);

impl SpecDigest {
    pub(crate) fn of(canonical: &[u8]) -> Self {
        Self(hex(&Sha256::digest(canonical)))
    }

    /// Returns 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SpecDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key that stays on this machine, so that a digest in a label can't be tried against guessed secrets.
#[derive(Clone)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// Wraps 32 random bytes, to be kept in the state folder.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the HMAC-SHA256 of `text` as 64 hex digits.
    pub fn hide(&self, text: &str) -> String {
        hex(&hmac_sha256(&self.0, text.as_bytes()))
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Returns the first `digits` hex digits of the SHA-256 of the parts, which can't run into each other.
pub(crate) fn short_hash(parts: &[&str], digits: usize) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut text = hex(&hasher.finalize());
    text.truncate(digits);
    text
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut padded = [0_u8; BLOCK];
    if key.len() > BLOCK {
        padded[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        padded[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new()
        .chain_update(padded.map(|byte| byte ^ 0x36))
        .chain_update(message)
        .finalize();
    Sha256::new()
        .chain_update(padded.map(|byte| byte ^ 0x5c))
        .chain_update(inner)
        .finalize()
        .into()
}

/// Returns bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            write!(text, "{byte:02x}").expect("BUG: writing to a string can't fail");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test cases of RFC 4231, section 4.
    #[test]
    fn hmac_agrees_with_the_rfc() {
        let cases: [(Vec<u8>, &[u8], &str); 3] = [
            (
                vec![0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, message, expected) in cases {
            assert_eq!(hex(&hmac_sha256(&key, message)), expected);
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(short_hash(&["ab", "c"], 20), short_hash(&["a", "bc"], 20));
        assert_eq!(short_hash(&["ab", "c"], 20).len(), 20);
    }

    #[test]
    fn a_secret_is_hidden_by_the_key_and_the_key_does_not_show() {
        let key = DigestKey::new([1; 32]);
        assert_ne!(key.hide("s3cret"), DigestKey::new([2; 32]).hide("s3cret"));
        assert_eq!(format!("{key:?}"), "[redacted]");
    }
}
