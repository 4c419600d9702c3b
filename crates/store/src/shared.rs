//! What several hubs on one database need: the queue in the database, and a way to tell each other things.
//!
//! On SQLite there is one hub, which keeps its queue in its own memory: there these calls fail.

use std::time::Duration;

use tokio::sync::mpsc;

#[cfg(feature = "postgres")]
use crate::postgres;
use crate::read::RunnerBy;
use crate::sql::Statement;
use crate::{Millis, RunStatus, RunnerRow, Store, StoreError};

/// A change to a shared queue.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SharedWrite {
    /// Renews a lease by its time to live; refused when it is not current.
    Renew {
        /// The lease.
        lease: LeaseOf,
        /// How long it lasts from now.
        ttl: Duration,
        /// When.
        at: Millis,
    },
    /// Takes back a lease whose answer never arrived: no loss is counted. Refused when it is not current.
    Return {
        /// The lease.
        lease: LeaseOf,
        /// When.
        at: Millis,
    },
    /// Appends a line to the log of a run under this lease; refused when it is not current.
    Log {
        /// The lease.
        lease: LeaseOf,
        /// When.
        at: Millis,
        /// The line.
        line: String,
        /// Bytes after which the log ends.
        cap: u64,
    },
    /// Appends evidence to a run under this lease; refused when it is not current.
    Event {
        /// The lease.
        lease: LeaseOf,
        /// When.
        at: Millis,
        /// As in [`crate::EventRow`].
        kind: String,
        /// JSON text.
        body: String,
        /// Bytes after which nothing is added.
        cap: u64,
    },
    /// Keeps the latest screen of a run.
    Screen {
        /// The run.
        run: String,
        /// When.
        at: Millis,
        /// As it came.
        frame: String,
    },
    /// Notes that a runner is about, though busy.
    Asker {
        /// Owner of the runner.
        owner: String,
        /// The runner.
        runner: String,
        /// Its capabilities; `None` when it takes anything.
        caps: Option<Vec<String>>,
        /// When.
        at: Millis,
    },
}

impl SharedWrite {
    pub(crate) fn subject(&self) -> &str {
        match self {
            Self::Renew { lease, .. }
            | Self::Return { lease, .. }
            | Self::Log { lease, .. }
            | Self::Event { lease, .. } => &lease.run,
            Self::Screen { run, .. } => run,
            Self::Asker { runner, .. } => runner,
        }
    }
}

/// Names one lease of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOf {
    /// The run.
    pub run: String,
    /// The lease's epoch.
    pub epoch: u64,
    /// Its holder.
    pub holder: String,
}

/// A caller that waits for a job.
#[derive(Debug, Clone)]
pub struct Seat {
    /// The runner.
    pub runner: String,
    /// Its capabilities; `None` when it takes anything.
    pub caps: Option<Vec<String>>,
}

/// What a seat gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// A job, leased and committed.
    Job {
        /// Position of the seat, counted from zero.
        seat: usize,
        /// The run.
        run: String,
        /// Its lease's epoch.
        epoch: u64,
        /// The job's text.
        text: String,
    },
    /// A run of the seat's own lane that its runner cannot take; it still waits.
    Lacking {
        /// Position of the seat, counted from zero.
        seat: usize,
        /// The run.
        run: String,
        /// What it needs.
        needs: Vec<String>,
    },
}

/// How a run stands with whoever holds it, or held it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Where the run stands.
    pub status: RunStatus,
    /// Epoch of its latest lease.
    pub epoch: u64,
    /// Holder of that.
    pub holder: Option<String>,
    /// Whether somebody cancelled it.
    pub cancelled: bool,
}

/// What one look for lost leases came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired {
    /// Owner and place of the lanes that have runs again; the place is empty for the pool.
    pub lanes: Vec<(String, String)>,
    /// The runs that wait again.
    pub runs: Vec<String>,
    /// How long until the next lease ends, if there is one.
    pub next: Option<Duration>,
}

/// Something another hub said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// One JSON value per item.
    News(Vec<String>),
    /// Some may have been missed: whatever is remembered has to be read again.
    Gap,
}

