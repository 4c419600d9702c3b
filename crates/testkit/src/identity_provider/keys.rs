//! Keys of a provider, and the ways in which a token may be signed by them or not.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

/// A key of 2048 bits that signs nothing outside tests: making one takes a debug build seconds.
const RSA_KEY: &[u8] = include_bytes!("rsa-2048.pk8");

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// By the P-256 key.
    Es256,
    /// By the RSA key.
    Rs256,
    /// By a P-256 key that is published under another name from now on.
    Rotated,
    /// Not at all.
    None,
    /// By HMAC, with the published RSA modulus as the secret.
    Hs256WithPublicKey,
    /// By a key that is not published, under a name of its own.
    UnknownKey,
    /// By a key that is not published, under the name of one that is.
    ForeignKey,
    /// Rightly, and then a claim was changed.
    Tampered,
}

pub(crate) struct Keys {
    random: SystemRandom,
    curve: EcdsaKeyPair,
    rotated: EcdsaKeyPair,
    foreign: EcdsaKeyPair,
    rsa: RsaKeyPair,
}

impl Keys {
    pub(crate) fn make() -> Self {
        let random = SystemRandom::new();
        let pair = || {
            let made =
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).expect("a key")
        };
        Self {
            curve: pair(),
            rotated: pair(),
            foreign: pair(),
            rsa: RsaKeyPair::from_pkcs8(RSA_KEY).expect("a key"),
            random,
        }
    }

    /// The published set; with `rotated` the newer key is in it, and the older is not.
    pub(crate) fn set(&self, rotated: bool) -> Value {
        let curve = if rotated {
            point("p256-2", &self.rotated)
        } else {
            point("p256-1", &self.curve)
        };
        let rsa = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        json!({"keys": [
            curve,
            {"kty": "RSA", "kid": "rsa-1", "use": "sig", "alg": "RS256", "n": text(&rsa.n), "e": text(&rsa.e)},
        ]})
    }

    pub(crate) fn sign(&self, signed: Signed, claims: &Value) -> String {
        let (alg, kid) = match signed {
            Signed::Es256 | Signed::ForeignKey | Signed::Tampered => ("ES256", "p256-1"),
            Signed::Rs256 => ("RS256", "rsa-1"),
            Signed::Rotated => ("ES256", "p256-2"),
            Signed::None => ("none", "p256-1"),
            Signed::Hs256WithPublicKey => ("HS256", "rsa-1"),
            Signed::UnknownKey => ("ES256", "p256-9"),
        };
        let header = json!({"alg": alg, "kid": kid, "typ": "JWT"});
        let body = format!("{}.{}", text(header.to_string()), text(claims.to_string()));
        let curve = |key: &EcdsaKeyPair| {
            let signature = key.sign(&self.random, body.as_bytes()).expect("a signature");
            signature.as_ref().to_vec()
        };
        let signature = match signed {
            Signed::Es256 | Signed::Tampered => curve(&self.curve),
            Signed::Rotated => curve(&self.rotated),
            Signed::UnknownKey | Signed::ForeignKey => curve(&self.foreign),
            Signed::None => Vec::new(),
            Signed::Rs256 => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa
                    .sign(&RSA_PKCS1_SHA256, &self.random, body.as_bytes(), &mut signature)
                    .expect("a signature");
                signature
            }
            Signed::Hs256WithPublicKey => {
                let public = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
                let key = hmac::Key::new(hmac::HMAC_SHA256, &public.n);
                hmac::sign(&key, body.as_bytes()).as_ref().to_vec()
            }
        };
        let body = match signed {
            Signed::Tampered => {
                let mut other = claims.clone();
                other["sub"] = json!("mallory");
                format!("{}.{}", text(header.to_string()), text(other.to_string()))
            }
            _ => body,
        };
        format!("{body}.{}", text(signature))
    }
}

fn point(kid: &str, key: &EcdsaKeyPair) -> Value {
    let point = key.public_key().as_ref();
    let (x, y) = point[1..].split_at(32);
    json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": text(x), "y": text(y)})
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
