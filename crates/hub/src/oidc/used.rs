//! Tokens that were taken: each counts once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Doubt;

/// Tokens remembered. Each was signed by the provider for a person, so this many in ten minutes means that no more
/// people than that can sign in; beyond it nobody can until the oldest are over.
const REMEMBERED: usize = 65_536;

/// See the module. Forgotten with the process; by then a token is at most ten minutes from too old.
#[derive(Debug, Default)]
pub(super) struct UsedTokens(Mutex<HashMap<[u8; 32], i64>>);

impl UsedTokens {
    /// Takes a token, unless it was taken before. It is remembered until the second `until`.
    pub(super) fn take(&self, digest: [u8; 32], until: i64, now: i64) -> Result<(), Doubt> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= REMEMBERED {
            used.retain(|_, until| *until > now);
        }
        if used.len() >= REMEMBERED || used.contains_key(&digest) {
            return Err(Doubt::Replayed);
        }
        used.insert(digest, until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_once() {
        let used = UsedTokens::default();
        used.take([1; 32], 10, 0).unwrap();
        used.take([2; 32], 10, 0).unwrap();
        assert_eq!(used.take([1; 32], 10, 5), Err(Doubt::Replayed));
    }
}
