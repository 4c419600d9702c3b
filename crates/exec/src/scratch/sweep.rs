use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::remove::{Leftover, remove_tree};
use super::{MARKER_FILE, PREFIX};
use crate::unix::{ProcessId, boot_id, is_alive, this_process};

/// A marker is three short lines; a larger file is none.
const MAX_MARKER_BYTES: u64 = 4096;

/// What [`sweep_stale`] found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SweepReport {
    /// Scratch directories of dead processes, removed.
    pub removed: Vec<PathBuf>,
    /// Named like a scratch directory, but whose it is can't be proven, so it was left alone.
    pub unverified: Vec<PathBuf>,
    /// What could not be removed.
    pub leftovers: Vec<Leftover>,
}

/// Removes the scratch directories under `root` whose owner is dead: a runner that was killed can't clean up after
/// itself. Blocking; a missing `root` is an empty one.
///
/// A directory goes only when it belongs to this user and its marker names a process that is gone (by pid and start
/// time, and by boot). Directories of living processes are not mentioned.
#[must_use]
pub fn sweep_stale(root: &Path) -> SweepReport {
    let mut report = SweepReport::default();
    let Ok(entries) = fs::read_dir(root) else { return report };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let path = entry.path();
        match owner_of(&path) {
            Owner::Alive => {}
            Owner::Unknown => report.unverified.push(path),
            Owner::Dead => {
                let leftovers = remove_tree(&path);
                if leftovers.is_empty() {
                    report.removed.push(path);
                } else {
                    report.leftovers.extend(leftovers);
                }
            }
        }
    }
    report
}

/// What the marker of a scratch directory made now says.
pub(super) fn owner_text() -> String {
    let me = this_process();
    let started = me.started.map(|ticks| ticks.to_string()).unwrap_or_default();
    format!("pid={}\nstarted={started}\nboot={}\n", me.pid, boot_id().unwrap_or_default())
}

enum Owner {
    Alive,
    Dead,
    Unknown,
}

fn owner_of(path: &Path) -> Owner {
    let ours = rustix::process::getuid().as_raw();
    let marker = path.join(MARKER_FILE);
    let is_ours = path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == ours)
        && marker.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.uid() == ours && meta.len() <= MAX_MARKER_BYTES);
    if !is_ours {
        return Owner::Unknown;
    }
    let Some((owner, boot)) = fs::read_to_string(&marker).ok().as_deref().and_then(parse) else { return Owner::Unknown };
    let same_boot = boot_id().is_none_or(|now| boot == now);
    if same_boot && is_alive(owner) { Owner::Alive } else { Owner::Dead }
}

fn parse(text: &str) -> Option<(ProcessId, String)> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let started = field("started")?;
    let started = if started.is_empty() { None } else { Some(started.parse().ok()?) };
    let pid = field("pid")?.parse().ok().filter(|pid| *pid > 0)?;
    Some((ProcessId { pid, started }, field("boot")?.to_owned()))
}
