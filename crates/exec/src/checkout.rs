//! From a source to a working tree, and from the tree back to what was changed in it.
//!
//! Every git call is checked, runs without the member's configuration, hooks and prompts, and gets a token through its
//! environment only. A tree taken from a path is a copy: neither the member's tree nor its index is touched.

mod copy;
mod diff;
mod fetch;
mod git;
mod seed;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

pub use diff::{DiffCut, DiffRequest, RepoDiff, diff_since};
pub use seed::{SeedRequest, rebase, seed};

/// What a tree looked like when the agent got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// The commit that was checked out.
    pub head: String,
    /// The commit or tree to compare with. Another than `head` when setup commands changed files, or when a copied tree
    /// had changes that were not committed.
    pub tree: String,
    /// The index that belongs to `tree`; spares git from building one.
    index: PathBuf,
}

/// Where the index of the baseline is kept.
fn baseline_index(dir: &Path) -> PathBuf {
    dir.join(".git").join("everdict-baseline-index")
}

/// Copies an index so that git reads every file again: git compares times by the second, and an agent can set them. It
/// doesn't believe an index that is older than its entries.
fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    fs::OpenOptions::new()
        .write(true)
        .open(to)?
        .set_times(fs::FileTimes::new().set_modified(long_ago))
}
