//! Who is calling: credentials, principals and what they may do.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everdict_contracts::{ErrorCode, Fault, SecretText, Subject, WorkspaceId};
use everdict_store::{ApiKeyRow, Millis, Store, StoreError, Write};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::clock;
use crate::queue::Member;

/// Bytes of randomness in a credential: 192 bits cannot be guessed, and make 32 characters.
const SECRET_BYTES: usize = 24;

/// API keys remembered. A hub has a handful; the bound keeps a mistake from growing without end.
const CACHED: usize = 4_096;

/// How often the use of a key is written down: a person looks at days, not seconds.
const USE_INTERVAL_MS: i64 = 60_000;

/// What an API key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, submits, cancels and registers harnesses.
    Member,
    /// Everything.
    Admin,
}

impl Role {
    /// Returns the name used on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }

    /// Reads the name; anything unknown has the fewest rights.
    fn parse(text: &str) -> Self {
        match text {
            "admin" => Self::Admin,
            "member" => Self::Member,
            _ => Self::Viewer,
        }
    }
}

/// Something an API key may or may not do; the names appear in refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    RunsRead,
    RunsSubmit,
    RunsCancel,
    HarnessesRead,
    HarnessesWrite,
    RunnersManage,
    MetricsRead,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::RunsRead => "runs:read",
            Self::RunsSubmit => "runs:submit",
            Self::RunsCancel => "runs:cancel",
            Self::HarnessesRead => "harnesses:read",
            Self::HarnessesWrite => "harnesses:write",
            Self::RunnersManage => "runners:manage",
            Self::MetricsRead => "metrics:read",
        }
    }

    fn least_role(self) -> Role {
        match self {
            // A runner works for whoever paired it, so everybody may pair their own.
            Self::RunsRead | Self::HarnessesRead | Self::RunnersManage => Role::Viewer,
            Self::RunsSubmit | Self::RunsCancel | Self::HarnessesWrite => Role::Member,
            // They count what every workspace does.
            Self::MetricsRead => Role::Admin,
        }
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principal {
    Key {
        subject: Subject,
        workspace: WorkspaceId,
        role: Role,
    },
    /// A runner token: it may lease and report, nothing else.
    Runner { member: Member, workspace: WorkspaceId },
}

impl Principal {
    pub(crate) fn workspace(&self) -> &WorkspaceId {
        match self {
            Self::Key { workspace, .. } | Self::Runner { workspace, .. } => workspace,
        }
    }

    pub(crate) fn role_name(&self) -> &'static str {
        match self {
            Self::Key { role, .. } => role.as_str(),
            Self::Runner { .. } => "runner",
        }
    }

    /// Checks that the caller may do something, and names the subject it acts as.
    pub(crate) fn allow(&self, action: Action) -> Result<&Subject, Fault> {
        match self {
            Self::Key { subject, role, .. } if *role >= action.least_role() => Ok(subject),
            Self::Key { .. } | Self::Runner { .. } => Err(self.refusal(action)),
        }
    }

    fn refusal(&self, action: Action) -> Fault {
        let name = action.name();
        Fault::new(
            ErrorCode::Forbidden,
            format!("You do not have permission for this action ({name})."),
        )
        .with_data("workspace", self.workspace().as_str())
        .with_data("roles", vec![self.role_name()])
        .with_data("action", name)
    }

    /// Text that tells principals apart, to bind a session to one.
    pub(crate) fn fingerprint(&self) -> String {
        match self {
            Self::Key {
                subject, workspace, ..
            } => format!("key\0{workspace}\0{subject}"),
            Self::Runner { member, .. } => format!("runner\0{}\0{}", member.owner, member.runner),
        }
    }
}

#[derive(Debug)]
struct Known {
    principal: Arc<Principal>,
    used_at: AtomicI64,
    expires_at: Option<Millis>,
}

/// Looks API keys up, remembering those it has seen.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    known: Mutex<HashMap<String, Arc<Known>>>,
}

