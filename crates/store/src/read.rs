//! Reads.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::{
    ApiKeyRow, BatchRow, EventRow, HarnessRow, LogRow, Millis, OpenRun, RunPage, RunRow, RunStatus,
    RunnerRow, Store, StoreError,
};

/// Columns of a [`RunRow`], in the order that [`run`] reads them by name.
macro_rules! run_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, workspace, submitted_by, status, harness_id, harness_version, case_id, runtime, ",
            "priority, case_spec, lease_epoch, leased_by, requeues, note, result, usage, error_code, ",
            "error_message, created_at, updated_at, started_at, batch, verdict, score FROM runs ",
            $rest
        )
    };
}

impl Store {
    /// Finds an API key by the hex SHA-256 of its text.
    ///
    /// # Errors
    /// As every read: [`StoreError::Database`], and [`StoreError::Corrupt`] for a value that this
    /// version never writes.
    pub async fn api_key(&self, hash: &str) -> Result<Option<ApiKeyRow>, StoreError> {
        sqlx::query(
            "SELECT hash, workspace, role, subject, label, created_at, last_used_at, expires_at
             FROM api_keys WHERE hash = $1",
        )
        .bind(hash.to_owned())
        .fetch_optional(self.readers())
        .await?
        .map(|row| api_key(&row))
        .transpose()
    }

    /// Lists the API keys of a workspace, oldest first.
    pub async fn api_keys(&self, workspace: &str) -> Result<Vec<ApiKeyRow>, StoreError> {
        sqlx::query(
            "SELECT hash, workspace, role, subject, label, created_at, last_used_at, expires_at
             FROM api_keys WHERE workspace = $1 ORDER BY created_at, hash",
        )
        .bind(workspace.to_owned())
        .fetch_all(self.readers())
        .await?
        .iter()
        .map(api_key)
        .collect()
    }

    /// Lists every runner.
    pub async fn runners(&self) -> Result<Vec<RunnerRow>, StoreError> {
        sqlx::query(
            "SELECT owner, id, workspace, label, os, capabilities, token_hash, paired_at, last_seen_at,
                    version, protocol
             FROM runners ORDER BY paired_at, id",
        )
        .fetch_all(self.readers())
        .await?
        .iter()
        .map(runner)
        .collect()
    }

    /// Finds one harness version.
    pub async fn harness(
        &self,
        workspace: &str,
        id: &str,
        version: &str,
    ) -> Result<Option<HarnessRow>, StoreError> {
        sqlx::query(
            "SELECT workspace, id, version, spec, created_by, created_at FROM harnesses
             WHERE workspace = $1 AND id = $2 AND version = $3",
        )
        .bind(workspace.to_owned())
        .bind(id.to_owned())
        .bind(version.to_owned())
        .fetch_optional(self.readers())
        .await?
        .map(|row| harness(&row))
        .transpose()
    }

    /// Lists the harness versions of a workspace by id, oldest version first.
    pub async fn harnesses(&self, workspace: &str) -> Result<Vec<HarnessRow>, StoreError> {
        sqlx::query(
            "SELECT workspace, id, version, spec, created_by, created_at FROM harnesses
             WHERE workspace = $1 ORDER BY id, created_at, version",
        )
        .bind(workspace.to_owned())
        .fetch_all(self.readers())
        .await?
        .iter()
        .map(harness)
        .collect()
    }

    /// Finds one run.
    pub async fn run(&self, id: &str) -> Result<Option<RunRow>, StoreError> {
        sqlx::query(run_columns!("WHERE id = $1"))
            .bind(id.to_owned())
            .fetch_optional(self.readers())
            .await?
            .map(|row| run(&row))
            .transpose()
    }

    /// Lists up to `limit` runs of a workspace, newest first, starting after the run `before`.
    pub async fn runs(
        &self,
        workspace: &str,
        before: Option<&str>,
        limit: u32,
    ) -> Result<RunPage, StoreError> {
        let query = sqlx::query(run_columns!(
            "WHERE workspace = $1 AND ($2 = '' OR id < $2) ORDER BY id DESC LIMIT $3"
        ))
        .bind(workspace.to_owned())
        .bind(before.unwrap_or_default().to_owned())
        .bind(i64::from(limit) + 1);
        self.page(query, limit).await
    }

    /// Lists the runs of a batch as [`Store::runs`] does those of a workspace.
    pub async fn batch_runs(
        &self,
        workspace: &str,
        batch: &str,
        before: Option<&str>,
        limit: u32,
    ) -> Result<RunPage, StoreError> {
        let query = sqlx::query(run_columns!(
            "WHERE workspace = $1 AND batch = $2 AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4"
        ))
        .bind(workspace.to_owned())
        .bind(batch.to_owned())
        .bind(before.unwrap_or_default().to_owned())
        .bind(i64::from(limit) + 1);
        self.page(query, limit).await
    }

