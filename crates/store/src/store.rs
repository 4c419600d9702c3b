//! The handle on the database: reading, writing, closing, whichever database it is.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(feature = "postgres")]
use crate::postgres;
use crate::sql::{Row, Statement};
use crate::sqlite;
use crate::writer::{self, Command, Line};
use crate::{Outcome, StoreError, Write};

/// A handle on the hub's database; clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    readers: Readers,
    /// One inbox per writer; what concerns one row always goes to the same.
    inboxes: Vec<mpsc::Sender<Command>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

#[derive(Debug)]
enum Readers {
    Sqlite(sqlite::Readers),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Database),
}

impl Store {
    /// Opens the SQLite database in `folder`, creating both where needed, and brings its schema up to date.
    ///
    /// Needs a Tokio runtime; the writer runs on it until [`Store::close`]. Not cancel safe.
    ///
    /// # Errors
    /// [`StoreError::Unwritable`], [`StoreError::InUse`] and [`StoreError::TooNew`] tell a user what to
    /// do; [`StoreError::Database`] is everything else.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        let (readers, writer) = sqlite::open(folder).await?;
        Ok(Self::with(
            Readers::Sqlite(readers),
            vec![Line::Sqlite(Box::new(writer))],
        ))
    }

    /// Opens a PostgreSQL database by its address (`postgres://…`) and brings its schema up to date. What the address
    /// leaves out comes from where PostgreSQL's own programs take it: `PGPASSWORD`, `PGPASSFILE`, `PGSSLMODE` and so on.
    ///
    /// Any number of processes may share the database. Needs a Tokio runtime. Not cancel safe.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`], [`StoreError::Unreachable`], [`StoreError::TooNew`] and
    /// [`StoreError::NoPostgres`] tell a user what to do.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unused_async, reason = "the build with PostgreSQL awaits")
    )]
    pub async fn connect(address: &str) -> Result<Self, StoreError> {
        #[cfg(feature = "postgres")]
        {
            let database = postgres::Database::open(address).await?;
            let lines = (0..postgres::WRITERS)
                .map(|_| Line::Postgres {
                    pool: database.pool().clone(),
                    name: database.name().to_owned(),
                })
                .collect();
            Ok(Self::with(Readers::Postgres(database), lines))
        }
        #[cfg(not(feature = "postgres"))]
        {
            let _ = address;
            Err(StoreError::NoPostgres)
        }
    }

    fn with(readers: Readers, lines: Vec<Line>) -> Self {
        let tasks = TaskTracker::new();
        let inboxes = lines
            .into_iter()
            .map(|line| {
                let (commands, inbox) = mpsc::channel(writer::QUEUE);
                tasks.spawn(writer::run(line, inbox));
                commands
            })
            .collect();
        tasks.close();
        Self {
            inner: Arc::new(Inner {
                readers,
                inboxes,
                tasks,
                closing: CancellationToken::new(),
            }),
        }
    }

    /// Says whether other processes may use the database at the same time.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        match &self.inner.readers {
            Readers::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Readers::Postgres(_) => true,
        }
    }

    /// Makes one change and returns once it is committed.
    ///
    /// When the returned future is dropped after its first poll handed the change over, the change is
    /// still made. Changes of one caller to one row are made in the order of the calls.
    ///
    /// # Errors
    /// [`StoreError::Closed`] after [`Store::close`], [`StoreError::Database`] when the statement or the
    /// commit fails.
    pub async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.write_telling(write, Vec::new()).await
    }

    /// The same, and tells other hubs on the database some news (JSON values) together with the commit, unless the change
    /// is refused.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub async fn write_telling(&self, write: Write, news: Vec<String>) -> Result<Outcome, StoreError> {
        let (reply, outcome) = oneshot::channel();
        let inboxes = &self.inner.inboxes;
        let inbox = &inboxes[write.lane(inboxes.len())];
        inbox
            .send(Command::Write(write, news, reply))
            .await
            .map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// Commits what was handed over, then closes the database. Later calls fail with
    /// [`StoreError::Closed`].
    pub async fn close(&self) {
        self.inner.closing.cancel();
        for inbox in &self.inner.inboxes {
            let (done, closed) = oneshot::channel();
            if inbox.send(Command::Close(done)).await.is_ok() {
                let _ = closed.await;
            }
        }
        self.inner.tasks.wait().await;
        match &self.inner.readers {
            Readers::Sqlite(readers) => readers.pool.close().await,
            #[cfg(feature = "postgres")]
            Readers::Postgres(database) => database.pool().close().await,
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(&self) -> Option<&postgres::Database> {
        match &self.inner.readers {
            Readers::Sqlite(_) => None,
            Readers::Postgres(database) => Some(database),
        }
    }

    /// Runs work beside the store, until that is closed.
    #[cfg(feature = "postgres")]
    pub(crate) fn track<T, F: Future<Output = ()> + Send + 'static>(
        &self,
        start: impl FnOnce(CancellationToken) -> (T, F),
    ) -> T {
        let (handle, work) = start(self.inner.closing.child_token());
        self.inner.tasks.spawn(work);
        handle
    }

    pub(crate) async fn rows(&self, statement: Statement) -> Result<Vec<Row>, StoreError> {
        Ok(match &self.inner.readers {
            Readers::Sqlite(readers) => {
                let rows = statement.sqlite().fetch_all(&readers.pool).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            #[cfg(feature = "postgres")]
            Readers::Postgres(database) => {
                let rows = statement.postgres().fetch_all(database.pool()).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    pub(crate) async fn row(&self, statement: Statement) -> Result<Option<Row>, StoreError> {
        Ok(match &self.inner.readers {
            Readers::Sqlite(readers) => statement
                .sqlite()
                .fetch_optional(&readers.pool)
                .await?
                .map(Row::Sqlite),
            #[cfg(feature = "postgres")]
            Readers::Postgres(database) => statement
                .postgres()
                .fetch_optional(database.pool())
                .await?
                .map(Row::Postgres),
        })
    }
}
