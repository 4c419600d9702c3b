//! The CPUs that launches may use.
//!
//! A launch inherits the mask of the thread that spawns it, and everything it starts inherits that, so there is no moment
//! at which a process runs outside its share. A change reaches what runs by a walk over the launches' processes and their
//! threads, again and again until a walk finds nothing left to change.

use std::fs;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::CpuShare;
use super::registry::REGISTRY;
use super::tree::{instance_members, is_alive};

/// Something that forks all the time is caught by the second walk: what it forks after the first has its new mask.
const WALKS: usize = 10;

/// The CPUs of this process, as it was started.
static ALL: LazyLock<CpuSet> = LazyLock::new(|| sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new()));

/// The share that is in force, when it is not the whole.
static SHARE: Mutex<Option<CpuSet>> = Mutex::new(None);

/// Sets how many percent of the CPUs of this process all launches together may use, those that run included; 100 lifts
/// the limit. A share is rounded down to whole CPUs, and is one at least. Blocking for a few milliseconds.
pub fn share_cpus(percent: u8) -> CpuShare {
    let of = usize::try_from(ALL.count()).unwrap_or(usize::MAX);
    let allowed = (of * usize::from(percent.min(100)) / 100).max(1);
    let set = (allowed < of).then(|| last(allowed));
    let changed = {
        let mut share = SHARE.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *share != set;
        *share = set;
        changed
    };
    if changed {
        apply(&set.unwrap_or(*ALL));
    }
    CpuShare {
        allowed,
        of,
        kept: of > 0,
    }
}

/// The last of the CPUs: the first ones serve most interrupts.
fn last(count: usize) -> CpuSet {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU)
        .rev()
        .filter(|cpu| ALL.is_set(*cpu))
        .take(count)
        .for_each(|cpu| set.set(cpu));
    set
}

/// Spawns with the share as the mask of this thread, which the child inherits.
pub(crate) fn within_share<T>(spawn: impl FnOnce() -> T) -> T {
    let Some(set) = *SHARE.lock().unwrap_or_else(PoisonError::into_inner) else {
        return spawn();
    };
    let Ok(own) = sched_getaffinity(None) else {
        return spawn();
    };
    let _ = sched_setaffinity(None, &set);
    let spawned = spawn();
    let _ = sched_setaffinity(None, &own);
    spawned
}

fn apply(set: &CpuSet) {
    for _ in 0..WALKS {
        let mut changed = false;
        for process in instance_members(REGISTRY.instance()) {
            for thread in threads(process.pid) {
                // A mask that is right already, or a thread that is gone, needs nothing.
                if sched_getaffinity(Some(thread)).is_ok_and(|now| now != *set) && is_alive(process) {
                    changed |= sched_setaffinity(Some(thread), set).is_ok();
                }
            }
        }
        if !changed {
            return;
        }
    }
}

fn threads(pid: i32) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect()
}
