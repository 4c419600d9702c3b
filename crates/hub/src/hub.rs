//! Opening, serving and closing a hub.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everdict_contracts::{JobId, RunnerId, SecretText, Subject, WorkspaceId};
use everdict_store::{ApiKeyRow, OpenRun, Outcome, RunStatus, Store, Write};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{self, KeyRing, Role};
use crate::desk::{Desk, OwnDesk, SharedDesk};
use crate::dispatch::class_of;
use crate::error::HubError;
use crate::fs_requests::FsRequests;
use crate::jobs::JobTexts;
use crate::live::LiveRuns;
use crate::mcp::Sessions;
use crate::metrics::Metrics;
use crate::oidc::SignIn;
use crate::peers::{self, News};
use crate::queue::{CapSet, Limits, Member, Owner, Parked, QueueKey, Standing};
use crate::roster::Roster;
use crate::shared::{Hubbed, Shared};
use crate::{HubConfig, api, clock};

/// Name of the stored key that signs session ids.
const SESSION_KEY: &str = "mcp-session-key";

/// How long connections may take to finish after long polls and streams were ended: an answer of a few
/// megabytes on a slow line, and no longer than a person waits for a program to quit.
const DRAIN: Duration = Duration::from_secs(5);

/// A control plane: its state, and the server that speaks for it.
///
/// Needs a Tokio runtime. Call [`Hub::close`] when done; [`Hub::serve`] does not.
#[derive(Debug)]
pub struct Hub {
    shared: Hubbed,
    keeper: TaskTracker,
}

/// An API key to be made.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Workspace it acts in.
    pub workspace: WorkspaceId,
    /// What it may do.
    pub role: Role,
    /// Whom it acts as; `key:<workspace>` when absent. Keys of one subject share runners.
    pub subject: Option<Subject>,
    /// Name for people.
    pub label: String,
}

impl Hub {
    /// Opens the data folder and takes up where the last hub stopped: leases stay with their holders,
    /// and everything that waits gets its full time again.
    ///
    /// # Errors
    /// [`HubError::Store`], whose text names the fix when the folder is not writable or is in use;
    /// [`HubError::BadOidc`].
    pub async fn open(config: HubConfig) -> Result<Self, HubError> {
        let sign_in = config.oidc.clone().map(SignIn::new).transpose()?.map(Arc::new);
        let store = match &config.database {
            Some(address) => Store::connect(address.expose()).await?,
            None => Store::open(&config.data_dir).await?,
        };
        let roster = Roster::new(store.is_shared());
        for runner in store.runners().await? {
            roster.insert(runner);
        }
        roster.remember_removed(store.removed_runners().await?);
        let tasks = TaskTracker::new();
        let desk = desk(&store, &config, &tasks).await?;
        let sessions = Sessions::new(session_key(&store).await?);
        let shared = Arc::new(Shared {
            config,
            store,
            keys: KeyRing::default(),
            sign_in,
            roster,
            desk,
            jobs: JobTexts::default(),
            live: LiveRuns::default(),
            fs: FsRequests::default(),
            sessions,
            metrics: Metrics::default(),
            tasks,
            closing: CancellationToken::new(),
        });
        let keeper = TaskTracker::new();
        let timed = shared.clone();
        keeper.spawn(async move { timed.desk.keep_time(&timed, &timed.closing).await });
        let told = shared.clone();
        keeper.spawn(async move { peers::listen(&told, &told.closing).await });
        keeper.close();
        Ok(Self { shared, keeper })
    }

    /// Listens on the configured address.
    ///
    /// # Errors
    /// [`HubError::PortInUse`] and [`HubError::Listen`].
    pub async fn bind(&self) -> Result<TcpListener, HubError> {
        let address = self.shared.config.listen;
        TcpListener::bind(address)
            .await
            .map_err(|source| listen_error(address, source))
    }

