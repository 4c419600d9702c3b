//! Forward-only schema migrations.

use sqlx::{Connection, Row, SqliteConnection};

use crate::StoreError;

/// Every migration in order; the version is the position, counted from one. Entries are never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_initial.sql"),
    include_str!("../migrations/0002_key_expiry.sql"),
    include_str!("../migrations/0003_batches.sql"),
    include_str!("../migrations/0004_runner_pause.sql"),
];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_made_before_there_was_an_expiry_live_on() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        sqlx::raw_sql("CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY)")
            .execute(&mut connection)
            .await
            .unwrap();
        sqlx::raw_sql(MIGRATIONS[0])
            .execute(&mut connection)
            .await
            .unwrap();
        sqlx::raw_sql(
            "INSERT INTO schema_migrations (version) VALUES (1);
             INSERT INTO api_keys (hash, workspace, role, subject, label, created_at)
             VALUES ('h', 'acme', 'admin', 'key:acme', '', 1)",
        )
        .execute(&mut connection)
        .await
        .unwrap();
        run(&mut connection).await.unwrap();
        let row = sqlx::query("SELECT expires_at FROM api_keys WHERE hash = 'h'")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(row.try_get::<Option<i64>, _>(0).unwrap(), None);
    }
}
