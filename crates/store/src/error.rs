//! What can go wrong in the store.

use std::io;
use std::path::PathBuf;

/// A failure of the hub's database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The data folder cannot be created or written.
    #[error(
        "write to the data folder {}: make the folder writable for this user or choose another one",
        path.display()
    )]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Another process holds the data folder.
    #[error(
        "lock the data folder {}: another hub is using it, stop that one or choose another folder",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The database was written by a newer version of this program.
    #[error("open a database of schema {found}: this version knows up to {known}, upgrade it")]
    TooNew {
        /// Schema version in the file.
        found: i64,
        /// Highest version this build knows.
        known: i64,
    },
    /// An address that names no PostgreSQL database.
    #[error("read the database's address: it has to look like postgres://user@host/name ({why})")]
    BadAddress {
        /// What is wrong; without the address, which may hold a password.
        why: String,
    },
    /// The PostgreSQL server does not answer, or not to us.
    #[error(
        "reach the PostgreSQL database {place}: see that it runs, and that address, user and password are right"
    )]
    Unreachable {
        /// User, host, port and name of the database.
        place: String,
        /// What the driver said.
        #[source]
        source: sqlx::Error,
    },
    /// A PostgreSQL server older than what this version's statements need.
    #[error("use PostgreSQL {found}: it is too old, upgrade it to {needed} or newer")]
    OldServer {
        /// Major version of the server.
        found: i64,
        /// Oldest that will do.
        needed: i64,
    },
    /// This build has no PostgreSQL driver.
    #[error("use PostgreSQL: this program was built without it, use everdict-runner hub")]
    NoPostgres,
    /// A stored value is not one this version writes.
    #[error("read a stored run: {what} is not a known value")]
    Corrupt {
        /// Column and value.
        what: String,
    },
    /// The store has been closed.
    #[error("use the database after it was closed")]
    Closed,
    /// The database refused a statement.
    #[error("run a database statement")]
    Database(#[from] sqlx::Error),
}
