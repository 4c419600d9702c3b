//! Writes: one value per change, and the statements they become.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::shared::SharedWrite;
use crate::sql::Statement;
use crate::{ApiKeyRow, EventRow, HarnessRow, LogRow, Millis, NewRun, RunFinish, RunnerRow, RunnerTouch};

/// One change to the database.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Write {
    /// Adds an API key; refused when its hash exists.
    InsertApiKey(ApiKeyRow),
    /// Removes an API key by hash; refused when there is none.
    DeleteApiKey {
        /// Hex SHA-256 of the key.
        hash: String,
    },
    /// Removes every API key whose time is over; refused when there is none.
    DeleteExpiredApiKeys {
        /// Now.
        at: Millis,
    },
    /// Notes that an API key was used.
    TouchApiKey {
        /// Hex SHA-256 of the key.
        hash: String,
        /// When.
        at: Millis,
    },
    /// Adds a runner; refused when its id or token exists.
    InsertRunner(RunnerRow),
    /// Stores what a runner reported about itself.
    TouchRunner(RunnerTouch),
    /// Pauses a runner of this owner for a reason, or ends that; refused when there is none.
    PauseRunner {
        /// Owner it must belong to.
        owner: String,
        /// The runner.
        id: String,
        /// Why; absent to end the pause.
        reason: Option<String>,
    },
    /// Removes a runner of this owner and remembers its token as a removed one's; refused when there is none.
    DeleteRunner {
        /// Owner it must belong to.
        owner: String,
        /// The runner.
        id: String,
        /// When.
        at: Millis,
    },
    /// Adds a harness version; refused when the version exists, whatever its spec.
    InsertHarness(HarnessRow),
    /// Adds a queued run.
    InsertRun(Box<NewRun>),
    /// Hands a run to a runner; refused unless it is open and `epoch` is ahead of the stored one.
    LeaseRun {
        /// The run.
        id: String,
        /// The new epoch.
        epoch: u64,
        /// The holder.
        runner: String,
        /// When.
        at: Millis,
    },
    /// Puts a leased run back and counts the loss; a newer lease stays as it is. Refused when the run is over or
    /// this lease was never stored.
    RequeueRun {
        /// The run.
        id: String,
        /// Epoch of the lease that ended.
        epoch: u64,
        /// How often a holder was lost so far.
        requeues: u32,
        /// When.
        at: Millis,
    },
    /// Ends a run; refused when it is over or under another lease than the one named.
    FinishRun(Box<RunFinish>),
    /// Appends lines to a run's log.
    AppendLogs {
        /// The run.
        run: String,
        /// The lines; their numbers must be new.
        lines: Vec<LogRow>,
    },
    /// Appends evidence to a run.
    AppendEvent {
        /// The run.
        run: String,
        /// The evidence; its number must be new.
        event: EventRow,
    },
    /// Stores a secret of the hub under a name unless the name is taken.
    InsertSecret {
        /// Name.
        name: String,
        /// Text.
        value: String,
    },
    /// A change to a queue that several hubs share; only PostgreSQL has one.
    Shared(SharedWrite),
    /// Nothing but news for other hubs.
    Tell,
}

impl Write {
    /// Says whether the change is one statement, and so a transaction without further ado.
    pub(crate) fn is_single_statement(&self) -> bool {
        match self {
            Self::AppendLogs { lines, .. } => lines.len() == 1,
            Self::DeleteRunner { .. } => false,
            _ => true,
        }
    }

    /// Picks one of `count` writers, the same for everything that concerns one row.
    pub(crate) fn lane(&self, count: usize) -> usize {
        if count < 2 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.subject().hash(&mut hasher);
        // Below `count`, so it fits.
        usize::try_from(hasher.finish() % count as u64).unwrap_or_default()
    }

    fn subject(&self) -> &str {
        match self {
            Self::InsertApiKey(row) => &row.hash,
            Self::DeleteApiKey { hash } | Self::TouchApiKey { hash, .. } => hash,
            Self::DeleteExpiredApiKeys { .. } => "",
            Self::InsertRunner(row) => &row.id,
            Self::TouchRunner(touch) => &touch.id,
            Self::PauseRunner { id, .. }
            | Self::DeleteRunner { id, .. }
            | Self::LeaseRun { id, .. }
            | Self::RequeueRun { id, .. } => id,
            Self::InsertHarness(row) => &row.id,
            Self::InsertRun(run) => &run.id,
            Self::FinishRun(finish) => &finish.id,
            Self::AppendLogs { run, .. } | Self::AppendEvent { run, .. } => run,
            Self::InsertSecret { name, .. } => name,
            Self::Shared(shared) => shared.subject(),
            Self::Tell => "",
        }
    }
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made and committed.
    Applied,
    /// The row was not in the state that the change needs; nothing was changed.
    Refused,
    /// The run's share of the disk is used up; nothing but a word about that was kept.
    Full,
}

