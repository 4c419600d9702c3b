use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::remove::{Leftover, remove_tree};
use super::{GROUPS_FILE, MARKER_FILE, PREFIX};
use crate::unix::{ProcessId, REGISTRY, boot_id, is_alive, kill_groups, kill_instance, this_process};

/// A marker is four short lines; a larger file is none.
const MAX_MARKER_BYTES: u64 = 4096;

/// A case has some dozens of launches, of thirty bytes each.
const MAX_GROUPS_BYTES: u64 = 64 << 10;

/// What [`sweep_stale`] found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SweepReport {
    /// Scratch directories of dead processes, removed.
    pub removed: Vec<PathBuf>,
    /// Named like a scratch directory, but whose it is can't be proven, so it was left alone.
    pub unverified: Vec<PathBuf>,
    /// Processes that launches of those dead processes had left behind, killed.
    pub killed: Vec<ProcessId>,
    /// What could not be removed.
    pub leftovers: Vec<Leftover>,
}

/// Tells which scratch directories under `root` [`sweep_stale`] would remove, and which it would leave because whose they
/// are can't be proven. Blocking; touches nothing.
#[must_use]
pub fn find_stale(root: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut stale, mut unverified) = (Vec::new(), Vec::new());
    for path in scratch_dirs(root) {
        match owner_of(&path) {
            Owner::Alive => {}
            Owner::Unknown => unverified.push(path),
            Owner::Dead { .. } => stale.push(path),
        }
    }
    (stale, unverified)
}

fn scratch_dirs(root: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.starts_with(PREFIX).then(|| entry.path())
        })
}

/// Removes the scratch directories under `root` whose owner is dead: a runner that was killed can't clean up after
/// itself. Blocking; a missing `root` is an empty one.
///
/// A directory goes only when it belongs to this user and its marker names a process that is gone (by pid and start
/// time, and by boot). Before that, what its launches left running is killed, by the mark that each child of a launch
/// carries in its environment. Directories of living processes are not mentioned.
#[must_use]
pub fn sweep_stale(root: &Path) -> SweepReport {
    let mut report = SweepReport::default();
    for path in scratch_dirs(root) {
        match owner_of(&path) {
            Owner::Alive => {}
            Owner::Unknown => report.unverified.push(path),
            Owner::Dead { instance } => {
                // Without an instance of this boot none of its processes can be alive.
                if let Some(instance) = instance.as_deref() {
                    report.killed.extend(kill_groups(&groups_of(&path)));
                    report.killed.extend(kill_instance(instance));
                }
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

/// A group as it is noted.
pub(super) fn group_line(group: ProcessId) -> String {
    match group.started {
        Some(started) => format!("{} {started}\n", group.pid),
        // Its number alone proves nothing.
        None => String::new(),
    }
}

/// The groups noted in a scratch directory. Lines of another shape are none.
fn groups_of(path: &Path) -> Vec<ProcessId> {
    let file = path.join(GROUPS_FILE);
    let ours = rustix::process::getuid().as_raw();
    let is_ours = file
        .symlink_metadata()
        .is_ok_and(|meta| meta.is_file() && meta.uid() == ours && meta.len() <= MAX_GROUPS_BYTES);
    let text = if is_ours {
        fs::read_to_string(&file).unwrap_or_default()
    } else {
        String::new()
    };
    text.lines()
        .filter_map(|line| {
            let (pid, started) = line.split_once(' ')?;
            Some(ProcessId {
                pid: pid.parse().ok().filter(|pid| *pid > 1)?,
                started: Some(started.parse().ok()?),
            })
        })
        .collect()
}

/// What the marker of a scratch directory made now says.
pub(super) fn owner_text() -> String {
    let me = this_process();
    let started = me.started.map(|ticks| ticks.to_string()).unwrap_or_default();
    let (boot, instance) = (boot_id().unwrap_or_default(), REGISTRY.instance());
    format!(
        "pid={}\nstarted={started}\nboot={boot}\ninstance={instance}\n",
        me.pid
    )
}

enum Owner {
    Alive,
    Dead {
        /// What the markers of its launches begin with, if it ran since the machine was booted.
        instance: Option<String>,
    },
    Unknown,
}

fn owner_of(path: &Path) -> Owner {
    let ours = rustix::process::getuid().as_raw();
    let marker = path.join(MARKER_FILE);
    let is_ours = path
        .symlink_metadata()
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == ours)
        && marker
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file() && meta.uid() == ours && meta.len() <= MAX_MARKER_BYTES);
    if !is_ours {
        return Owner::Unknown;
    }
    let Some(marker) = fs::read_to_string(&marker).ok().as_deref().and_then(parse) else {
        return Owner::Unknown;
    };
    let same_boot = boot_id().is_none_or(|now| marker.boot == now);
    match (same_boot, is_alive(marker.owner)) {
        (true, true) => Owner::Alive,
        (same_boot, _) => Owner::Dead {
            instance: marker.instance.filter(|_| same_boot),
        },
    }
}

struct Marker {
    owner: ProcessId,
    boot: String,
    instance: Option<String>,
}

fn parse(text: &str) -> Option<Marker> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    let started = field("started")?;
    let started = if started.is_empty() {
        None
    } else {
        Some(started.parse().ok()?)
    };
    let pid = field("pid")?.parse().ok().filter(|pid| *pid > 0)?;
    // A short one could be the beginning of somebody else's.
    let is_instance = |text: &&str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(Marker {
        owner: ProcessId { pid, started },
        boot: field("boot")?.to_owned(),
        instance: field("instance").filter(is_instance).map(str::to_owned),
    })
}
