//! The single writer: groups whatever is waiting into one transaction.

use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::write::apply;
use crate::{Outcome, StoreError, Write};

/// Writes that may wait; callers beyond it wait for room. A few group commits deep, so that a stalled
/// disk slows the callers down instead of filling memory.
pub(crate) const QUEUE: usize = 1_024;

/// Writes per transaction. Large enough to make the commit's share negligible, small enough for the
/// first caller of a burst not to wait for the whole burst.
const GROUP: usize = 256;

pub(crate) type Reply = oneshot::Sender<Result<Outcome, StoreError>>;

#[expect(
    clippy::large_enum_variant,
    reason = "nearly every command is a write; a box each would cost more than it saves"
)]
pub(crate) enum Command {
    Write(Write, Reply),
    Close(oneshot::Sender<()>),
}

/// Runs until it is told to close or every sender is gone; everything handed over before is committed.
pub(crate) async fn run(mut connection: SqliteConnection, mut commands: mpsc::Receiver<Command>) {
    let mut batch = Vec::with_capacity(GROUP);
    let mut closing = Vec::new();
    while commands.recv_many(&mut batch, GROUP).await > 0 {
        let mut group = Vec::with_capacity(batch.len());
        for command in batch.drain(..) {
            match command {
                Command::Write(write, reply) => group.push((write, reply)),
                Command::Close(done) => {
                    commands.close();
                    closing.push(done);
                }
            }
        }
        commit(&mut connection, group).await;
    }
    // A failed close loses nothing: everything is committed, and the log is replayed at the next open.
    let _ = connection.close().await;
    for done in closing {
        let _ = done.send(());
    }
}

async fn commit(connection: &mut SqliteConnection, group: Vec<(Write, Reply)>) {
    if group.len() < 2 {
        for (write, reply) in group {
            let _ = reply.send(alone(connection, &write).await);
        }
        return;
    }
    match together(connection, &group).await {
        Ok(outcomes) => {
            for ((_, reply), outcome) in group.into_iter().zip(outcomes) {
                // The caller may be gone; the write stands all the same.
                let _ = reply.send(Ok(outcome));
            }
        }
        // One bad write must not take its neighbours down: each gets a transaction of its own.
        Err(_) => {
            for (write, reply) in group {
                let _ = reply.send(alone(connection, &write).await);
            }
        }
    }
}

async fn together(
    connection: &mut SqliteConnection,
    group: &[(Write, Reply)],
) -> Result<Vec<Outcome>, StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut outcomes = Vec::with_capacity(group.len());
    for (write, _) in group {
        outcomes.push(apply(&mut transaction, write).await?);
    }
    transaction.commit().await?;
    Ok(outcomes)
}

/// A single statement is a transaction by itself; to say so would triple the way to the database thread.
async fn alone(connection: &mut SqliteConnection, write: &Write) -> Result<Outcome, StoreError> {
    if write.is_single_statement() {
        return apply(connection, write).await;
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let outcome = apply(&mut transaction, write).await?;
    transaction.commit().await?;
    Ok(outcome)
}
