//! What an ID token says (OpenID Connect Core 2 and 3.1.3.7), and what follows from it here.

use everdict_contracts::{ErrorCode, Fault, Subject, WorkspaceId};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::jwt::Token;
use super::{Doubt, OidcConfig};
use crate::auth::{self, Role};

/// Seconds by which two clocks may differ: more than any machine that keeps its time, too little to matter.
const LEEWAY_S: i64 = 60;

/// Seconds between issue and use. The app hands a token over as it gets it; a slow line needs seconds.
const MAX_AGE_S: i64 = 600;

/// Longest `sub` (OpenID Connect Core 2).
const MAX_SUBJECT: usize = 255;

/// Longest name of a key, as for runners.
const MAX_LABEL: usize = 80;

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// See the module.
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    nonce: Option<String>,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Who signed in, and as what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) subject: Subject,
    pub(super) workspace: WorkspaceId,
    pub(super) role: Role,
    /// Name for people.
    pub(super) label: String,
}

/// Reads the claims of a token whose signature holds.
pub(super) fn read(token: &Token) -> Result<Claims, Doubt> {
    serde_json::from_slice(&token.payload).map_err(|_| Doubt::Malformed)
}

impl Claims {
    /// Checks that the token is this provider's, for this client, of this sign-in, and of now.
    pub(super) fn check(&self, config: &OidcConfig, nonce: &str, now: i64) -> Result<(), Doubt> {
        if self.iss != config.issuer {
            return Err(Doubt::Issuer);
        }
        if !self.is_for(&config.client_id) {
            return Err(Doubt::Audience);
        }
        if nonce.is_empty() || self.nonce.as_deref() != Some(nonce) {
            return Err(Doubt::Nonce);
        }
        // Moments may have fractions (RFC 7519, NumericDate); as numbers of any size they compare without overflow.
        let (now, leeway) = (now as f64, LEEWAY_S as f64);
        if self.exp <= now - leeway {
            return Err(Doubt::Expired);
        }
        if self.iat > now + leeway || self.nbf.is_some_and(|start| start > now + leeway) {
            return Err(Doubt::NotYetValid);
        }
        if self.iat < now - leeway - MAX_AGE_S as f64 {
            return Err(Doubt::TooOld);
        }
        let named = !self.sub.is_empty() && self.sub.len() <= MAX_SUBJECT;
        if !named || self.sub.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Doubt::Subject);
        }
        Ok(())
    }

    fn is_for(&self, client: &str) -> bool {
        let (named, others) = match &self.aud {
            Audience::One(one) => (one == client, false),
            Audience::Many(many) => (many.iter().any(|one| one == client), many.len() > 1),
        };
        named
            && match &self.azp {
                Some(party) => party == client,
                None => !others,
            }
    }

    /// The second from which the token is refused by its age or its expiry anyway.
    pub(super) fn forget_at(&self, now: i64) -> i64 {
        now + MAX_AGE_S + 2 * LEEWAY_S
    }

    /// Finds what the person may do, and where.
    pub(super) fn person(&self, config: &OidcConfig) -> Result<Person, Fault> {
        let role = self.role(config).ok_or_else(|| {
            refused(
                "no_role",
                "nothing at this hub is open to you: ask whoever runs it for a role",
            )
        })?;
        let workspace = match &config.workspace_claim {
            None => config.workspace.clone(),
            Some(claim) => match self.rest.get(claim).and_then(Value::as_str) {
                Some(name) if auth::is_workspace_name(name) => WorkspaceId::from(name),
                _ => {
                    return Err(refused(
                        "no_workspace",
                        "your account names no workspace of this hub: ask whoever runs it",
                    ));
                }
            },
        };
        Ok(Person {
            subject: Subject::from(format!("oidc:{}", self.sub)),
            workspace,
            role,
            label: self.label(),
        })
    }

    fn role(&self, config: &OidcConfig) -> Option<Role> {
        let values: Vec<&str> = match config.role_claim.as_ref().and_then(|claim| self.rest.get(claim)) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        config
            .roles
            .iter()
            .filter(|(value, _)| values.contains(&value.as_str()))
            .map(|(_, role)| *role)
            .max()
            .or(config.role)
    }

    fn label(&self) -> String {
        let named = ["email", "preferred_username", "name"]
            .iter()
            .find_map(|claim| self.rest.get(*claim)?.as_str())
            .unwrap_or_default();
        let plain = named.chars().filter(|c| !c.is_control());
        plain.take(MAX_LABEL).collect()
    }
}

