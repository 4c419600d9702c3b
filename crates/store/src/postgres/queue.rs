//! Leasing from the queue in the database.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::Row as _;

use super::Database;
use super::write::millis;
use crate::shared::{Claim, Expired, Seat};
use crate::{Millis, StoreError};

pub(crate) async fn claim(
    database: &Database,
    owner: &str,
    seats: &[Seat],
    at: Millis,
    ttl: Duration,
) -> Result<Vec<Claim>, StoreError> {
    let runners: Vec<&str> = seats.iter().map(|seat| seat.runner.as_str()).collect();
    let caps: Vec<Option<String>> = seats
        .iter()
        .map(|seat| seat.caps.as_ref().map(|caps| caps.join(" ")))
        .collect();
    let rows =
        sqlx::query("SELECT seat, job_id, epoch, job, lacking FROM hub_claim_1($1, $2, $3, $4, $5, $6)")
            .bind(owner)
            .bind(runners)
            .bind(caps)
            .bind(at)
            .bind(millis(ttl))
            .bind(database.name())
            .fetch_all(database.pool())
            .await?;
    rows.iter()
        .map(|row| {
            let seat: i32 = row.try_get("seat")?;
            // The database counts from one.
            let seat = usize::try_from(seat - 1).unwrap_or_default();
            let run = row.try_get("job_id")?;
            let epoch: i64 = row.try_get("epoch")?;
            Ok(match row.try_get::<Option<String>, _>("lacking")? {
                Some(needs) => Claim::Lacking {
                    seat,
                    run,
                    needs: needs.split_ascii_whitespace().map(str::to_owned).collect(),
                },
                None => Claim::Job {
                    seat,
                    run,
                    epoch: epoch.cast_unsigned(),
                    text: row.try_get("job")?,
                },
            })
        })
        .collect()
}

pub(crate) async fn expire(database: &Database, at: Millis) -> Result<Expired, StoreError> {
    let rows = sqlx::query("SELECT job_id, job_owner, job_place FROM hub_expire_1($1, $2)")
        .bind(at)
        .bind(database.name())
        .fetch_all(database.pool())
        .await?;
    let mut lanes = BTreeSet::new();
    let mut runs = Vec::with_capacity(rows.len());
    for row in &rows {
        runs.push(row.try_get("job_id")?);
        if let Some(owner) = row.try_get::<Option<String>, _>("job_owner")? {
            lanes.insert((owner, row.try_get("job_place")?));
        }
    }
    sqlx::query(
        "DELETE FROM run_screens s USING runs r WHERE r.id = s.run_id AND r.status IN ('succeeded', 'failed')",
    )
    .execute(database.pool())
    .await?;
    let next: Option<i64> =
        sqlx::query("SELECT MIN(expires_at) - hub_clock() FROM runs WHERE status = 'running'")
            .fetch_one(database.pool())
            .await?
            .try_get(0)?;
    Ok(Expired {
        lanes: lanes.into_iter().collect(),
        runs,
        next: next.map(|left| Duration::from_millis(u64::try_from(left).unwrap_or_default())),
    })
}
