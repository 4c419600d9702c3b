//! What a hub needs to know to start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use everdict_contracts::SecretText;

use crate::oidc::OidcConfig;

/// Settings of a hub; [`HubConfig::new`] fills in what most want.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HubConfig {
    /// Folder of the SQLite database; made when it is missing.
    pub data_dir: PathBuf,
    /// Address of a PostgreSQL database (`postgres://…`) in place of the folder's, for any number of hubs.
    pub database: Option<SecretText>,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// How long a lease lasts without a heartbeat.
    pub lease_ttl: Duration,
    /// How long a job waits for a runner that could run it and shows no sign of life.
    pub idle_timeout: Duration,
    /// Bytes of log kept per run.
    pub log_cap: u64,
    /// How people sign in with an identity provider; `None` leaves them API keys only.
    pub oidc: Option<OidcConfig>,
}

/// Runners beat every third of the TTL, so a cancel is heard within 15 s and a lost runner is noticed
/// within 45 s; two beats may get lost.
const LEASE_TTL: Duration = Duration::from_secs(45);

/// Five minutes: time for somebody to wake a laptop up, short enough not to look like a hang. Clients of
/// the protocol are used to this value.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// 20 MB: far more than a person reads, and a thousand such runs still fit a small disk.
const LOG_CAP: u64 = 20_000_000;

/// The port that clients of the protocol try when none is named.
const PORT: u16 = 8787;

impl HubConfig {
    /// Makes settings with a loopback address and the usual limits.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            database: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            lease_ttl: LEASE_TTL,
            idle_timeout: IDLE_TIMEOUT,
            log_cap: LOG_CAP,
            oidc: None,
        }
    }
}