impl Outcome {
    pub(crate) fn of(changed: u64) -> Self {
        if changed > 0 { Self::Applied } else { Self::Refused }
    }
}

/// Turns a change into its statements; it was made when any of them changed a row.
pub(crate) fn statements(write: &Write) -> Vec<Statement> {
    match write {
        Write::DeleteRunner { owner, id, at } => delete_runner(owner, id, *at),
        Write::AppendLogs { run, lines } => lines.iter().map(|line| append_log(run, line)).collect(),
        Write::Tell => Vec::new(),
        single => vec![statement(single)],
    }
}

fn statement(write: &Write) -> Statement {
    match write {
        Write::InsertApiKey(row) => insert_api_key(row),
        Write::DeleteApiKey { hash } => {
            Statement::new("DELETE FROM api_keys WHERE hash = $1").bind(hash.clone())
        }
        Write::DeleteExpiredApiKeys { at } => {
            Statement::new("DELETE FROM api_keys WHERE expires_at <= $1").bind(*at)
        }
        Write::TouchApiKey { hash, at } => {
            Statement::new("UPDATE api_keys SET last_used_at = $2 WHERE hash = $1")
                .bind(hash.clone())
                .bind(*at)
        }
        Write::InsertRunner(row) => insert_runner(row),
        Write::TouchRunner(touch) => touch_runner(touch),
        Write::PauseRunner { owner, id, reason } => {
            Statement::new("UPDATE runners SET paused = $3 WHERE owner = $1 AND id = $2")
                .bind(owner.clone())
                .bind(id.clone())
                .bind(reason.clone())
        }
        Write::InsertHarness(row) => insert_harness(row),
        Write::InsertRun(run) => insert_run(run),
        Write::LeaseRun {
            id,
            epoch,
            runner,
            at,
        } => lease_run(id, *epoch, runner, *at),
        Write::RequeueRun {
            id,
            epoch,
            requeues,
            at,
        } => requeue_run(id, *epoch, *requeues, *at),
        Write::FinishRun(finish) => finish_run(finish),
        Write::AppendEvent { run, event } => append_event(run, event),
        Write::InsertSecret { name, value } => {
            Statement::new("INSERT INTO hub_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(name.clone())
                .bind(value.clone())
        }
        Write::AppendLogs { .. } | Write::DeleteRunner { .. } | Write::Tell => {
            unreachable!("BUG: these are not one statement")
        }
        Write::Shared(_) => unreachable!("BUG: a shared queue has statements of its own"),
    }
}

fn insert_api_key(row: &ApiKeyRow) -> Statement {
    Statement::new(
        "INSERT INTO api_keys (hash, workspace, role, subject, label, created_at, last_used_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
    )
    .bind(row.hash.clone())
    .bind(row.workspace.clone())
    .bind(row.role.clone())
    .bind(row.subject.clone())
    .bind(row.label.clone())
    .bind(row.created_at)
    .bind(row.last_used_at)
    .bind(row.expires_at)
}

fn insert_runner(row: &RunnerRow) -> Statement {
    Statement::new(
        "INSERT INTO runners (owner, id, workspace, label, os, capabilities, token_hash, paired_at,
                              last_seen_at, version, protocol, paused)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
    )
    .bind(row.owner.clone())
    .bind(row.id.clone())
    .bind(row.workspace.clone())
    .bind(row.label.clone())
    .bind(row.os.clone())
    .bind(row.capabilities.join(" "))
    .bind(row.token_hash.clone())
    .bind(row.paired_at)
    .bind(row.last_seen_at)
    .bind(row.version.clone())
    .bind(row.protocol)
    .bind(row.paused.clone())
}

/// The token first: without its row nothing would tell it.
fn delete_runner(owner: &str, id: &str, at: Millis) -> Vec<Statement> {
    let remember = Statement::new(
        "INSERT INTO removed_runners (token_hash, removed_at)
         SELECT token_hash, $3 FROM runners WHERE owner = $1 AND id = $2
         ON CONFLICT DO NOTHING",
    );
    let delete = Statement::new("DELETE FROM runners WHERE owner = $1 AND id = $2");
    vec![
        remember.bind(owner.to_owned()).bind(id.to_owned()).bind(at),
        delete.bind(owner.to_owned()).bind(id.to_owned()),
    ]
}

fn touch_runner(touch: &RunnerTouch) -> Statement {
    let (version, protocol) = match &touch.version {
        Some((version, protocol)) => (Some(version.clone()), Some(*protocol)),
        None => (None, None),
    };
    Statement::new(
        "UPDATE runners SET last_seen_at = $2, os = COALESCE($3, os),
                            capabilities = COALESCE($4, capabilities),
                            version = COALESCE($5, version), protocol = COALESCE($6, protocol)
         WHERE id = $1",
    )
    .bind(touch.id.clone())
    .bind(touch.last_seen_at)
    .bind(touch.os.clone())
    .bind(touch.capabilities.as_ref().map(|names| names.join(" ")))
    .bind(version)
    .bind(protocol)
}

