//! The three secrets of one sign-in: state, nonce, and the verifier of PKCE (RFC 7636).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Made anew for each sign-in, and never written anywhere.
pub(super) struct Challenge {
    /// Comes back with the browser: only an answer to our own question is heard.
    pub(super) state: String,
    /// Comes back inside the ID token: only a token of this sign-in counts.
    pub(super) nonce: String,
    /// Shown at the token endpoint: a code that was seen on the way is of no use to others.
    pub(super) verifier: String,
}

impl Challenge {
    pub(super) fn make() -> Self {
        Self {
            state: random(),
            nonce: random(),
            verifier: random(),
        }
    }

    /// What the provider gets of the verifier (`S256`).
    pub(super) fn of_verifier(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }
}

/// 43 characters from 244 random bits of the system's generator, by way of two random UUIDs.
fn random() -> String {
    let mut mix = Sha256::new();
    mix.update(Uuid::new_v4().as_bytes());
    mix.update(Uuid::new_v4().as_bytes());
    URL_SAFE_NO_PAD.encode(mix.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_specification() {
        // RFC 7636, appendix B.
        let challenge = Challenge {
            state: String::new(),
            nonce: String::new(),
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
        };
        assert_eq!(
            challenge.of_verifier(),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn no_two_secrets_are_alike_and_each_is_long_enough() {
        let (one, two) = (Challenge::make(), Challenge::make());
        let all = [
            &one.state,
            &one.nonce,
            &one.verifier,
            &two.state,
            &two.nonce,
            &two.verifier,
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert!(all.iter().all(|secret| secret.len() == 43));
    }
}