impl Store {
    /// Leases waiting runs of an owner to these seats, the first seat first.
    ///
    /// Not cancel safe: a lease that was given out stays given out.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::NoPostgres`].
    pub async fn claim(
        &self,
        owner: &str,
        seats: &[Seat],
        at: Millis,
        ttl: Duration,
    ) -> Result<Vec<Claim>, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.postgres() {
            return postgres::claim(database, owner, seats, at, ttl).await;
        }
        let _ = (owner, seats, at, ttl);
        Err(StoreError::NoPostgres)
    }

    /// Puts back runs whose leases have ended, and says when to look again.
    ///
    /// # Errors
    /// [`StoreError::Database`], [`StoreError::NoPostgres`].
    pub async fn expire_leases(&self, at: Millis) -> Result<Expired, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.postgres() {
            return postgres::expire(database, at).await;
        }
        let _ = at;
        Err(StoreError::NoPostgres)
    }

    /// Finds runs that have waited since `before` while no runner that could run them showed itself.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub async fn forsaken(&self, before: Millis) -> Result<Vec<String>, StoreError> {
        Statement::new(
            "SELECT x.id FROM lanes l CROSS JOIN LATERAL (
                 SELECT r.id FROM runs r
                 WHERE r.status = 'queued' AND r.owner = l.owner AND r.place = l.place AND r.priority = l.priority
                   AND r.required_caps = l.required_caps AND r.activity_at <= $1 LIMIT 200) x
             WHERE NOT EXISTS (
                 SELECT 1 FROM askers a WHERE a.owner = l.owner AND (l.place = '' OR a.runner = l.place) AND a.at > $1
                   AND (a.caps = '*' OR string_to_array(l.required_caps, ' ') <@ string_to_array(a.caps, ' ')))",
        )
        .bind(before)
        .all(self)
        .await?
        .iter()
        .map(|row| row.get("id"))
        .collect()
    }

    /// Says how a run stands.
    ///
    /// # Errors
    /// As every read.
    pub async fn standing(&self, run: &str) -> Result<Option<Standing>, StoreError> {
        let row = Statement::new("SELECT status, lease_epoch, leased_by, error_code FROM runs WHERE id = $1")
            .bind(run)
            .first(self)
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Standing {
            status: RunStatus::parse(&row.get::<String>("status")?)?,
            epoch: row.unsigned("lease_epoch")?,
            holder: row.get("leased_by")?,
            cancelled: row.get::<Option<String>>("error_code")?.as_deref() == Some("CANCELLED"),
        }))
    }

    /// Finds a runner by the hash of its token.
    ///
    /// # Errors
    /// As every read.
    pub async fn runner_by_token(&self, hash: &str) -> Result<Option<RunnerRow>, StoreError> {
        let all = self.runners_by(RunnerBy::Token, hash).await?;
        Ok(all.into_iter().next())
    }

    /// Lists the runners of an owner.
    ///
    /// # Errors
    /// As every read.
    pub async fn runners_of(&self, owner: &str) -> Result<Vec<RunnerRow>, StoreError> {
        self.runners_by(RunnerBy::Owner, owner).await
    }

    /// Finds a runner by its id.
    ///
    /// # Errors
    /// As every read.
    pub async fn runner(&self, id: &str) -> Result<Option<RunnerRow>, StoreError> {
        let all = self.runners_by(RunnerBy::Id, id).await?;
        Ok(all.into_iter().next())
    }

    /// Reads the latest screen of a run and when it came.
    ///
    /// # Errors
    /// As every read.
    pub async fn screen(&self, run: &str) -> Result<Option<(String, Millis)>, StoreError> {
        let row = Statement::new("SELECT frame, at FROM run_screens WHERE run_id = $1")
            .bind(run)
            .first(self)
            .await?;
        row.map(|row| Ok((row.get("frame")?, row.get("at")?))).transpose()
    }

    /// Asks the database for a sign of life.
    ///
    /// # Errors
    /// As every read.
    pub async fn ping(&self) -> Result<(), StoreError> {
        Statement::new("SELECT CAST(1 AS BIGINT) AS one")
            .one(self)
            .await
            .map(drop)
    }

    /// Counts the runs that wait and those that are leased.
    ///
    /// # Errors
    /// As every read.
    pub async fn depth(&self) -> Result<(u64, u64), StoreError> {
        let row = Statement::new(
            "SELECT (SELECT COUNT(*) FROM runs WHERE status = 'queued' AND owner IS NOT NULL) AS waiting,
                    (SELECT COUNT(*) FROM runs WHERE status = 'running') AS leased",
        )
        .one(self)
        .await?;
        Ok((row.unsigned("waiting")?, row.unsigned("leased")?))
    }

    /// What other hubs on the database say from now on; `None` where there can be no other.
    ///
    /// Runs until the receiver is dropped or the store closed.
    #[must_use]
    pub fn listen(&self) -> Option<mpsc::Receiver<Told>> {
        #[cfg(feature = "postgres")]
        if let Some(database) = self.postgres() {
            return Some(self.track(|stop| postgres::listen(database, stop)));
        }
        None
    }
}