    /// Serves until told to stop; then long polls and streams end at once, and the rest gets a moment.
    ///
    /// # Errors
    /// [`HubError::Serve`] when the listener fails.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), HubError> {
        // Answers are small and waited for: sending them at once matters more than filling packets.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(error = %error, "a connection keeps its delay");
            }
        });
        let closing = self.shared.closing.clone();
        let stop = shutdown.clone();
        let routes = api::router(self.shared.clone()).into_make_service_with_connect_info::<SocketAddr>();
        let server = axum::serve(listener, routes).with_graceful_shutdown(async move {
            stop.cancelled().await;
            closing.cancel();
        });
        let deadline = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = server.into_future() => served.map_err(HubError::Serve),
            () = deadline => Ok(()),
        }
    }

    /// Finishes what was taken in and closes the database.
    pub async fn close(&self) {
        self.shared.closing.cancel();
        self.keeper.wait().await;
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.store.close().await;
    }

    /// Makes an API key for a workspace, acting as `key:<workspace>`.
    ///
    /// # Errors
    /// As [`Hub::add_api_key`].
    pub async fn create_api_key(&self, workspace: &WorkspaceId, role: Role) -> Result<SecretText, HubError> {
        self.add_api_key(NewApiKey {
            workspace: workspace.clone(),
            role,
            subject: None,
            label: String::new(),
        })
        .await
    }

    /// Makes an API key. It is returned once; the hub keeps only its hash.
    ///
    /// # Errors
    /// [`HubError::BadWorkspace`], [`HubError::ReservedSubject`], [`HubError::Store`].
    pub async fn add_api_key(&self, key: NewApiKey) -> Result<SecretText, HubError> {
        let workspace = key.workspace.into_string();
        if !auth::is_workspace_name(&workspace) {
            return Err(HubError::BadWorkspace { workspace });
        }
        let subject = match key.subject {
            Some(subject) => subject.into_string(),
            None => format!("key:{workspace}"),
        };
        if Owner::is_reserved(&subject) || subject.is_empty() {
            return Err(HubError::ReservedSubject { subject });
        }
        let secret = auth::new_secret("ak_");
        let row = ApiKeyRow {
            hash: auth::hash(secret.expose()),
            workspace,
            role: key.role.as_str().to_owned(),
            subject,
            label: key.label,
            created_at: clock::now(),
            last_used_at: None,
            expires_at: None,
        };
        self.shared.store.write(Write::InsertApiKey(row)).await?;
        Ok(secret)
    }

    /// Deletes an API key. Returns false when the hub does not know it.
    ///
    /// # Errors
    /// [`HubError::Store`].
    pub async fn delete_api_key(&self, key: &SecretText) -> Result<bool, HubError> {
        let hash = auth::hash(key.expose());
        let delete = Write::DeleteApiKey { hash: hash.clone() };
        let news = self.shared.news(&[News::KeyGone(hash.clone())]);
        let outcome = self.shared.store.write_telling(delete, news).await?;
        self.shared.keys.forget(&hash);
        Ok(outcome == Outcome::Applied)
    }

    /// Says whether this is the first hub on a database without keys: true for one of several that start at once, and never
    /// again.
    ///
    /// # Errors
    /// [`HubError::Store`].
    pub async fn is_first(&self) -> Result<bool, HubError> {
        let mark = Write::InsertSecret {
            name: "first-hub".to_owned(),
            value: clock::iso(clock::now()),
        };
        let store = &self.shared.store;
        Ok(store.write(mark).await? == Outcome::Applied && !store.has_api_keys().await?)
    }

    /// Says whether a workspace has an API key yet.
    ///
    /// # Errors
    /// [`HubError::Store`].
    pub async fn has_api_key(&self, workspace: &WorkspaceId) -> Result<bool, HubError> {
        Ok(!self.shared.store.api_keys(workspace.as_str()).await?.is_empty())
    }
}

/// The safety net for a hub that was not closed: its clock stops, and with it goes the last hold on the
/// data folder.
impl Drop for Hub {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

fn listen_error(address: SocketAddr, source: io::Error) -> HubError {
    match source.kind() {
        io::ErrorKind::AddrInUse => HubError::PortInUse { address },
        _ => HubError::Listen { address, source },
    }
}

async fn session_key(store: &Store) -> Result<[u8; 32], HubError> {
    let made = URL_SAFE_NO_PAD.encode(auth::random_bytes());
    let name = SESSION_KEY.to_owned();
    store.write(Write::InsertSecret { name, value: made }).await?;
    let stored = store.secret(SESSION_KEY).await?.unwrap_or_default();
    let mut key = [0; 32];
    // A key that does not read back only costs clients a new session each.
    if URL_SAFE_NO_PAD.decode_slice(&stored, &mut key) != Ok(32) {
        key = auth::random_bytes();
    }
    Ok(key)
}

/// A hub alone on its database takes its queue into memory; hubs that share one leave it there.
async fn desk(store: &Store, config: &HubConfig, tasks: &TaskTracker) -> Result<Desk, HubError> {
    let limits = Limits {
        lease_ttl: config.lease_ttl,
        idle_timeout: config.idle_timeout,
    };
    if store.is_shared() {
        let desk = SharedDesk::new(store.clone(), limits, tasks.clone());
        return Ok(Desk::Shared(Arc::new(desk)));
    }
    let desk = OwnDesk::new(limits);
    let recently = i64::try_from(config.idle_timeout.as_millis()).unwrap_or(i64::MAX);
    for run in store.open_runs(clock::now().saturating_sub(recently)).await? {
        let (parked, standing) = restored(run);
        desk.ask(|queue, now| queue.restore(now, parked, standing));
    }
    Ok(Desk::Own(Box::new(desk)))
}

fn restored(run: OpenRun) -> (Parked, Standing) {
    let owner = Owner::parse(&run.owner);
    let key = match run.runner {
        Some(runner) => QueueKey::runner(&Member {
            owner,
            runner: RunnerId::from(runner),
        }),
        None => QueueKey::pool(&owner),
    };
    let standing = match (run.status, run.leased_by) {
        (RunStatus::Running, Some(holder)) => Standing::Leased(RunnerId::from(holder)),
        (RunStatus::Failed, Some(holder)) => Standing::Cancelled(RunnerId::from(holder)),
        _ => Standing::Queued,
    };
    let parked = Parked {
        job: JobId::from(run.id),
        key,
        class: class_of(&run.priority),
        group: run.fair_group,
        needs: CapSet::from_names(&run.required_caps),
        epoch: run.lease_epoch,
        requeues: run.requeues,
    };
    (parked, standing)
}
