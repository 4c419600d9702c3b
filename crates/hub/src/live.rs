//! Runs that are not over: numbering of their log and evidence, and a signal for whoever follows them.
//!
//! Followers read the store; the signal only says that there is something to read. A line is therefore
//! never shown before it is kept, and a slow follower costs no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everdict_store::{EventRow, LogRow, Millis, RunStatus, Store, StoreError, Write};
use tokio::sync::watch;

use crate::clock;

/// Bytes of trace and track evidence kept per run while it is going; the result carries the whole trace
/// in the end, so this serves only those who look on.
pub(crate) const EVIDENCE_CAP: u64 = 8_000_000;

/// What followers wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) status: RunStatus,
    /// Grows with every kept line.
    pub(crate) ticks: u64,
}

/// What became of a pushed line or event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In the store.
    Yes,
    /// The run's share of the disk is used up.
    Full,
}

#[derive(Debug, Default)]
struct Counters {
    log_seq: u64,
    log_bytes: u64,
    log_full: bool,
    event_seq: u64,
    event_bytes: u64,
    started_at: Option<Millis>,
    frame: Option<(Arc<str>, Millis)>,
}

/// One run that is not over.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) runtime: String,
    pub(crate) created_at: Millis,
    /// A remark on its way to a runner, such as nobody being online.
    pub(crate) note: Option<String>,
    progress: watch::Sender<Progress>,
    counters: Mutex<Counters>,
}

impl LiveRun {
    pub(crate) fn new(runtime: String, created_at: Millis, note: Option<String>) -> Self {
        let progress = watch::Sender::new(Progress {
            status: RunStatus::Queued,
            ticks: 0,
        });
        Self {
            runtime,
            created_at,
            note,
            progress,
            counters: Mutex::default(),
        }
    }

    /// When the run was first handed out, if it was.
    pub(crate) fn started_at(&self) -> Option<Millis> {
        self.counters().started_at
    }

    pub(crate) fn started(&self, at: Millis) {
        self.counters().started_at.get_or_insert(at);
        self.set_status(RunStatus::Running);
    }

    pub(crate) fn set_status(&self, status: RunStatus) {
        self.progress.send_if_modified(|progress| {
            let news = progress.status != status && !progress.status.is_finished();
            if news {
                progress.status = status;
            }
            news
        });
    }

    pub(crate) fn follow(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// The latest screen and when it came.
    pub(crate) fn frame(&self) -> Option<(Arc<str>, Millis)> {
        self.counters().frame.clone()
    }

    pub(crate) fn show(&self, frame: String) {
        self.counters().frame = Some((frame.into(), clock::now()));
    }

    /// Appends to the log and returns once it is kept. Beyond `cap` bytes one line says that the log
    /// ends here, and the rest is dropped.
    pub(crate) async fn log(
        &self,
        store: &Store,
        run: &str,
        line: String,
        cap: u64,
    ) -> Result<Kept, StoreError> {
        let at = clock::now();
        let (row, kept) = {
            let mut counters = self.counters();
            if counters.log_full {
                return Ok(Kept::Full);
            }
            counters.log_seq += 1;
            counters.log_bytes += line.len() as u64;
            counters.log_full = counters.log_bytes > cap;
            let (line, kept) = if counters.log_full {
                (format!("[the log ends here: it reached {cap} bytes]"), Kept::Full)
            } else {
                (line, Kept::Yes)
            };
            let seq = counters.log_seq;
            (LogRow { seq, at, line }, kept)
        };
        let run = run.to_owned();
        let lines = vec![row];
        store.write(Write::AppendLogs { run, lines }).await?;
        self.progress.send_modify(|progress| progress.ticks += 1);
        Ok(kept)
    }

    /// Keeps a piece of evidence.
    pub(crate) async fn event(
        &self,
        store: &Store,
        run: &str,
        kind: &str,
        body: String,
    ) -> Result<Kept, StoreError> {
        let event = {
            let mut counters = self.counters();
            if counters.event_bytes + body.len() as u64 > EVIDENCE_CAP {
                return Ok(Kept::Full);
            }
            counters.event_seq += 1;
            counters.event_bytes += body.len() as u64;
            EventRow {
                seq: counters.event_seq,
                at: clock::now(),
                kind: kind.to_owned(),
                body,
            }
        };
        let run = run.to_owned();
        store.write(Write::AppendEvent { run, event }).await?;
        Ok(Kept::Yes)
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every run that is not over.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns {
    runs: Mutex<HashMap<String, Arc<LiveRun>>>,
}

impl LiveRuns {
    pub(crate) fn open(&self, run: &str, live: LiveRun) -> Arc<LiveRun> {
        let live = Arc::new(live);
        self.runs().insert(run.to_owned(), live.clone());
        live
    }

    /// Shows a run's followers, if it has any here, where it stands.
    pub(crate) fn show_status(&self, run: &str, status: RunStatus) {
        if let Some(live) = self.get(run) {
            live.set_status(status);
        }
    }

    /// Tells a run's followers, if it has any here, that its log has grown.
    pub(crate) fn tick(&self, run: &str) {
        if let Some(live) = self.get(run) {
            live.progress.send_modify(|progress| progress.ticks += 1);
        }
    }

    /// Names the runs that are known here.
    pub(crate) fn followed(&self) -> Vec<String> {
        self.runs().keys().cloned().collect()
    }

    pub(crate) fn get(&self, run: &str) -> Option<Arc<LiveRun>> {
        self.runs().get(run).cloned()
    }

    /// Finds a run, reading it back from the store after a restart. `None` when it is over or unknown.
    pub(crate) async fn find(&self, store: &Store, run: &str) -> Result<Option<Arc<LiveRun>>, StoreError> {
        if let Some(live) = self.get(run) {
            return Ok(Some(live));
        }
        let Some(row) = store.run(run).await?.filter(|row| !row.status.is_finished()) else {
            return Ok(None);
        };
        let (log_seq, log_bytes) = store.log_extent(run).await?;
        let (event_seq, event_bytes) = store.event_extent(run).await?;
        let live = LiveRun::new(row.runtime, row.created_at, row.note);
        live.set_status(row.status);
        *live.counters() = Counters {
            log_seq,
            log_bytes,
            event_seq,
            event_bytes,
            started_at: row.started_at,
            ..Counters::default()
        };
        let live = self
            .runs()
            .entry(run.to_owned())
            .or_insert_with(|| Arc::new(live))
            .clone();
        // The run may have ended since it was read, and then nobody would tell its followers.
        match store.run(run).await? {
            Some(row) if !row.status.is_finished() => Ok(Some(live)),
            ended => {
                self.end(run, ended.map_or(RunStatus::Failed, |row| row.status));
                Ok(None)
            }
        }
    }

    /// Tells followers that a run is over, and forgets it.
    pub(crate) fn end(&self, run: &str, status: RunStatus) {
        if let Some(live) = self.runs().remove(run) {
            live.set_status(status);
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
