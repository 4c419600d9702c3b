//! Forward-only schema migrations.

use sqlx::{Connection, Row, SqliteConnection};

use crate::StoreError;

/// Every migration in order; the version is the position, counted from one. Entries are never edited.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_initial.sql")];

/// Brings the schema up to date, one transaction per migration.
///
/// Fails with [`StoreError::TooNew`] when the database is ahead of this build: there is no way back.
pub(crate) async fn run(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT NOT NULL PRIMARY KEY)")
        .execute(&mut *connection)
        .await?;
    let found: i64 = sqlx::query("SELECT COALESCE(MAX(version), 0) FROM schema_migrations")
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for (version, sql) in (1_i64..).zip(MIGRATIONS).skip(found as usize) {
        let mut transaction = connection.begin().await?;
        sqlx::raw_sql(*sql).execute(&mut *transaction).await?;
        sqlx::query("INSERT INTO schema_migrations (version) VALUES ($1)")
            .bind(version)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
    }
    Ok(())
}
