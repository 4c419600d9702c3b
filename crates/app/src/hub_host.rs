//! The embedded hub in this process.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{SecretText, WorkspaceId};
use everdict_hub::{Hub, HubConfig, HubError, OidcConfig, Role};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::hub_url;
use crate::private_file;
use crate::problem::{Problem, Result};

/// How to start a hub.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// Folder of its database.
    pub data_dir: PathBuf,
    /// Address of a PostgreSQL database in place of the folder's.
    pub database: Option<SecretString>,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How long a lease lives without a heartbeat; `None` for the hub's own default.
    pub lease_ttl: Option<Duration>,
    /// How people sign in; `None` leaves them API keys only.
    pub oidc: Option<OidcConfig>,
}

impl HubOptions {
    fn config(&self) -> HubConfig {
        let mut config = HubConfig::new(&self.data_dir);
        config.listen = self.listen;
        config.database = self
            .database
            .as_ref()
            .map(|address| SecretText::new(address.expose_secret()));
        config.oidc.clone_from(&self.oidc);
        if let Some(ttl) = self.lease_ttl {
            config.lease_ttl = ttl;
        }
        config
    }
}

/// A hub that serves until stopped. Dropping it cuts it off.
pub struct HubHost {
    hub: Arc<Hub>,
    is_new: bool,
    url: Url,
    shutdown: CancellationToken,
    serving: JoinSet<Result<(), HubError>>,
}

impl HubHost {
    /// Opens the database, takes the port and serves.
    ///
    /// # Errors
    /// A problem about this machine: the folder, or the port with the fix.
    pub async fn start(options: &HubOptions) -> Result<Self> {
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(|error| unbindable(options.listen, error))?;
        let untouched = std::fs::read_dir(&options.data_dir).map_or(true, |mut files| files.next().is_none());
        let hub = Arc::new(open(options).await?);
        let is_new = match &options.database {
            Some(_) => hub.is_first().await.map_err(broken)?,
            None => untouched,
        };
        let address = listener
            .local_addr()
            .map_err(|error| unbindable(options.listen, error))?;
        let url = hub_url::parse(&format!("http://{address}"))?;
        let shutdown = CancellationToken::new();
        let mut serving = JoinSet::new();
        let (server, stop) = (Arc::clone(&hub), shutdown.clone());
        serving.spawn(async move { server.serve(listener, stop).await });
        Ok(Self {
            hub,
            is_new,
            url,
            shutdown,
            serving,
        })
    }

    /// Returns the address it is reached at.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Tells whether its database is new.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Deletes an API key; one that the hub doesn't know is fine.
    ///
    /// # Errors
    /// A problem about this machine.
    pub async fn delete_api_key(&self, key: &SecretString) -> Result<()> {
        let key = SecretText::new(key.expose_secret());
        self.hub.delete_api_key(&key).await.map(drop).map_err(broken)
    }

    /// Makes an API key; it can't be read again.
    ///
    /// # Errors
    /// Input when the workspace or role is no good, else a problem about this machine.
    pub async fn create_api_key(&self, workspace: &str, role: &str) -> Result<SecretString> {
        create(&self.hub, workspace, role).await
    }

    /// Makes the first API key of a new database; none for one that was there before.
    ///
    /// # Errors
    /// As [`HubHost::create_api_key`].
    pub async fn first_api_key(&self, workspace: &str) -> Result<Option<SecretString>> {
        if !self.is_new {
            return Ok(None);
        }
        self.create_api_key(workspace, "admin").await.map(Some)
    }

    /// Waits until serving ends, which without [`HubHost::stop`] is a failure. Cancel safe.
    ///
    /// # Errors
    /// Why it ended.
    pub async fn ended(&mut self) -> Result<()> {
        match self.serving.join_next().await {
            Some(Ok(Ok(()))) | None => Ok(()),
            Some(Ok(Err(error))) => Err(broken(error)),
            Some(Err(panicked)) => Err(Problem::machine("the hub stopped").because(panicked)),
        }
    }

