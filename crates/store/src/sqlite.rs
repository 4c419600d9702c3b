//! Opening the SQLite database of a single hub.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection as _, SqliteConnection};

use crate::{StoreError, migrate};

/// Name of the database inside the data folder.
const DATABASE: &str = "hub.db";

/// Name of the file whose lock says that a hub is using the folder.
const LOCK: &str = "hub.lock";

/// How long a statement waits for a lock that a backup tool or a shell holds on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Readers at a time. Reads are primary-key look-ups and pages; more would only add threads, of which
/// SQLite needs one per connection.
const READERS: u32 = 3;

/// Reads, and the hold on the folder.
#[derive(Debug)]
pub(crate) struct Readers {
    pub(crate) pool: SqlitePool,
    _lock: File,
}

pub(crate) async fn open(folder: &Path) -> Result<(Readers, SqliteConnection), StoreError> {
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
    let pool = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(1)
        .test_before_acquire(false)
        .connect_with(options.pragma("query_only", "1"))
        .await?;
    Ok((Readers { pool, _lock: lock }, writer))
}

/// Copies the database in `folder`, whether a hub uses it or not, into a new file.
///
/// # Errors
/// [`StoreError::Database`] when there is no database, or the file exists or cannot be written.
pub async fn backup(folder: &Path, file: &Path) -> Result<(), StoreError> {
    let mut connection = SqliteConnectOptions::new()
        .filename(folder.join(DATABASE))
        .read_only(true)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
        .connect()
        .await?;
    // One transaction for the reader, so one moment of the database.
    sqlx::query("VACUUM INTO $1")
        .bind(file.display().to_string())
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    Ok(())
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
