//! The process table of Linux: who runs, since when, below whom, and with which mark.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;

use rustix::process::{Pid, PidfdFlags, Signal};

use super::ProcessId;
use super::registry::MARKER;

/// Longest environment that is searched for the marker. The kernel allows 6 MiB at most on common stack limits; the
/// marker is set at spawn, so a longer one hides nothing that a job could not hide anyway.
const MAX_ENVIRON_BYTES: u64 = 6 << 20;

/// One line of the process table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proc {
    pub(super) id: ProcessId,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Ended, and perhaps not reaped.
    pub(super) dead: bool,
}

/// Processes by their parent.
pub(super) fn by_parent(table: &[Proc]) -> HashMap<i32, Vec<&Proc>> {
    let mut children: HashMap<i32, Vec<&Proc>> = HashMap::new();
    for process in table {
        children.entry(process.parent).or_default().push(process);
    }
    children
}

/// `tops` and all their descendants, without `barred` and what hangs only below those.
pub(super) fn below(
    tops: impl IntoIterator<Item = i32>,
    children: &HashMap<i32, Vec<&Proc>>,
    barred: &HashSet<i32>,
) -> HashSet<i32> {
    let mut found = HashSet::new();
    let mut open: Vec<i32> = tops.into_iter().collect();
    while let Some(pid) = open.pop() {
        if !barred.contains(&pid) && found.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten().map(|child| child.id.pid));
        }
    }
    found
}

/// The identity of this process.
pub(crate) fn this_process() -> ProcessId {
    let pid = this_pid();
    ProcessId {
        pid,
        started: read_stat(pid).and_then(|stat| stat.id.started),
    }
}

/// Whether exactly this process runs.
pub(crate) fn is_alive(process: ProcessId) -> bool {
    read_stat(process.pid).is_some_and(|stat| !stat.dead && (process.started.is_none() || stat.id == process))
}

/// Names the current boot: start times count from it.
pub(crate) fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .map(|id| id.trim().to_owned())
}

pub(super) fn this_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

pub(super) fn process_table() -> Vec<Proc> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read_stat)
        .collect()
}

pub(super) fn read_stat(pid: i32) -> Option<Proc> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may itself hold any byte, so fields are counted from the last parenthesis.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..])
        .ok()?
        .split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Field 22 of proc_pid_stat(5); the iterator stands before field 6.
    let started = fields.nth(16)?.parse().ok()?;
    Some(Proc {
        id: ProcessId {
            pid,
            started: Some(started),
        },
        parent,
        group,
        dead,
    })
}

/// The marks in a process' environment; more than one if it was told so.
pub(super) fn markers(pid: i32) -> Vec<String> {
    let mut environ = Vec::new();
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else {
        return Vec::new();
    };
    if file.take(MAX_ENVIRON_BYTES).read_to_end(&mut environ).is_err() {
        return Vec::new();
    }
    environ
        .split(|byte| *byte == 0)
        .filter_map(|pair| pair.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"="))
        .filter_map(|value| Some(std::str::from_utf8(value).ok()?.to_owned()))
        .collect()
}

/// Signals a process if its number still means the same one; a descriptor closes the gap between look and signal.
pub(super) fn signal_exactly(process: ProcessId, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return;
    };
    let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty());
    if !is_alive(process) {
        return;
    }
    let _ = match descriptor {
        Ok(descriptor) => rustix::process::pidfd_send_signal(descriptor, signal),
        // Kernels before 5.3 know no descriptors for processes.
        Err(rustix::io::Errno::NOSYS) => rustix::process::kill_process(pid, signal),
        Err(error) => Err(error),
    };
}