    /// Lists the ids of a batch's runs that are not over, oldest first.
    pub async fn open_in_batch(&self, workspace: &str, batch: &str) -> Result<Vec<String>, StoreError> {
        sqlx::query(
            "SELECT id FROM runs WHERE workspace = $1 AND batch = $2 AND status IN ('queued', 'running')
             ORDER BY id",
        )
        .bind(workspace.to_owned())
        .bind(batch.to_owned())
        .fetch_all(self.readers())
        .await?
        .iter()
        .map(|row| Ok(row.try_get("id")?))
        .collect()
    }

    /// Counts up to `limit` batches of a workspace, the latest first; with `batch` only that one.
    pub async fn batches(
        &self,
        workspace: &str,
        batch: Option<&str>,
        limit: u32,
    ) -> Result<Vec<BatchRow>, StoreError> {
        let rows = sqlx::query(
            "SELECT batch, MAX(batch_label) AS label, MIN(created_at) AS created_at, COUNT(*) AS total,
                    SUM(CASE WHEN status IN ('succeeded', 'failed') THEN 1 ELSE 0 END) AS done,
                    SUM(CASE WHEN verdict = 'pass' THEN 1 ELSE 0 END) AS pass,
                    SUM(CASE WHEN verdict = 'fail' THEN 1 ELSE 0 END) AS fail,
                    SUM(CASE WHEN verdict = 'timeout' THEN 1 ELSE 0 END) AS timeout,
                    SUM(CASE WHEN verdict = 'unmeasured' THEN 1 ELSE 0 END) AS unmeasured,
                    SUM(CASE WHEN verdict = 'infra' THEN 1 ELSE 0 END) AS infra
             FROM runs WHERE workspace = $1 AND batch IS NOT NULL AND ($2 = '' OR batch = $2)
             GROUP BY batch ORDER BY MAX(id) DESC LIMIT $3",
        )
        .bind(workspace.to_owned())
        .bind(batch.unwrap_or_default().to_owned())
        .bind(i64::from(limit))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(batch_row).collect()
    }

    async fn page(
        &self,
        query: sqlx::query::Query<'static, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>,
        limit: u32,
    ) -> Result<RunPage, StoreError> {
        let rows = query.fetch_all(self.readers()).await?;
        let mut runs = rows.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        let more = runs.len() > limit as usize;
        runs.truncate(limit as usize);
        let next = runs.last().filter(|_| more).map(|last| last.id.clone());
        Ok(RunPage { runs, next })
    }

