//! The provider's public keys (RFC 7517), and whether one of them signed a token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::Doubt;
use super::jwt::{Algorithm, Token};

/// Bytes of one coordinate on P-256.
const COORDINATE: usize = 32;

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Debug)]
enum Public {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
}

#[derive(Debug)]
struct Key {
    kid: Option<String>,
    public: Public,
}

/// A set of keys for signatures; of other uses, kinds and curves none is kept.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// Reads a set. `None` when it is none.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let document: Document = serde_json::from_slice(json).ok()?;
        let known = document.keys.into_iter().filter_map(|key| {
            let jwk: Jwk = serde_json::from_value(key).ok()?;
            Some(Key {
                public: public(&jwk)?,
                kid: jwk.kid,
            })
        });
        Some(Self(known.collect()))
    }

    /// Whether there is a key that the token may be signed by.
    pub(super) fn has_key_for(&self, token: &Token) -> bool {
        self.find(token).is_some()
    }

    /// Checks the signature.
    pub(super) fn verify(&self, token: &Token) -> Result<(), Doubt> {
        let key = self.find(token).ok_or(Doubt::UnknownKey)?;
        let signed = token.signed.as_bytes();
        let verified = match &key.public {
            Public::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, &token.signature)
            }
            Public::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, &token.signature)
            }
        };
        verified.map_err(|_| Doubt::Signature)
    }

    /// The key that the token names; one that names none can only mean the only one of its kind.
    fn find(&self, token: &Token) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| key.public.fits(token.algorithm));
        match &token.kid {
            Some(kid) => fitting.find(|key| key.kid.as_ref() == Some(kid)),
            None => {
                let only = fitting.next();
                only.filter(|_| fitting.next().is_none())
            }
        }
    }
}

impl Public {
    fn fits(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Rsa { .. }, Algorithm::Rs256) | (Self::P256(_), Algorithm::Es256)
        )
    }
}

fn public(jwk: &Jwk) -> Option<Public> {
    if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let for_algorithm = |algorithm: Algorithm| jwk.alg.as_deref().is_none_or(|alg| alg == algorithm.name());
    match jwk.kty.as_str() {
        "RSA" if for_algorithm(Algorithm::Rs256) => Some(Public::Rsa {
            n: without_zeros(decode(&jwk.n)?),
            e: without_zeros(decode(&jwk.e)?),
        }),
        "EC" if jwk.crv.as_deref() == Some("P-256") && for_algorithm(Algorithm::Es256) => {
            let (x, y) = (decode(&jwk.x)?, decode(&jwk.y)?);
            if x.len() != COORDINATE || y.len() != COORDINATE {
                return None;
            }
            Some(Public::P256([&[4], x.as_slice(), y.as_slice()].concat()))
        }
        _ => None,
    }
}

fn decode(text: &Option<String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.as_ref()?).ok()
}

/// Some providers write a sign byte in front, which the check of the signature doesn't take.
fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_for_other_uses_and_of_other_kinds_are_left_out() {
        let point = "A".repeat(43);
        let set = json!({"keys": [
            {"kty": "RSA", "kid": "good", "n": "AQAB", "e": "AQAB"},
            {"kty": "RSA", "kid": "enc", "use": "enc", "n": "AQAB", "e": "AQAB"},
            {"kty": "RSA", "kid": "pss", "alg": "PS256", "n": "AQAB", "e": "AQAB"},
            {"kty": "EC", "kid": "curve", "crv": "P-521", "x": "AA", "y": "AA"},
            {"kty": "EC", "kid": "short", "crv": "P-256", "x": "AA", "y": "AA"},
            {"kty": "EC", "kid": "point", "crv": "P-256", "x": point, "y": point},
            {"kty": "oct", "kid": "shared", "k": "AQAB"},
            "nonsense", 7,
        ]});
        let keys = Keys::parse(set.to_string().as_bytes()).unwrap();
        let kept: Vec<_> = keys.0.iter().filter_map(|key| key.kid.as_deref()).collect();
        assert_eq!(kept, ["good", "point"]);
        for bad in ["", "<html>", "[]", "{}", r#"{"keys":{}}"#] {
            assert!(Keys::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
