//! The schema on PostgreSQL: forward only, and safe for hubs that start at the same time.

use sqlx::{Connection as _, PgConnection, Row as _};

use crate::StoreError;

/// Every migration in order; the version is the position, counted from one. Entries are never edited. A hub of the
/// version before goes on while one of this version is started, so a migration may add but not change or remove what that
/// one uses.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_initial.sql"),
    include_str!("../../migrations/postgres/0002_shared_queue.sql"),
    include_str!("../../migrations/postgres/0003_removed_runners.sql"),
];

/// Names the advisory lock under which the schema changes; any number that no other program on the database uses.
const LOCK: i64 = 0x6576_6572_6469_6374;

/// Oldest server that knows every statement here: `hashtextextended` came with 11; this is the oldest that still gets
/// repairs.
const OLDEST: i64 = 14;

/// Brings the schema up to date in one transaction; a hub that comes meanwhile waits and finds the work done.
///
/// Fails with [`StoreError::TooNew`] when the database is ahead of this build: there is no way back.
pub(super) async fn bring_up_to_date(connection: &mut PgConnection) -> Result<(), StoreError> {
    let version: String = sqlx::query("SHOW server_version_num")
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
    let found = version.parse::<i64>().unwrap_or_default() / 10_000;
    if found < OLDEST {
        return Err(StoreError::OldServer {
            found,
            needed: OLDEST,
        });
    }
    let mut transaction = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(LOCK)
        .execute(&mut *transaction)
        .await?;
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT NOT NULL PRIMARY KEY)")
        .execute(&mut *transaction)
        .await?;
    let found: i64 = sqlx::query("SELECT COALESCE(MAX(version), 0) FROM schema_migrations")
        .fetch_one(&mut *transaction)
        .await?
        .try_get(0)?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for (version, sql) in (1_i64..).zip(MIGRATIONS).skip(found as usize) {
        sqlx::raw_sql(*sql).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO schema_migrations (version) VALUES ($1)")
            .bind(version)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}
