//! Changes on PostgreSQL: what every database does, and what only a shared queue has.

use sqlx::{PgConnection, PgPool, Row as _};

use super::news;
use crate::model::NewRun;
use crate::shared::{LeaseOf, SharedWrite};
use crate::sql::Statement;
use crate::write::statements;
use crate::writer::Told;
use crate::{Outcome, StoreError, Write};

/// Makes some changes in one transaction, and tells their news with its commit.
pub(crate) async fn commit(
    pool: &PgPool,
    name: &str,
    writes: &[(&Write, &Told)],
) -> Result<Vec<Outcome>, StoreError> {
    let mut transaction = pool.begin().await?;
    let mut outcomes = Vec::with_capacity(writes.len());
    let mut told = Vec::new();
    for (write, news) in writes {
        let outcome = apply(&mut transaction, write).await?;
        if outcome != Outcome::Refused {
            told.extend(news.iter());
        }
        outcomes.push(outcome);
    }
    news::tell(&mut transaction, name, &told).await?;
    transaction.commit().await?;
    Ok(outcomes)
}

async fn apply(connection: &mut PgConnection, write: &Write) -> Result<Outcome, StoreError> {
    let statements = match write {
        Write::Tell => return Ok(Outcome::Applied),
        Write::InsertRun(run) => vec![insert_run(run)],
        Write::Shared(SharedWrite::Log { .. } | SharedWrite::Event { .. }) => {
            return push(connection, write).await;
        }
        Write::Shared(shared) => vec![statement(shared)],
        common => statements(common),
    };
    let mut changed = 0;
    for statement in statements {
        changed += statement
            .postgres()
            .execute(&mut *connection)
            .await?
            .rows_affected();
    }
    Ok(Outcome::of(changed))
}

async fn push(connection: &mut PgConnection, write: &Write) -> Result<Outcome, StoreError> {
    let statement = match write {
        Write::Shared(SharedWrite::Log { lease, at, line, cap }) => {
            of_lease("SELECT hub_log_1($1, $2, $3, $4, $5, $6)", lease)
                .bind(*at)
                .bind(line)
                .bind(cap.cast_signed())
        }
        Write::Shared(SharedWrite::Event {
            lease,
            at,
            kind,
            body,
            cap,
        }) => of_lease("SELECT hub_event_1($1, $2, $3, $4, $5, $6, $7)", lease)
            .bind(*at)
            .bind(kind)
            .bind(body)
            .bind(cap.cast_signed()),
        _ => unreachable!("BUG: only logs and evidence are pushed"),
    };
    let answer: i64 = statement.postgres().fetch_one(connection).await?.try_get(0)?;
    Ok(match answer {
        0 => Outcome::Refused,
        1 => Outcome::Applied,
        _ => Outcome::Full,
    })
}

fn of_lease(sql: &'static str, lease: &LeaseOf) -> Statement {
    Statement::new(sql)
        .bind(&lease.run)
        .bind(lease.epoch.cast_signed())
        .bind(&lease.holder)
}

fn statement(write: &SharedWrite) -> Statement {
    match write {
        SharedWrite::Renew { lease, ttl, at } => of_lease(
            "UPDATE runs SET expires_at = hub_clock() + $4, activity_at = $5
             WHERE id = $1 AND status = 'running' AND lease_epoch = $2 AND leased_by = $3",
            lease,
        )
        .bind(millis(*ttl))
        .bind(*at),
        SharedWrite::Return { lease, at } => of_lease(
            "UPDATE runs SET status = 'queued', expires_at = NULL, updated_at = $4, activity_at = $4
             WHERE id = $1 AND status = 'running' AND lease_epoch = $2 AND leased_by = $3",
            lease,
        )
        .bind(*at),
        SharedWrite::Screen { run, at, frame } => Statement::new(
            "INSERT INTO run_screens (run_id, at, frame) VALUES ($1, $2, $3)
             ON CONFLICT (run_id) DO UPDATE SET at = $2, frame = $3",
        )
        .bind(run)
        .bind(*at)
        .bind(frame),
        SharedWrite::Asker {
            owner,
            runner,
            caps,
            at,
        } => Statement::new(
            "INSERT INTO askers (owner, runner, caps, at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (owner, runner, caps) DO UPDATE SET at = $4",
        )
        .bind(owner)
        .bind(runner)
        .bind(
            caps.as_ref()
                .map_or_else(|| "*".to_owned(), |caps| caps.join(" ")),
        )
        .bind(*at),
        SharedWrite::Log { .. } | SharedWrite::Event { .. } => {
            unreachable!("BUG: logs and evidence are pushed")
        }
    }
}

pub(super) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A run takes its turn behind its group's last one, and never before where its lane stands.
fn insert_run(run: &NewRun) -> Statement {
    Statement::new(
        "WITH lane AS (
             INSERT INTO lanes (owner, place, priority, required_caps)
             SELECT $13, COALESCE($14, ''), $9, $15 WHERE $13 IS NOT NULL
             ON CONFLICT DO NOTHING
         )
         INSERT INTO runs (id, workspace, submitted_by, status, harness_id, harness_version, case_id,
                           runtime, priority, fair_group, case_spec, job, owner, runner,
                           required_caps, lease_epoch, requeues, note, created_at, updated_at,
                           activity_at, batch, batch_label, turn)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 0, 0, $16,
                 $17, $17, $17, $18, $19, 1 + GREATEST(
                     (SELECT MAX(served) FROM lanes WHERE owner = $13 AND place = COALESCE($14, '') AND priority = $9),
                     (SELECT MAX(turn) FROM runs WHERE status = 'queued' AND owner = $13
                          AND place = COALESCE($14, '') AND priority = $9 AND fair_group = $10),
                     0))
         ON CONFLICT DO NOTHING",
    )
    .bind(&run.id)
    .bind(&run.workspace)
    .bind(&run.submitted_by)
    .bind("queued")
    .bind(&run.harness_id)
    .bind(&run.harness_version)
    .bind(&run.case_id)
    .bind(&run.runtime)
    .bind(&run.priority)
    .bind(&run.fair_group)
    .bind(&run.case_spec)
    .bind(&run.job)
    .bind(&run.owner)
    .bind(&run.runner)
    .bind(run.required_caps.join(" "))
    .bind(&run.note)
    .bind(run.created_at)
    .bind(&run.batch)
    .bind(&run.batch_label)
}
