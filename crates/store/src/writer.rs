//! The writers: each groups whatever is waiting for it into one transaction.

use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::write::statements;
use crate::{Outcome, StoreError, Write};

/// Writes that may wait; callers beyond it wait for room. A few group commits deep, so that a stalled
/// disk slows the callers down instead of filling memory.
pub(crate) const QUEUE: usize = 1_024;

/// Writes per transaction. Large enough to make the commit's share negligible, small enough for the
/// first caller of a burst not to wait for the whole burst.
const GROUP: usize = 256;

/// What other hubs are told with the commit, one JSON value per item.
pub(crate) type Told = Vec<String>;

pub(crate) type Reply = oneshot::Sender<Result<Outcome, StoreError>>;

#[expect(
    clippy::large_enum_variant,
    reason = "nearly every command is a write; a box each would cost more than it saves"
)]
pub(crate) enum Command {
    Write(Write, Told, Reply),
    Close(oneshot::Sender<()>),
}

/// The way of one writer to its database.
pub(crate) enum Line {
    Sqlite(Box<SqliteConnection>),
    /// A pool, since a connection that breaks has to be replaced.
    #[cfg(feature = "postgres")]
    Postgres {
        pool: sqlx::PgPool,
        name: String,
    },
}

impl Line {
    async fn together(&mut self, group: &[(Write, Told, Reply)]) -> Result<Vec<Outcome>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                let writes: Vec<_> = group.iter().map(|(write, _, _)| write).collect();
                let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
                let outcomes = sqlite(&mut transaction, &writes).await?;
                transaction.commit().await?;
                Ok(outcomes)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { pool, name } => {
                let writes: Vec<_> = group.iter().map(|(write, told, _)| (write, told)).collect();
                crate::postgres::commit(pool, name, &writes).await
            }
        }
    }

    /// A single statement is a transaction by itself; to say so would triple the way to the database.
    async fn alone(&mut self, write: &Write, told: &Told) -> Result<Outcome, StoreError> {
        // Only PostgreSQL tells.
        let _ = told;
        match self {
            Self::Sqlite(connection) if write.is_single_statement() => {
                Ok(one(sqlite(connection, &[write]).await?))
            }
            Self::Sqlite(connection) => {
                let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
                let outcomes = sqlite(&mut transaction, &[write]).await?;
                transaction.commit().await?;
                Ok(one(outcomes))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { pool, name } => {
                Ok(one(crate::postgres::commit(pool, name, &[(write, told)]).await?))
            }
        }
    }

    async fn close(self) {
        match self {
            // A failed close loses nothing: everything is committed, and the log is replayed at the next open.
            Self::Sqlite(connection) => drop(connection.close().await),
            #[cfg(feature = "postgres")]
            Self::Postgres { .. } => {}
        }
    }
}

fn one(outcomes: Vec<Outcome>) -> Outcome {
    outcomes.into_iter().next().unwrap_or(Outcome::Refused)
}

async fn sqlite(connection: &mut SqliteConnection, writes: &[&Write]) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(writes.len());
    for write in writes {
        let mut changed = 0;
        if let Write::Shared(_) = write {
            return Err(StoreError::NoPostgres);
        }
        for statement in statements(write) {
            changed += statement
                .sqlite()
                .execute(&mut *connection)
                .await?
                .rows_affected();
        }
        outcomes.push(Outcome::of(changed));
    }
    Ok(outcomes)
}

/// Runs until it is told to close or every sender is gone; everything handed over before is committed.
pub(crate) async fn run(mut line: Line, mut commands: mpsc::Receiver<Command>) {
    let mut batch = Vec::with_capacity(GROUP);
    let mut closing = Vec::new();
    while commands.recv_many(&mut batch, GROUP).await > 0 {
        let mut group = Vec::with_capacity(batch.len());
        for command in batch.drain(..) {
            match command {
                Command::Write(write, told, reply) => group.push((write, told, reply)),
                Command::Close(done) => {
                    commands.close();
                    closing.push(done);
                }
            }
        }
        commit(&mut line, group).await;
    }
    line.close().await;
    for done in closing {
        let _ = done.send(());
    }
}

async fn commit(line: &mut Line, group: Vec<(Write, Told, Reply)>) {
    if group.len() < 2 {
        for (write, told, reply) in group {
            let _ = reply.send(line.alone(&write, &told).await);
        }
        return;
    }
    match line.together(&group).await {
        Ok(outcomes) => {
            for ((_, _, reply), outcome) in group.into_iter().zip(outcomes) {
                // The caller may be gone; the write stands all the same.
                let _ = reply.send(Ok(outcome));
            }
        }
        // One bad write must not take its neighbours down: each gets a transaction of its own.
        Err(_) => {
            for (write, told, reply) in group {
                let _ = reply.send(line.alone(&write, &told).await);
            }
        }
    }
}
