//! What must outlive this process: which attempts it has begun, and which results the hub has not taken yet.
//!
//! A folder is the journal, one file per attempt. The file is there, on disk, before the attempt has any effect; the
//! result goes into it before the first submit; it goes when the attempt is settled. Each step is one rename or one
//! removal, so a crash at any moment leaves the state before it or after it. Whoever holds the lock on a file works on
//! that attempt: the system lets go of it when a process ends, however it ends, so no process id is ever trusted.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use everdict_contracts::{AttemptToken, CaseId, CaseJob, CaseResult, CorrelationId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The hub forgets a job much sooner, and a runner that was unpaired never comes back for its results.
const KEPT: Duration = Duration::from_secs(14 * 24 * 3600);

/// Twice what a hub takes: what is longer is no entry of ours.
const MAX_ENTRY: u64 = 32 << 20;

const ENTRY: &str = "json";
const UNFINISHED: &str = "new";

/// The journal of one runner.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    /// `None` keeps nothing.
    folder: Option<PathBuf>,
}

/// One attempt's entry; the attempt is this process' for as long as it is held. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    open: Option<Arc<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    words: Words,
    /// Each carries a lock: that of the file as it was first, and as it is now.
    locks: Mutex<Vec<File>>,
}

/// An entry whose process is gone.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) entry: Entry,
    pub(crate) attempt: AttemptToken,
    pub(crate) words: Words,
    pub(crate) result: Option<CaseResult>,
}

/// What an entry says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Words {
    attempt: AttemptToken,
    pub(crate) case_id: CaseId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<CorrelationId>,
    pub(crate) leased_at: Timestamp,
}

#[derive(Deserialize)]
struct Whole {
    #[serde(flatten)]
    words: Words,
    #[serde(default)]
    result: Option<serde_json::Value>,
}

impl Journal {
    /// The journal, below `state_dir`, of the runner that this token belongs to.
    pub(crate) fn new(state_dir: Option<&Path>, api_url: &str, token: &str) -> Self {
        let name = short_hash(&format!("{api_url}\n{token}"));
        Self {
            folder: state_dir.map(|dir| dir.join("attempts").join(name)),
        }
    }

    /// Writes down that an attempt begins. On disk when this returns.
    ///
    /// # Errors
    /// Any of the file system's; nothing may be done for the attempt then.
    pub(crate) async fn begin(&self, attempt: &AttemptToken, job: &CaseJob) -> io::Result<Entry> {
        let Some(folder) = self.folder.clone() else {
            return Ok(Entry { open: None });
        };
        let words = Words {
            attempt: attempt.clone(),
            case_id: job.eval_case.id.clone(),
            run_id: job.run_id.clone(),
            leased_at: Timestamp::now(),
        };
        blocking(move || {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            let job_id = short_hash(words.attempt.job_id.as_str());
            let path = folder.join(format!("{job_id}-{}.{ENTRY}", words.attempt.lease_epoch));
            let file = write(&path, &serde_json::to_vec(&words)?)?;
            Ok(Entry {
                open: Some(Arc::new(Open {
                    path,
                    words,
                    locks: Mutex::new(vec![file]),
                })),
            })
        })
        .await
    }

    /// What earlier processes of this runner left behind. Those of living ones are theirs.
    pub(crate) async fn orphans(&self) -> Vec<Orphan> {
        let Some(folder) = self.folder.clone() else {
            return Vec::new();
        };
        let found = blocking(move || {
            if let Some(all) = folder.parent() {
                forget_old(all);
            }
            Ok(files(&folder).filter_map(|path| adopt(&path)).collect())
        });
        found.await.unwrap_or_default()
    }
}

impl Entry {
    /// Puts the result into the entry, so that it is delivered whatever becomes of this process. On disk when this
    /// returns.
    ///
    /// # Errors
    /// Any of the file system's; the result is worth sending all the same.
    pub(crate) async fn keep(&self, result: &Arc<CaseResult>) -> io::Result<()> {
        #[derive(Serialize)]
        struct Kept<'a> {
            #[serde(flatten)]
            words: &'a Words,
            result: &'a CaseResult,
        }
        let Some(open) = self.open.clone() else {
            return Ok(());
        };
        let result = Arc::clone(result);
        blocking(move || {
            let kept = Kept {
                words: &open.words,
                result: &result,
            };
            let file = write(&open.path, &serde_json::to_vec(&kept)?)?;
            open.locks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(file);
            Ok(())
        })
        .await
    }

    /// Removes the entry: the hub has spoken its last word on the attempt.
    pub(crate) async fn settle(&self) {
        let Some(open) = self.open.clone() else { return };
        // Not made durable: should the entry come back after a power cut, the hub refuses what it has.
        let settled = blocking(move || fs::remove_file(&open.path));
        if let Err(error) = settled.await {
            tracing::warn!(%error, "a settled attempt could not be taken out of the journal");
        }
    }
}

/// Runs file work off the async threads. A panic there is an error like another.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Makes `path` hold `bytes`, all or nothing, and durable. The file comes back locked.
fn write(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let unfinished = path.with_extension(UNFINISHED);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| file.lock())
        .and_then(|()| fs::rename(&unfinished, path))
        .and_then(|()| sync_folder(path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.map(|()| file)
}

/// A new name lasts only once its folder is written.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Takes over an entry that nobody works on. What can't be read is left, and told.
fn adopt(path: &Path) -> Option<Orphan> {
    if path.extension().is_none_or(|extension| extension != ENTRY) {
        return None;
    }
    let mut file = File::open(path).ok()?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return None,
        Err(TryLockError::Error(error)) => {
            tracing::warn!(file = %path.display(), %error, "an entry of the journal can't be locked");
            return None;
        }
    }
    // It may have been settled, or written anew, between the two calls.
    let is_current = fs::metadata(path)
        .and_then(|now| Ok(now.ino() == file.metadata()?.ino()))
        .unwrap_or(false);
    if !is_current {
        return None;
    }
    match read(&mut file) {
        Ok((words, result)) => Some(Orphan {
            attempt: words.attempt.clone(),
            entry: Entry {
                open: Some(Arc::new(Open {
                    path: path.to_owned(),
                    words: words.clone(),
                    locks: Mutex::new(vec![file]),
                })),
            },
            words,
            result,
        }),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "an entry of the journal can't be read, and is left");
            None
        }
    }
}

fn read(file: &mut File) -> io::Result<(Words, Option<CaseResult>)> {
    let mut bytes = Vec::new();
    file.take(MAX_ENTRY).read_to_end(&mut bytes)?;
    let Whole { words, result } = serde_json::from_slice(&bytes)?;
    let result = result
        .map(everdict_contracts::decode::<CaseResult>)
        .transpose()
        .map_err(io::Error::other)?;
    Ok((words, result))
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Removes what nobody comes back for, of this runner and of others.
fn forget_old(all: &Path) {
    for folder in files(all) {
        for path in files(&folder) {
            let old = fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > KEPT));
            let free = old && File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
            if free && fs::remove_file(&path).is_ok() {
                tracing::info!(file = %path.display(), "an attempt that nobody came back for is forgotten");
            }
        }
        // Only an empty one goes.
        let _ = fs::remove_dir(&folder);
    }
}

/// Sixteen hex digits: names from outside are no file names.
fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
