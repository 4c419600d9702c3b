//! News between hubs: notifications of the server, which reach everybody once the change they are about is committed.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::postgres::{PgListener, PgPool};
use sqlx::{PgConnection, Row as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Database;
use crate::shared::Told;

/// The channel; the migrations name it too.
const CHANNEL: &str = "everdict_hub";

/// Longest notification that is sent: the server takes less than 8,000 bytes.
const LONGEST: usize = 7_500;

/// Said that may wait for a hub; beyond it the listener waits, and the server keeps the rest.
const WAITING: usize = 1_024;

/// Pause before the next try to listen again. A server that restarts is back within seconds.
const RETRY: Duration = Duration::from_millis(500);

/// Sends news within the transaction of what they are about.
pub(super) async fn tell(
    connection: &mut PgConnection,
    from: &str,
    news: &[&String],
) -> Result<(), sqlx::Error> {
    let mut part: Vec<&str> = Vec::new();
    let mut length = 0;
    for item in news {
        if item.len() > LONGEST / 2 {
            mail(connection, from, item).await?;
            continue;
        }
        if length + item.len() > LONGEST - 200 {
            notify(connection, from, &part).await?;
            part.clear();
            length = 0;
        }
        // One change of a lane is as good as many.
        if !part.contains(&item.as_str()) {
            length += item.len() + 1;
            part.push(item);
        }
    }
    notify(connection, from, &part).await
}

async fn notify(connection: &mut PgConnection, from: &str, news: &[&str]) -> Result<(), sqlx::Error> {
    if news.is_empty() {
        return Ok(());
    }
    let body = format!("{{\"from\":\"{from}\",\"news\":[{}]}}", news.join(","));
    sqlx::query("SELECT pg_notify($1, $2)")
        .bind(CHANNEL)
        .bind(body)
        .execute(connection)
        .await?;
    Ok(())
}

/// What does not fit is left in a table, and the notification says where. Everybody has read it after a minute.
async fn mail(connection: &mut PgConnection, from: &str, item: &str) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM hub_mail WHERE at < hub_clock() - 60000")
        .execute(&mut *connection)
        .await?;
    let id: i64 = sqlx::query("INSERT INTO hub_mail (at, body) VALUES (hub_clock(), $1) RETURNING id")
        .bind(item)
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
    notify(connection, from, &[&format!("{{\"mail\":{id}}}")]).await
}

/// Listens until told to stop or nobody listens to us.
pub(crate) fn listen(
    database: &Database,
    stop: CancellationToken,
) -> (mpsc::Receiver<Told>, impl Future<Output = ()> + Send + use<>) {
    let (said, heard) = mpsc::channel(WAITING);
    let (pool, own) = (database.pool().clone(), database.name().to_owned());
    let work = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = said.closed() => {}
            () = relay(&pool, &own, &said) => {}
        }
    };
    (heard, work)
}

async fn relay(pool: &PgPool, own: &str, said: &mpsc::Sender<Told>) {
    loop {
        if let Err(error) = relay_once(pool, own, said).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the news of other hubs broke off; trying again");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn relay_once(pool: &PgPool, own: &str, said: &mpsc::Sender<Told>) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    // Whatever was said before is not coming again.
    let mut next = Some(Told::Gap);
    loop {
        if let Some(told) = next.take()
            && said.send(told).await.is_err()
        {
            return Ok(());
        }
        next = match listener.try_recv().await? {
            None => Some(Told::Gap),
            Some(notification) => read(pool, own, notification.payload()).await?,
        };
    }
}

#[derive(Deserialize)]
struct Notification {
    from: String,
    news: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Mail {
    mail: i64,
}

async fn read(pool: &PgPool, own: &str, payload: &str) -> Result<Option<Told>, sqlx::Error> {
    // Something else may use the channel; it is not for us then.
    let Ok(notification) = serde_json::from_str::<Notification>(payload) else {
        return Ok(None);
    };
    if notification.from == own {
        return Ok(None);
    }
    let mut news = Vec::with_capacity(notification.news.len());
    for item in notification.news {
        match serde_json::from_str::<Mail>(item.get()) {
            Ok(Mail { mail }) => {
                let row = sqlx::query("SELECT body FROM hub_mail WHERE id = $1")
                    .bind(mail)
                    .fetch_optional(pool)
                    .await?;
                if let Some(row) = row {
                    news.push(row.try_get(0)?);
                }
            }
            Err(_) => news.push(item.get().to_owned()),
        }
    }
    Ok(Some(Told::News(news)))
}