    /// Reads the job text of a run.
    pub async fn job(&self, id: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("SELECT job FROM runs WHERE id = $1")
            .bind(id.to_owned())
            .fetch_optional(self.readers())
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// Lists the runs that the lease queue must know, oldest first: those that are not over, and those
    /// cancelled under a lease after `cancelled_since`.
    pub async fn open_runs(&self, cancelled_since: Millis) -> Result<Vec<OpenRun>, StoreError> {
        sqlx::query(
            "SELECT id, owner, runner, status, priority, fair_group, required_caps, lease_epoch,
                    leased_by, requeues
             FROM runs
             WHERE owner IS NOT NULL AND (status IN ('queued', 'running') OR (status = 'failed'
                   AND error_code = 'CANCELLED' AND leased_by IS NOT NULL AND finished_at > $1))
             ORDER BY id",
        )
        .bind(cancelled_since)
        .fetch_all(self.readers())
        .await?
        .iter()
        .map(open_run)
        .collect()
    }

    /// Reads up to `limit` log lines after line number `after`.
    pub async fn logs(&self, run: &str, after: u64, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        sqlx::query("SELECT seq, at, line FROM run_logs WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3")
            .bind(run.to_owned())
            .bind(after.cast_signed())
            .bind(i64::from(limit))
            .fetch_all(self.readers())
            .await?
            .iter()
            .map(|row| {
                Ok(LogRow {
                    seq: unsigned(row, "seq")?,
                    at: row.try_get("at")?,
                    line: row.try_get("line")?,
                })
            })
            .collect()
    }

    /// Returns the highest line number of a run's log and the bytes it holds.
    pub async fn log_extent(&self, run: &str) -> Result<(u64, u64), StoreError> {
        let row = sqlx::query(
            "SELECT COALESCE(MAX(seq), 0) AS seq, CAST(COALESCE(SUM(LENGTH(line)), 0) AS BIGINT) AS size
             FROM run_logs WHERE run_id = $1",
        )
        .bind(run.to_owned())
        .fetch_one(self.readers())
        .await?;
        Ok((unsigned(&row, "seq")?, unsigned(&row, "size")?))
    }

    /// Reads up to `limit` pieces of evidence after number `after`.
    pub async fn events(&self, run: &str, after: u64, limit: u32) -> Result<Vec<EventRow>, StoreError> {
        sqlx::query(
            "SELECT seq, at, kind, body FROM run_events
             WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        )
        .bind(run.to_owned())
        .bind(after.cast_signed())
        .bind(i64::from(limit))
        .fetch_all(self.readers())
        .await?
        .iter()
        .map(|row| {
            Ok(EventRow {
                seq: unsigned(row, "seq")?,
                at: row.try_get("at")?,
                kind: row.try_get("kind")?,
                body: row.try_get("body")?,
            })
        })
        .collect()
    }

    /// Returns the highest evidence number of a run and the bytes it holds.
    pub async fn event_extent(&self, run: &str) -> Result<(u64, u64), StoreError> {
        let row = sqlx::query(
            "SELECT COALESCE(MAX(seq), 0) AS seq, CAST(COALESCE(SUM(LENGTH(body)), 0) AS BIGINT) AS size
             FROM run_events WHERE run_id = $1",
        )
        .bind(run.to_owned())
        .fetch_one(self.readers())
        .await?;
        Ok((unsigned(&row, "seq")?, unsigned(&row, "size")?))
    }

    /// Reads a secret of the hub.
    pub async fn secret(&self, name: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("SELECT value FROM hub_secrets WHERE name = $1")
            .bind(name.to_owned())
            .fetch_optional(self.readers())
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }
}

fn api_key(row: &SqliteRow) -> Result<ApiKeyRow, StoreError> {
    Ok(ApiKeyRow {
        hash: row.try_get("hash")?,
        workspace: row.try_get("workspace")?,
        role: row.try_get("role")?,
        subject: row.try_get("subject")?,
        label: row.try_get("label")?,
        created_at: row.try_get("created_at")?,
        last_used_at: row.try_get("last_used_at")?,
        expires_at: row.try_get("expires_at")?,
    })
}

fn runner(row: &SqliteRow) -> Result<RunnerRow, StoreError> {
    Ok(RunnerRow {
        owner: row.try_get("owner")?,
        id: row.try_get("id")?,
        workspace: row.try_get("workspace")?,
        label: row.try_get("label")?,
        os: row.try_get("os")?,
        capabilities: words(row, "capabilities")?,
        token_hash: row.try_get("token_hash")?,
        paired_at: row.try_get("paired_at")?,
        last_seen_at: row.try_get("last_seen_at")?,
        version: row.try_get("version")?,
        protocol: row.try_get("protocol")?,
    })
}

fn harness(row: &SqliteRow) -> Result<HarnessRow, StoreError> {
    Ok(HarnessRow {
        workspace: row.try_get("workspace")?,
        id: row.try_get("id")?,
        version: row.try_get("version")?,
        spec: row.try_get("spec")?,
        created_by: row.try_get("created_by")?,
        created_at: row.try_get("created_at")?,
    })
}

fn run(row: &SqliteRow) -> Result<RunRow, StoreError> {
    let code: Option<String> = row.try_get("error_code")?;
    let message: Option<String> = row.try_get("error_message")?;
    Ok(RunRow {
        id: row.try_get("id")?,
        workspace: row.try_get("workspace")?,
        submitted_by: row.try_get("submitted_by")?,
        status: status(row)?,
        harness_id: row.try_get("harness_id")?,
        harness_version: row.try_get("harness_version")?,
        case_id: row.try_get("case_id")?,
        runtime: row.try_get("runtime")?,
        priority: row.try_get("priority")?,
        case_spec: row.try_get("case_spec")?,
        lease_epoch: row.try_get("lease_epoch")?,
        leased_by: row.try_get("leased_by")?,
        requeues: row.try_get("requeues")?,
        note: row.try_get("note")?,
        result: row.try_get("result")?,
        usage: row.try_get("usage")?,
        error: code.map(|code| (code, message.unwrap_or_default())),
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        started_at: row.try_get("started_at")?,
        batch: row.try_get("batch")?,
        verdict: row.try_get("verdict")?,
        score: row.try_get("score")?,
    })
}

fn batch_row(row: &SqliteRow) -> Result<BatchRow, StoreError> {
    const VERDICTS: [&str; 5] = ["pass", "fail", "timeout", "unmeasured", "infra"];
    Ok(BatchRow {
        id: row.try_get("batch")?,
        label: row.try_get("label")?,
        created_at: row.try_get("created_at")?,
        total: unsigned(row, "total")?,
        done: unsigned(row, "done")?,
        verdicts: VERDICTS
            .into_iter()
            .map(|verdict| Ok((verdict.to_owned(), unsigned(row, verdict)?)))
            .collect::<Result<_, StoreError>>()?,
    })
}

fn open_run(row: &SqliteRow) -> Result<OpenRun, StoreError> {
    Ok(OpenRun {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        runner: row.try_get("runner")?,
        status: status(row)?,
        priority: row.try_get("priority")?,
        fair_group: row.try_get("fair_group")?,
        required_caps: words(row, "required_caps")?,
        lease_epoch: unsigned(row, "lease_epoch")?,
        leased_by: row.try_get("leased_by")?,
        requeues: u32::try_from(unsigned(row, "requeues")?).unwrap_or(u32::MAX),
    })
}

fn status(row: &SqliteRow) -> Result<RunStatus, StoreError> {
    RunStatus::parse(row.try_get("status")?)
}

fn words(row: &SqliteRow, column: &str) -> Result<Vec<String>, StoreError> {
    let text: String = row.try_get(column)?;
    Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
}

fn unsigned(row: &SqliteRow, column: &'static str) -> Result<u64, StoreError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| StoreError::Corrupt {
        what: format!("{column} `{value}`"),
    })
}