fn insert_harness(row: &HarnessRow) -> Statement {
    Statement::new(
        "INSERT INTO harnesses (workspace, id, version, spec, created_by, created_at)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
    )
    .bind(row.workspace.clone())
    .bind(row.id.clone())
    .bind(row.version.clone())
    .bind(row.spec.clone())
    .bind(row.created_by.clone())
    .bind(row.created_at)
}

fn insert_run(run: &NewRun) -> Statement {
    Statement::new(
        "INSERT INTO runs (id, workspace, submitted_by, status, harness_id, harness_version, case_id,
                           runtime, priority, fair_group, case_spec, job, owner, runner,
                           required_caps, lease_epoch, requeues, note, created_at, updated_at,
                           activity_at, batch, batch_label)
         VALUES ($1, $2, $3, 'queued', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, 0, $15,
                 $16, $16, $16, $17, $18) ON CONFLICT DO NOTHING",
    )
    .bind(run.id.clone())
    .bind(run.workspace.clone())
    .bind(run.submitted_by.clone())
    .bind(run.harness_id.clone())
    .bind(run.harness_version.clone())
    .bind(run.case_id.clone())
    .bind(run.runtime.clone())
    .bind(run.priority.clone())
    .bind(run.fair_group.clone())
    .bind(run.case_spec.clone())
    .bind(run.job.clone())
    .bind(run.owner.clone())
    .bind(run.runner.clone())
    .bind(run.required_caps.join(" "))
    .bind(run.note.clone())
    .bind(run.created_at)
    .bind(run.batch.clone())
    .bind(run.batch_label.clone())
}

fn lease_run(id: &str, epoch: u64, runner: &str, at: Millis) -> Statement {
    Statement::new(
        "UPDATE runs SET status = 'running', lease_epoch = $2, leased_by = $3, updated_at = $4,
                         activity_at = $4, started_at = COALESCE(started_at, $4)
         WHERE id = $1 AND status IN ('queued', 'running') AND lease_epoch < $2",
    )
    .bind(id.to_owned())
    .bind(epoch.cast_signed())
    .bind(runner.to_owned())
    .bind(at)
}

/// A loss is counted even when the next lease has been stored already; only the status is its own then.
fn requeue_run(id: &str, epoch: u64, requeues: u32, at: Millis) -> Statement {
    Statement::new(
        "UPDATE runs SET status = CASE WHEN lease_epoch = $2 THEN 'queued' ELSE status END,
                         requeues = CASE WHEN requeues < $3 THEN $3 ELSE requeues END,
                         updated_at = $4, activity_at = $4
         WHERE id = $1 AND status IN ('queued', 'running') AND lease_epoch >= $2",
    )
    .bind(id.to_owned())
    .bind(epoch.cast_signed())
    .bind(i64::from(requeues))
    .bind(at)
}

fn finish_run(finish: &RunFinish) -> Statement {
    let (code, message) = match &finish.error {
        Some((code, message)) => (Some(code.clone()), Some(message.clone())),
        None => (None, None),
    };
    Statement::new(
        "UPDATE runs SET status = $2, result = $4, usage = $5, error_code = $6, error_message = $7,
                         updated_at = $8, finished_at = $8, verdict = $9, score = $10
         WHERE id = $1 AND status IN ('queued', 'running')
           AND ($3 < 0 OR (lease_epoch = $3 AND status = 'running' AND ($11 = '' OR leased_by = $11)))
           AND ($12 = 0 OR status = 'queued')",
    )
    .bind(finish.id.clone())
    .bind(finish.status.as_str())
    .bind(finish.lease_epoch.map_or(-1, u64::cast_signed))
    .bind(finish.result.clone())
    .bind(finish.usage.clone())
    .bind(code)
    .bind(message)
    .bind(finish.at)
    .bind(finish.verdict.clone())
    .bind(finish.score.clone())
    .bind(finish.holder.clone().unwrap_or_default())
    .bind(i64::from(finish.only_waiting))
}

fn append_log(run: &str, line: &LogRow) -> Statement {
    Statement::new(
        "INSERT INTO run_logs (run_id, seq, at, line) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(run.to_owned())
    .bind(line.seq.cast_signed())
    .bind(line.at)
    .bind(line.line.clone())
}

fn append_event(run: &str, event: &EventRow) -> Statement {
    Statement::new(
        "INSERT INTO run_events (run_id, seq, at, kind, body) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
    )
    .bind(run.to_owned())
    .bind(event.seq.cast_signed())
    .bind(event.at)
    .bind(event.kind.clone())
    .bind(event.body.clone())
}
