//! Job texts that are about to be leased, so that most leases need no read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everdict_contracts::JobId;
use everdict_store::{Store, StoreError};

/// Bytes of job text kept. Jobs are a few kilobytes, so this covers the thousands that are next in line;
/// what does not fit is read from the store when its turn comes.
const KEPT_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
struct Shelf {
    texts: HashMap<JobId, Arc<str>>,
    bytes: usize,
}

/// A bounded shelf of job texts.
#[derive(Debug, Default)]
pub(crate) struct JobTexts {
    shelf: Mutex<Shelf>,
}

impl JobTexts {
    /// Keeps a text if there is room.
    pub(crate) fn keep(&self, job: &JobId, text: &Arc<str>) {
        let mut shelf = self.shelf();
        if shelf.bytes + text.len() <= KEPT_BYTES {
            shelf.bytes += text.len();
            if let Some(replaced) = shelf.texts.insert(job.clone(), text.clone()) {
                shelf.bytes -= replaced.len();
            }
        }
    }

    /// Takes a text off the shelf, or reads it. `None` when the run is unknown.
    pub(crate) async fn take(&self, store: &Store, job: &JobId) -> Result<Option<Arc<str>>, StoreError> {
        if let Some(text) = self.drop_text(job) {
            return Ok(Some(text));
        }
        Ok(store.job(job.as_str()).await?.map(Arc::from))
    }

    /// Takes a text off the shelf.
    pub(crate) fn drop_text(&self, job: &JobId) -> Option<Arc<str>> {
        let mut shelf = self.shelf();
        let text = shelf.texts.remove(job)?;
        shelf.bytes -= text.len();
        Some(text)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
