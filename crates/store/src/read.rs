//! Reads.

use crate::sql::{Row, Statement};
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

/// What a runner is looked for by.
pub(crate) enum RunnerBy {
    Id,
    Token,
    Owner,
}

macro_rules! runner_columns {
    ($rest:literal) => {
        concat!(
            "SELECT owner, id, workspace, label, os, capabilities, token_hash, paired_at, last_seen_at, ",
            "version, protocol, paused FROM runners ",
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
        Statement::new(
            "SELECT hash, workspace, role, subject, label, created_at, last_used_at, expires_at
             FROM api_keys WHERE hash = $1",
        )
        .bind(hash.to_owned())
        .first(self)
        .await?
        .map(|row| api_key(&row))
        .transpose()
    }

    /// Says whether there is any API key.
    pub async fn has_api_keys(&self) -> Result<bool, StoreError> {
        let row = Statement::new("SELECT hash FROM api_keys LIMIT 1")
            .first(self)
            .await?;
        Ok(row.is_some())
    }

    /// Lists the API keys of a workspace, oldest first.
    pub async fn api_keys(&self, workspace: &str) -> Result<Vec<ApiKeyRow>, StoreError> {
        Statement::new(
            "SELECT hash, workspace, role, subject, label, created_at, last_used_at, expires_at
             FROM api_keys WHERE workspace = $1 ORDER BY created_at, hash",
        )
        .bind(workspace.to_owned())
        .all(self)
        .await?
        .iter()
        .map(api_key)
        .collect()
    }

    /// Lists every runner.
    pub async fn runners(&self) -> Result<Vec<RunnerRow>, StoreError> {
        Statement::new(runner_columns!("ORDER BY paired_at, id"))
            .all(self)
            .await?
            .iter()
            .map(runner)
            .collect()
    }

    pub(crate) async fn runners_by(&self, by: RunnerBy, value: &str) -> Result<Vec<RunnerRow>, StoreError> {
        let sql = match by {
            RunnerBy::Id => runner_columns!("WHERE id = $1"),
            RunnerBy::Token => runner_columns!("WHERE token_hash = $1"),
            RunnerBy::Owner => runner_columns!("WHERE owner = $1"),
        };
        let rows = Statement::new(sql).bind(value).all(self).await?;
        rows.iter().map(runner).collect()
    }

    /// Lists the token hashes of the runners that were removed.
    pub async fn removed_runners(&self) -> Result<Vec<String>, StoreError> {
        Statement::new("SELECT token_hash FROM removed_runners")
            .all(self)
            .await?
            .iter()
            .map(|row| row.get("token_hash"))
            .collect()
    }

    /// Finds one harness version.
    pub async fn harness(
        &self,
        workspace: &str,
        id: &str,
        version: &str,
    ) -> Result<Option<HarnessRow>, StoreError> {
        Statement::new(
            "SELECT workspace, id, version, spec, created_by, created_at FROM harnesses
             WHERE workspace = $1 AND id = $2 AND version = $3",
        )
        .bind(workspace.to_owned())
        .bind(id.to_owned())
        .bind(version.to_owned())
        .first(self)
        .await?
        .map(|row| harness(&row))
        .transpose()
    }

    /// Lists the harness versions of a workspace by id, oldest version first.
    pub async fn harnesses(&self, workspace: &str) -> Result<Vec<HarnessRow>, StoreError> {
        Statement::new(
            "SELECT workspace, id, version, spec, created_by, created_at FROM harnesses
             WHERE workspace = $1 ORDER BY id, created_at, version",
        )
        .bind(workspace.to_owned())
        .all(self)
        .await?
        .iter()
        .map(harness)
        .collect()
    }

    /// Finds one run.
    pub async fn run(&self, id: &str) -> Result<Option<RunRow>, StoreError> {
        Statement::new(run_columns!("WHERE id = $1"))
            .bind(id.to_owned())
            .first(self)
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
        let query = Statement::new(run_columns!(
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
        let query = Statement::new(run_columns!(
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
        Statement::new(
            "SELECT id FROM runs WHERE workspace = $1 AND batch = $2 AND status IN ('queued', 'running')
             ORDER BY id",
        )
        .bind(workspace.to_owned())
        .bind(batch.to_owned())
        .all(self)
        .await?
        .iter()
        .map(|row| row.get("id"))
        .collect()
    }

    /// Counts up to `limit` batches of a workspace, the latest first; with `batch` only that one.
    pub async fn batches(
        &self,
        workspace: &str,
        batch: Option<&str>,
        limit: u32,
    ) -> Result<Vec<BatchRow>, StoreError> {
        let rows = Statement::new(
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
        .all(self)
        .await?;
        rows.iter().map(batch_row).collect()
    }

    async fn page(&self, query: Statement, limit: u32) -> Result<RunPage, StoreError> {
        let rows = query.all(self).await?;
        let mut runs = rows.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        let more = runs.len() > limit as usize;
        runs.truncate(limit as usize);
        let next = runs.last().filter(|_| more).map(|last| last.id.clone());
        Ok(RunPage { runs, next })
    }

    /// Reads the job text of a run.
    pub async fn job(&self, id: &str) -> Result<Option<String>, StoreError> {
        let row = Statement::new("SELECT job FROM runs WHERE id = $1")
            .bind(id.to_owned())
            .first(self)
            .await?;
        row.map(|row| row.get("job")).transpose()
    }

    /// Lists the runs that the lease queue must know, oldest first: those that are not over, and those
    /// cancelled under a lease after `cancelled_since`.
    pub async fn open_runs(&self, cancelled_since: Millis) -> Result<Vec<OpenRun>, StoreError> {
        Statement::new(
            "SELECT id, owner, runner, status, priority, fair_group, required_caps, lease_epoch,
                    leased_by, requeues
             FROM runs
             WHERE owner IS NOT NULL AND (status IN ('queued', 'running') OR (status = 'failed'
                   AND error_code = 'CANCELLED' AND leased_by IS NOT NULL AND finished_at > $1))
             ORDER BY id",
        )
        .bind(cancelled_since)
        .all(self)
        .await?
        .iter()
        .map(open_run)
        .collect()
    }

    /// Reads up to `limit` log lines after line number `after`.
    pub async fn logs(&self, run: &str, after: u64, limit: u32) -> Result<Vec<LogRow>, StoreError> {
        Statement::new(
            "SELECT seq, at, line FROM run_logs WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        )
        .bind(run.to_owned())
        .bind(after.cast_signed())
        .bind(i64::from(limit))
        .all(self)
        .await?
        .iter()
        .map(|row| {
            Ok(LogRow {
                seq: row.unsigned("seq")?,
                at: row.get("at")?,
                line: row.get("line")?,
            })
        })
        .collect()
    }

    /// Returns the highest line number of a run's log and the bytes it holds.
    pub async fn log_extent(&self, run: &str) -> Result<(u64, u64), StoreError> {
        let row = Statement::new(
            "SELECT COALESCE(MAX(seq), 0) AS seq, CAST(COALESCE(SUM(LENGTH(line)), 0) AS BIGINT) AS size
             FROM run_logs WHERE run_id = $1",
        )
        .bind(run.to_owned())
        .one(self)
        .await?;
        Ok((row.unsigned("seq")?, row.unsigned("size")?))
    }

    /// Reads up to `limit` pieces of evidence after number `after`.
    pub async fn events(&self, run: &str, after: u64, limit: u32) -> Result<Vec<EventRow>, StoreError> {
        Statement::new(
            "SELECT seq, at, kind, body FROM run_events
             WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
        )
        .bind(run.to_owned())
        .bind(after.cast_signed())
        .bind(i64::from(limit))
        .all(self)
        .await?
        .iter()
        .map(|row| {
            Ok(EventRow {
                seq: row.unsigned("seq")?,
                at: row.get("at")?,
                kind: row.get("kind")?,
                body: row.get("body")?,
            })
        })
        .collect()
    }

    /// Returns the highest evidence number of a run and the bytes it holds.
    pub async fn event_extent(&self, run: &str) -> Result<(u64, u64), StoreError> {
        let row = Statement::new(
            "SELECT COALESCE(MAX(seq), 0) AS seq, CAST(COALESCE(SUM(LENGTH(body)), 0) AS BIGINT) AS size
             FROM run_events WHERE run_id = $1",
        )
        .bind(run.to_owned())
        .one(self)
        .await?;
        Ok((row.unsigned("seq")?, row.unsigned("size")?))
    }

    /// Reads a secret of the hub.
    pub async fn secret(&self, name: &str) -> Result<Option<String>, StoreError> {
        let row = Statement::new("SELECT value FROM hub_secrets WHERE name = $1")
            .bind(name.to_owned())
            .first(self)
            .await?;
        row.map(|row| row.get("value")).transpose()
    }
}

fn api_key(row: &Row) -> Result<ApiKeyRow, StoreError> {
    Ok(ApiKeyRow {
        hash: row.get("hash")?,
        workspace: row.get("workspace")?,
        role: row.get("role")?,
        subject: row.get("subject")?,
        label: row.get("label")?,
        created_at: row.get("created_at")?,
        last_used_at: row.get("last_used_at")?,
        expires_at: row.get("expires_at")?,
    })
}

fn runner(row: &Row) -> Result<RunnerRow, StoreError> {
    Ok(RunnerRow {
        owner: row.get("owner")?,
        id: row.get("id")?,
        workspace: row.get("workspace")?,
        label: row.get("label")?,
        os: row.get("os")?,
        capabilities: row.words("capabilities")?,
        token_hash: row.get("token_hash")?,
        paired_at: row.get("paired_at")?,
        last_seen_at: row.get("last_seen_at")?,
        version: row.get("version")?,
        protocol: row.get("protocol")?,
        paused: row.get("paused")?,
    })
}

fn harness(row: &Row) -> Result<HarnessRow, StoreError> {
    Ok(HarnessRow {
        workspace: row.get("workspace")?,
        id: row.get("id")?,
        version: row.get("version")?,
        spec: row.get("spec")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
    })
}

fn run(row: &Row) -> Result<RunRow, StoreError> {
    let code: Option<String> = row.get("error_code")?;
    let message: Option<String> = row.get("error_message")?;
    Ok(RunRow {
        id: row.get("id")?,
        workspace: row.get("workspace")?,
        submitted_by: row.get("submitted_by")?,
        status: status(row)?,
        harness_id: row.get("harness_id")?,
        harness_version: row.get("harness_version")?,
        case_id: row.get("case_id")?,
        runtime: row.get("runtime")?,
        priority: row.get("priority")?,
        case_spec: row.get("case_spec")?,
        lease_epoch: row.get("lease_epoch")?,
        leased_by: row.get("leased_by")?,
        requeues: row.get("requeues")?,
        note: row.get("note")?,
        result: row.get("result")?,
        usage: row.get("usage")?,
        error: code.map(|code| (code, message.unwrap_or_default())),
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        started_at: row.get("started_at")?,
        batch: row.get("batch")?,
        verdict: row.get("verdict")?,
        score: row.get("score")?,
    })
}

fn batch_row(row: &Row) -> Result<BatchRow, StoreError> {
    const VERDICTS: [&str; 5] = ["pass", "fail", "timeout", "unmeasured", "infra"];
    Ok(BatchRow {
        id: row.get("batch")?,
        label: row.get("label")?,
        created_at: row.get("created_at")?,
        total: row.unsigned("total")?,
        done: row.unsigned("done")?,
        verdicts: VERDICTS
            .into_iter()
            .map(|verdict| Ok((verdict.to_owned(), row.unsigned(verdict)?)))
            .collect::<Result<_, StoreError>>()?,
    })
}

fn open_run(row: &Row) -> Result<OpenRun, StoreError> {
    Ok(OpenRun {
        id: row.get("id")?,
        owner: row.get("owner")?,
        runner: row.get("runner")?,
        status: status(row)?,
        priority: row.get("priority")?,
        fair_group: row.get("fair_group")?,
        required_caps: row.words("required_caps")?,
        lease_epoch: row.unsigned("lease_epoch")?,
        leased_by: row.get("leased_by")?,
        requeues: u32::try_from(row.unsigned("requeues")?).unwrap_or(u32::MAX),
    })
}

fn status(row: &Row) -> Result<RunStatus, StoreError> {
    RunStatus::parse(&row.get::<String>("status")?)
}