fn refused(reason: &str, text: &str) -> Fault {
    Fault::new(ErrorCode::Forbidden, text).with_data("reason", reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn config() -> OidcConfig {
        OidcConfig::new("https://id.example", "runner-app")
    }

    fn claims(change: Value) -> Claims {
        let mut all = json!({
            "iss": "https://id.example", "sub": "u-1", "aud": "runner-app", "nonce": "n",
            "exp": NOW + 300, "iat": NOW,
        });
        for (name, value) in change.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    fn doubt(change: Value) -> Option<Doubt> {
        claims(change).check(&config(), "n", NOW).err()
    }

    #[test]
    fn each_claim_is_held_against_what_was_asked() {
        for (change, found) in [
            (json!({}), None),
            (json!({"iss": "https://id.example/"}), Some(Doubt::Issuer)),
            (json!({"aud": "other"}), Some(Doubt::Audience)),
            (json!({"aud": []}), Some(Doubt::Audience)),
            (json!({"aud": ["runner-app"]}), None),
            (json!({"aud": ["runner-app", "other"]}), Some(Doubt::Audience)),
            (json!({"aud": ["runner-app", "other"], "azp": "runner-app"}), None),
            (json!({"azp": "other"}), Some(Doubt::Audience)),
            (json!({"nonce": "m"}), Some(Doubt::Nonce)),
            (json!({"nonce": null}), Some(Doubt::Nonce)),
            (json!({"exp": NOW - 59}), None),
            (json!({"exp": NOW - 60}), Some(Doubt::Expired)),
            (json!({"exp": -1e300}), Some(Doubt::Expired)),
            (json!({"iat": NOW + 60}), None),
            (json!({"iat": NOW + 61}), Some(Doubt::NotYetValid)),
            (json!({"nbf": NOW + 61}), Some(Doubt::NotYetValid)),
            (json!({"iat": NOW - 661}), Some(Doubt::TooOld)),
            (json!({"iat": NOW as f64 - 0.5}), None),
            (json!({"sub": ""}), Some(Doubt::Subject)),
            (json!({"sub": "a\nb"}), Some(Doubt::Subject)),
            (json!({"sub": "x".repeat(256)}), Some(Doubt::Subject)),
        ] {
            assert_eq!(doubt(change.clone()), found, "{change}");
        }
        assert_eq!(
            claims(json!({"nonce": ""})).check(&config(), "", NOW).err(),
            Some(Doubt::Nonce)
        );
    }

    #[test]
    fn the_strongest_role_of_a_claim_counts_and_nobody_else_comes_in() {
        let mut config = config();
        config.role = None;
        config.role_claim = Some("groups".into());
        config.roles = vec![("staff".into(), Role::Viewer), ("ops".into(), Role::Admin)];
        let role = |groups: Value| {
            claims(json!({"groups": groups}))
                .person(&config)
                .map(|person| person.role)
                .map_err(|fault| fault.code)
        };
        assert_eq!(role(json!(["ops", "staff"])), Ok(Role::Admin));
        assert_eq!(role(json!("staff")), Ok(Role::Viewer));
        for none in [json!([]), json!("opsy"), json!({"ops": 1}), Value::Null] {
            assert_eq!(role(none), Err(ErrorCode::Forbidden));
        }
    }

    #[test]
    fn a_workspace_from_a_claim_must_be_a_name() {
        let mut config = config();
        config.workspace_claim = Some("team".into());
        let workspace = |team: Value| {
            let person = claims(json!({"team": team, "email": "ann@x\u{7}.example"})).person(&config);
            person.map(|person| (person.workspace.to_string(), person.label))
        };
        let found = workspace(json!("acme")).unwrap();
        assert_eq!(found, ("acme".to_owned(), "ann@x.example".to_owned()));
        for bad in [json!("a b"), json!(""), json!(7), Value::Null] {
            assert_eq!(workspace(bad).unwrap_err().code, ErrorCode::Forbidden);
        }
    }
}
