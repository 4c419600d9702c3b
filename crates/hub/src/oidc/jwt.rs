//! A JSON web token, taken apart but not believed (RFC 7515, compact form).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::Doubt;

/// Far beyond any real ID token; providers with hundreds of groups stay below 20 KiB.
const MAX_TOKEN: usize = 48 << 10;

/// The algorithms that count: a signature by a private key of the provider, and never what the token's own header
/// would rather have (`none`, or an HMAC with the public key as its secret).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood; none is.
    crit: Option<serde_json::Value>,
    /// Base64url of the payload switched off (RFC 7797).
    b64: Option<bool>,
}

/// See the module.
pub(super) struct Token {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    /// Header and payload as they were signed.
    pub(super) signed: String,
    pub(super) signature: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Token {
    pub(super) fn parse(text: &str) -> Result<Self, Doubt> {
        if text.len() > MAX_TOKEN {
            return Err(Doubt::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Doubt::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(Doubt::Malformed)?;
        if payload.contains('.') {
            return Err(Doubt::Malformed);
        }
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Doubt::Malformed);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| Doubt::Malformed)?;
        let algorithm = match header.alg.as_str() {
            "RS256" => Algorithm::Rs256,
            "ES256" => Algorithm::Es256,
            _ => return Err(Doubt::Algorithm),
        };
        if header.crit.is_some() || header.b64 == Some(false) {
            return Err(Doubt::Algorithm);
        }
        Ok(Self {
            algorithm,
            kid: header.kid,
            signed: signed.to_owned(),
            signature: decode(signature)?,
            payload: decode(payload)?,
        })
    }

    /// Tells tokens apart by what was signed: an ECDSA signature can be changed without breaking it.
    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.signed.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str) -> Result<Token, Doubt> {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        Token::parse(&format!("{}.{}.{}", part(header), part("{}"), part("s")))
    }

    fn doubt(header: &str) -> Doubt {
        match token(header) {
            Ok(_) => panic!("{header} was taken"),
            Err(doubt) => doubt,
        }
    }

    #[test]
    fn only_signatures_by_a_private_key_are_looked_at() {
        assert_eq!(
            token(r#"{"alg":"ES256","kid":"a"}"#).unwrap().kid.as_deref(),
            Some("a")
        );
        for alg in ["none", "None", "HS256", "RS512", "PS256", "EdDSA", "rs256", ""] {
            assert_eq!(doubt(&format!(r#"{{"alg":"{alg}"}}"#)), Doubt::Algorithm, "{alg}");
        }
        assert_eq!(doubt(r#"{"alg":"RS256","crit":["exp"]}"#), Doubt::Algorithm);
        assert_eq!(doubt(r#"{"alg":"RS256","b64":false}"#), Doubt::Algorithm);
    }

    #[test]
    fn what_has_not_three_parts_is_no_token() {
        for text in [
            "",
            "a",
            "a.b",
            "..",
            "a.b.c",
            "e30.e30.e30.e30",
            "e30=.e30.e30",
            "{}.{}.{}",
        ] {
            assert!(matches!(Token::parse(text), Err(Doubt::Malformed)), "{text}");
        }
        assert!(matches!(
            Token::parse(&"a".repeat(MAX_TOKEN + 1)),
            Err(Doubt::Malformed)
        ));
    }
}