impl KeyRing {
    /// Finds the principal of an API key; there is none once the key's time is over.
    pub(crate) async fn find(&self, store: &Store, hash: &str) -> Result<Option<Arc<Principal>>, StoreError> {
        let known = self.known().get(hash).cloned();
        let known = match known {
            Some(known) => known,
            None => {
                let Some(row) = store.api_key(hash).await? else {
                    return Ok(None);
                };
                self.remember(row)
            }
        };
        let now = clock::now();
        if known.expires_at.is_some_and(|end| end <= now) {
            self.forget(hash);
            return Ok(None);
        }
        if now - known.used_at.swap(now, Ordering::Relaxed) >= USE_INTERVAL_MS {
            let hash = hash.to_owned();
            store.write(Write::TouchApiKey { hash, at: now }).await?;
        }
        Ok(Some(known.principal.clone()))
    }

    fn remember(&self, row: ApiKeyRow) -> Arc<Known> {
        let known = Arc::new(Known {
            principal: Arc::new(Principal::Key {
                subject: Subject::from(row.subject),
                workspace: WorkspaceId::from(row.workspace),
                role: Role::parse(&row.role),
            }),
            used_at: AtomicI64::new(row.last_used_at.unwrap_or_default()),
            expires_at: row.expires_at,
        });
        let mut ring = self.known();
        if ring.len() >= CACHED {
            ring.clear();
        }
        ring.insert(row.hash, known.clone());
        known
    }

    /// Forgets a key that was deleted.
    pub(crate) fn forget(&self, hash: &str) {
        self.known().remove(hash);
    }

    /// Forgets every key; each is read again when it is next used.
    pub(crate) fn forget_all(&self) {
        self.known().clear();
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether a text can name a workspace.
pub(crate) fn is_workspace_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.bytes().all(plain)
}

/// Makes a credential with this prefix.
pub(crate) fn new_secret(prefix: &str) -> SecretText {
    let random = random_bytes();
    let text = URL_SAFE_NO_PAD.encode(&random[..SECRET_BYTES]);
    SecretText::from(format!("{prefix}{text}"))
}

/// 32 bytes from the operating system's generator, by way of two random UUIDs.
pub(crate) fn random_bytes() -> [u8; 32] {
    let mut mix = Sha256::new();
    mix.update(Uuid::new_v4().as_bytes());
    mix.update(Uuid::new_v4().as_bytes());
    mix.finalize().into()
}

/// The form in which a credential is stored: lower-case hex of its SHA-256.
pub(crate) fn hash(credential: &str) -> String {
    let digest = Sha256::digest(credential.as_bytes());
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(role: Role) -> Principal {
        Principal::Key {
            subject: Subject::from("ann"),
            workspace: WorkspaceId::from("acme"),
            role,
        }
    }

    #[test]
    fn credentials_have_the_shape_that_clients_check() {
        let secret = new_secret("rnr_");
        let text = secret.expose();
        assert_eq!(text.len(), 36);
        assert!(text.strip_prefix("rnr_").is_some_and(|rest| {
            rest.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        }));
        assert_ne!(text, new_secret("rnr_").expose());
    }

    #[test]
    fn a_hash_is_the_hex_of_sha_256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc"), expected);
    }

    #[test]
    fn a_viewer_reads_and_a_member_submits() {
        key(Role::Viewer).allow(Action::RunsRead).unwrap();
        let refused = key(Role::Viewer).allow(Action::RunsSubmit).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Forbidden);
        key(Role::Member).allow(Action::RunsSubmit).unwrap();
    }

    #[test]
    fn a_runner_token_may_not_even_read() {
        let runner = Principal::Runner {
            member: Member {
                owner: crate::queue::Owner::parse("ann"),
                runner: "r-1".into(),
            },
            workspace: WorkspaceId::from("acme"),
        };
        let refused = runner.allow(Action::RunnersManage).unwrap_err();
        assert!(refused.message.contains("runners:manage"));
    }
}
