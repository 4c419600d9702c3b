//! Opening, closing and writing to the SQLite database.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::writer::{self, Command};
use crate::{Outcome, StoreError, Write, migrate};

/// Name of the database inside the data folder.
const DATABASE: &str = "hub.db";

/// Name of the file whose lock says that a hub is using the folder.
const LOCK: &str = "hub.lock";

/// How long a statement waits for a lock that a backup tool or a shell holds on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Readers at a time. Reads are primary-key look-ups and pages; more would only add threads, of which
/// SQLite needs one per connection.
const READERS: u32 = 3;

/// A handle on the hub's database; clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    readers: SqlitePool,
    commands: mpsc::Sender<Command>,
    tasks: TaskTracker,
    _lock: File,
}

impl Store {
    /// Opens the database in `folder`, creating both where needed, and brings its schema up to date.
    ///
    /// Needs a Tokio runtime; the writer runs on it until [`Store::close`]. Not cancel safe.
    ///
    /// # Errors
    /// [`StoreError::Unwritable`], [`StoreError::InUse`] and [`StoreError::TooNew`] tell a user what to
    /// do; [`StoreError::Database`] is everything else.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        let lock = lock(folder)?;
        let options = SqliteConnectOptions::new()
            .filename(folder.join(DATABASE))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .disable_statement_logging();
        let mut writer: SqliteConnection = options.connect().await?;
        migrate::run(&mut writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .min_connections(1)
            .test_before_acquire(false)
            .connect_with(options.pragma("query_only", "1"))
            .await?;
        let (commands, inbox) = mpsc::channel(writer::QUEUE);
        let tasks = TaskTracker::new();
        tasks.spawn(writer::run(writer, inbox));
        tasks.close();
        Ok(Self {
            inner: Arc::new(Inner {
                readers,
                commands,
                tasks,
                _lock: lock,
            }),
        })
    }

    /// Makes one change and returns once it is committed.
    ///
    /// When the returned future is dropped after its first poll handed the change over, the change is
    /// still made. Changes of one caller are made in the order of the calls.
    ///
    /// # Errors
    /// [`StoreError::Closed`] after [`Store::close`], [`StoreError::Database`] when the statement or the
    /// commit fails.
    pub async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        let (reply, outcome) = oneshot::channel();
        self.inner
            .commands
            .send(Command::Write(write, reply))
            .await
            .map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// Commits what was handed over, then closes the database. Later calls fail with
    /// [`StoreError::Closed`].
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.inner.commands.send(Command::Close(done)).await.is_ok() {
            let _ = closed.await;
        }
        self.inner.tasks.wait().await;
        self.inner.readers.close().await;
    }

    pub(crate) fn readers(&self) -> &SqlitePool {
        &self.inner.readers
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let unwritable = |source| StoreError::Unwritable {
        path: folder.to_owned(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK))
        .map_err(unwritable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(unwritable(source)),
    }
}
