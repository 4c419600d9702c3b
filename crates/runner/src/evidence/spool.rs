//! Lines that wait for the hub on disk, first in, first out.
//!
//! The file has no name: nothing of it is left, however this process ends.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Four minutes of a thousand long lines a second; what a log page could still show.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// Tells the spools of one process apart for the moment in which they have a name.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// One read brings about this much back.
const READ_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Spool {
    file: fs::File,
    /// Where the oldest line begins.
    head: u64,
    /// Where the next one goes.
    tail: u64,
}

impl Spool {
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".spool-{}-{number}", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self {
            file,
            head: 0,
            tail: 0,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Appends a line; false when there is no room for it, on the disk or within the bound.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let mut bytes = Vec::with_capacity(line.len() + 1);
        // A line never holds a line break; one that does is two.
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let end = self.tail + bytes.len() as u64;
        if end > MAX_BYTES || self.file.write_all_at(&bytes, self.tail).is_err() {
            return false;
        }
        self.tail = end;
        true
    }

    /// Takes the oldest lines. An empty spool gives its room back.
    pub(super) fn take(&mut self) -> Vec<String> {
        let want = usize::try_from(self.tail - self.head).unwrap_or(READ_BYTES);
        let mut bytes = vec![0; want.min(READ_BYTES)];
        if self.file.read_exact_at(&mut bytes, self.head).is_err() {
            // A file that can't be read any more holds nothing.
            self.head = self.tail;
            return Vec::new();
        }
        let end = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(bytes.len(), |at| at + 1);
        self.head += end as u64;
        let lines = String::from_utf8_lossy(&bytes[..end])
            .lines()
            .map(str::to_owned)
            .collect();
        if self.is_empty() && self.file.set_len(0).is_ok() {
            (self.head, self.tail) = (0, 0);
        }
        lines
    }
}