    /// Takes no more requests, answers the open ones and closes the database.
    ///
    /// # Errors
    /// What went wrong while closing.
    pub async fn stop(mut self) -> Result<()> {
        self.shutdown.cancel();
        let ended = self.ended().await;
        self.hub.close().await;
        ended
    }
}

/// Makes an API key in the database of a hub that may be running elsewhere.
///
/// # Errors
/// As [`HubHost::create_api_key`].
pub async fn create_api_key(options: &HubOptions, workspace: &str, role: &str) -> Result<SecretString> {
    let hub = open(options).await?;
    let made = create(&hub, workspace, role).await;
    hub.close().await;
    made
}

/// Copies the database of a hub that may be running into a new file.
///
/// # Errors
/// Input when it is a PostgreSQL database or the file exists, else a problem about this machine.
pub async fn backup_hub(options: &HubOptions, file: &Path) -> Result<()> {
    if options.database.is_some() {
        return Err(
            Problem::input("a PostgreSQL database is backed up by its own programs").fix("use pg_dump"),
        );
    }
    if file.exists() {
        let what = format!("{} is there already", file.display());
        return Err(Problem::input(what).fix("name a file that doesn't exist yet"));
    }
    let copied = everdict_hub::backup(&options.data_dir, file).await;
    copied.map_err(|error| {
        let what = format!(
            "the database in {} can't be copied to {}",
            options.data_dir.display(),
            file.display()
        );
        Problem::machine(what)
            .fix("see that a hub has run there (--data-dir) and that this user may write the file")
            .because(error)
    })
}

async fn open(options: &HubOptions) -> Result<Hub> {
    if options.database.is_none() {
        private_file::prepare_dir(&options.data_dir)?;
    }
    Hub::open(options.config()).await.map_err(broken)
}

async fn create(hub: &Hub, workspace: &str, role: &str) -> Result<SecretString> {
    let role = [Role::Admin, Role::Member, Role::Viewer]
        .into_iter()
        .find(|known| known.as_str() == role)
        .ok_or_else(|| {
            Problem::input(format!("there is no role \"{role}\"")).fix("use admin, member or viewer")
        })?;
    let made = hub
        .create_api_key(&WorkspaceId::from(workspace), role)
        .await
        .map_err(broken)?;
    Ok(SecretString::from(made.expose().to_owned()))
}

fn broken(error: HubError) -> Problem {
    match error {
        HubError::BadWorkspace { .. } | HubError::ReservedSubject { .. } => {
            Problem::input(format!("can't {error}")).fix("choose another workspace name")
        }
        HubError::BadOidc { why } => Problem::input(format!("nobody can sign in to the hub: {why}"))
            .fix("correct the table [oidc] in settings.toml, or empty oidc.issuer"),
        // The store's own words carry the fix: which folder, who holds it, which version.
        HubError::Store(_) => Problem::machine("the hub's database can't be used")
            .fix("do what the cause says; --data-dir names another folder, --database another server")
            .because(error),
        _ => Problem::machine("the hub can't serve").because(error),
    }
}

fn unbindable(address: SocketAddr, error: io::Error) -> Problem {
    let (what, fix) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            format!("port {} is in use at {}", address.port(), address.ip()),
            "stop the other program, or choose another port with --listen (port 0 takes a free one)",
        ),
        io::ErrorKind::PermissionDenied => (
            format!("this user may not listen on {address}"),
            "choose a port above 1023 with --listen",
        ),
        io::ErrorKind::AddrNotAvailable => (
            format!("{} is no address of this machine", address.ip()),
            "use 127.0.0.1, or an address that `ip addr` lists",
        ),
        _ => (
            format!("can't listen on {address}"),
            "choose another address with --listen",
        ),
    };
    let problem = Problem::machine(what).fix(fix);
    let problem = match error.kind() {
        io::ErrorKind::AddrInUse => problem.coded("port_in_use"),
        _ => problem,
    };
    problem.because(error)
}
