//! The PostgreSQL database of any number of hubs.

mod news;
mod queue;
mod schema;
mod write;

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, PgConnection};
use uuid::Uuid;

pub(crate) use news::listen;
pub(crate) use queue::{claim, expire};
pub(crate) use write::commit;

use crate::StoreError;

/// Writers at a time. One keeps a processor of the server busy with single-row statements; more than a few only make the
/// groups smaller.
pub(crate) const WRITERS: usize = 3;

/// Connections of one hub: the writers, the leases in hand and readers. A server of the default size takes a hundred, so
/// that several hubs fit.
const CONNECTIONS: u32 = 16;

/// How long a statement waits for a connection while the server is away: longer than a restart of the server, shorter
/// than the patience of whoever waits.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// The database of several hubs.
#[derive(Debug)]
pub(crate) struct Database {
    pool: PgPool,
    /// Names this process among those on the database, so that it knows its own news.
    name: String,
}

impl Database {
    pub(crate) async fn open(address: &str) -> Result<Self, StoreError> {
        let options = options(address)?;
        let place = place(&options);
        let unreachable = |source| StoreError::Unreachable {
            place: place.clone(),
            source,
        };
        let mut connection: PgConnection = options.connect().await.map_err(unreachable)?;
        schema::bring_up_to_date(&mut connection).await?;
        drop(connection);
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .min_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .connect_with(options)
            .await
            .map_err(unreachable)?;
        Ok(Self {
            pool,
            name: Uuid::new_v4().simple().to_string(),
        })
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

fn options(address: &str) -> Result<PgConnectOptions, StoreError> {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme);
    if !matches!(scheme, Some("postgres" | "postgresql")) {
        return Err(StoreError::BadAddress {
            why: "it doesn't start with postgres://".to_owned(),
        });
    }
    let options = PgConnectOptions::from_str(address).map_err(|error| StoreError::BadAddress {
        why: match error {
            sqlx::Error::Configuration(why) => why.to_string(),
            other => other.to_string(),
        },
    })?;
    Ok(options
        .application_name("everdict-hub")
        .disable_statement_logging())
}

/// Names the database without its password.
fn place(options: &PgConnectOptions) -> String {
    let host = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    format!(
        "{} of {} at {host}",
        options.get_database().unwrap_or(options.get_username()),
        options.get_username()
    )
}
