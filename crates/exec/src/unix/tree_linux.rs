use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read as _;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use super::ProcessId;
use super::registry::{MARKER, REGISTRY, Reaping};

/// Longest environment that is searched for the marker. The kernel allows 6 MiB at most on common stack limits; the
/// marker is set at spawn, so a longer one hides nothing that a job could not hide anyway.
const MAX_ENVIRON_BYTES: u64 = 6 << 20;

/// How long leftovers of a dead process are killed before its directories are removed all the same.
const INSTANCE_LIMIT: Duration = Duration::from_secs(5);

/// A killed process is gone in well under this.
const INSTANCE_PAUSE: Duration = Duration::from_millis(2);

/// What came from one launch: the main process, its group, its descendants, and those that left both.
pub(crate) struct Tree {
    launch: u64,
    root: ProcessId,
    /// Members found by an earlier scan, before their parents could die.
    seen: HashSet<ProcessId>,
    root_alive: bool,
    /// Whether the group's number still belongs to this launch.
    group_held: bool,
}

/// One line of the process table.
#[derive(Debug, Clone, Copy)]
struct Proc {
    id: ProcessId,
    parent: i32,
    group: i32,
    dead: bool,
}

enum Marker {
    None,
    Launch(u64),
}

impl Tree {
    pub(crate) fn new(launch: u64, root: ProcessId) -> Self {
        Self {
            launch,
            root,
            seen: HashSet::new(),
            root_alive: true,
            group_held: true,
        }
    }

    pub(crate) fn root(&self) -> ProcessId {
        self.root
    }

    /// To be called right after the main process was reaped.
    pub(crate) fn root_is_reaped(&mut self) {
        self.root_alive = false;
        let group = Pid::from_raw(self.root.pid);
        self.group_held = group.is_some_and(|pid| {
            !matches!(
                rustix::process::test_kill_process_group(pid),
                Err(rustix::io::Errno::SRCH)
            )
        });
    }

    /// Says cheaply whether a full scan is worth while once the main process is gone: with orphans handed to this
    /// process, whatever is left of the launch hangs below a child that was never registered.
    pub(crate) fn may_have_leftovers(&self) -> bool {
        if self.group_held || !self.seen.is_empty() {
            return true;
        }
        let reaping = REGISTRY.reaping();
        if reaping == Reaping::Off {
            return true;
        }
        let Some(children) = unregistered_children() else {
            return true;
        };
        children.into_iter().filter_map(read_stat).any(|child| {
            if child.dead {
                return true;
            }
            match marker_of(child.id.pid) {
                Marker::Launch(launch) => launch == self.launch || !REGISTRY.active().contains_key(&launch),
                Marker::None => reaping == Reaping::All && self.is_the_only_possible_origin(&child),
            }
        })
    }

    /// Every living process of this launch. Also reaps orphans that have ended.
    pub(crate) fn members(&mut self) -> Vec<ProcessId> {
        self.scan().into_iter().map(|member| member.id).collect()
    }

    /// Scans, and signals each member by identity. Gives out the members found.
    pub(crate) fn signal_members(&mut self, signal: Signal) -> Vec<ProcessId> {
        let members = self.members();
        for member in &members {
            signal_exactly(*member, signal);
        }
        members
    }

    /// Scans, and signals those members that a signal to the group doesn't reach.
    pub(crate) fn signal_strays(&mut self, signal: Signal) {
        for member in self.scan().iter().filter(|member| member.group != self.root.pid) {
            signal_exactly(member.id, signal);
        }
    }

    /// Reaps orphans that were handed to this process and have ended.
    pub(crate) fn reap_orphans(&self) {
        if REGISTRY.reaping() == Reaping::Off
            || unregistered_children().is_none_or(|children| children.is_empty())
        {
            return;
        }
        REGISTRY.while_nothing_spawns(|| {
            for child in unregistered_children()
                .unwrap_or_default()
                .into_iter()
                .filter_map(read_stat)
            {
                self.reap_if_orphan(&child);
            }
        });
    }

    fn scan(&mut self) -> Vec<Proc> {
        let found = REGISTRY.while_nothing_spawns(|| self.find(&process_table()));
        self.seen.extend(found.iter().map(|member| member.id));
        self.group_held &= self.root_alive || found.iter().any(|member| member.group == self.root.pid);
        found
    }

    fn find(&self, table: &[Proc]) -> Vec<Proc> {
        let me = this_pid();
        let others: HashSet<i32> = {
            let active = REGISTRY.active();
            active
                .iter()
                .filter(|(launch, _)| **launch != self.launch)
                .map(|(_, root)| root.pid)
                .collect()
        };
        let mut children: HashMap<i32, Vec<&Proc>> = HashMap::new();
        for process in table {
            children.entry(process.parent).or_default().push(process);
        }
        // Everything below another launch's main process is that launch's business.
        let theirs = below(others.iter().copied(), &children, &HashSet::from([me]));
        let mut barred = theirs;
        barred.insert(me);
        barred.insert(1);
        let mut tops = Vec::new();
        for process in table.iter().filter(|process| !barred.contains(&process.id.pid)) {
            if process.dead {
                self.reap_if_orphan(process);
            }
            if self.is_top(process, me) {
                tops.push(process.id.pid);
            }
        }
        let mine = below(tops, &children, &barred);
        table
            .iter()
            .filter(|process| !process.dead && mine.contains(&process.id.pid))
            .copied()
            .collect()
    }

    fn is_top(&self, process: &Proc, me: i32) -> bool {
        if process.id.pid == self.root.pid {
            return self.root_alive;
        }
        if self.seen.contains(&process.id) || (self.group_held && process.group == self.root.pid) {
            return true;
        }
        let orphan = process.parent == me;
        if process.dead || !(orphan || process.id.started >= self.root.started) {
            return false;
        }
        match marker_of(process.id.pid) {
            // One whose launch has ended was missed by that launch's sweep.
            Marker::Launch(launch) => launch == self.launch || !REGISTRY.active().contains_key(&launch),
            Marker::None => {
                orphan && REGISTRY.reaping() == Reaping::All && self.is_the_only_possible_origin(process)
            }
        }
    }

    /// A child that wiped its marker out can only come from a launch that ran when it started. It is ours when no
    /// other such launch runs any more; until then it is left alone.
    fn is_the_only_possible_origin(&self, orphan: &Proc) -> bool {
        if is_registered(orphan.id.pid) || orphan.id.started < self.root.started {
            return false;
        }
        let active = REGISTRY.active();
        !active
            .iter()
            .any(|(launch, root)| *launch != self.launch && root.started <= orphan.id.started)
    }

    fn reap_if_orphan(&self, process: &Proc) {
        let ours = REGISTRY.reaping() == Reaping::All
            || self.seen.contains(&process.id)
            || (self.group_held && process.group == self.root.pid);
        if process.dead && ours && process.parent == this_pid() && !is_registered(process.id.pid) {
            if let Some(pid) = Pid::from_raw(process.id.pid) {
                let _ =
                    rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }
}

/// `tops` and all their descendants, without `barred` and what hangs only below those.
fn below(
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

/// The identity of a child that was just spawned and is not reaped.
pub(crate) fn root_id(child: &Child) -> ProcessId {
    let pid = i32::try_from(child.id()).expect("BUG: a pid fits into pid_t");
    ProcessId {
        pid,
        started: read_stat(pid).and_then(|stat| stat.id.started),
    }
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

pub(crate) fn reap_abandoned() {
    REGISTRY.reap_abandoned();
}

fn this_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn is_registered(pid: i32) -> bool {
    REGISTRY.active().values().any(|root| root.pid == pid) || REGISTRY.is_abandoned(pid)
}

/// Children of this process that no launch registered. Orphans are handed to the main thread, so its list is enough.
/// `None` when the kernel doesn't keep such lists.
fn unregistered_children() -> Option<Vec<i32>> {
    let me = this_pid();
    let list = fs::read_to_string(format!("/proc/self/task/{me}/children")).ok()?;
    let pids: Vec<i32> = list
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    Some(pids.into_iter().filter(|pid| !is_registered(*pid)).collect())
}

fn process_table() -> Vec<Proc> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read_stat)
        .collect()
}

fn read_stat(pid: i32) -> Option<Proc> {
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

fn marker_of(pid: i32) -> Marker {
    let markers = markers(pid);
    markers
        .iter()
        .find_map(|marker| REGISTRY.launch_of(marker))
        .map_or(Marker::None, Marker::Launch)
}

fn markers(pid: i32) -> Vec<String> {
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

/// Kills what a dead process' launches left behind, by the first part of their markers. Gives out what was killed.
/// Blocking.
pub(crate) fn kill_instance(instance: &str) -> Vec<ProcessId> {
    let mut killed = HashSet::new();
    let deadline = Instant::now() + INSTANCE_LIMIT;
    loop {
        let found = of_instance(instance);
        for process in &found {
            signal_exactly(*process, Signal::KILL);
        }
        let done = found.is_empty() || Instant::now() >= deadline;
        killed.extend(found);
        if done {
            return killed.into_iter().collect();
        }
        std::thread::sleep(INSTANCE_PAUSE);
    }
}

fn of_instance(instance: &str) -> Vec<ProcessId> {
    let table = process_table();
    let mut children: HashMap<i32, Vec<&Proc>> = HashMap::new();
    for process in &table {
        children.entry(process.parent).or_default().push(process);
    }
    let is_marked = |process: &&Proc| {
        let names_it = |marker: &String| {
            marker
                .strip_prefix(instance)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        markers(process.id.pid).iter().any(names_it)
    };
    let tops = table.iter().filter(is_marked).map(|process| process.id.pid);
    let members = below(tops, &children, &HashSet::from([1, this_pid()]));
    table
        .iter()
        .filter(|process| !process.dead && members.contains(&process.id.pid))
        .map(|process| process.id)
        .collect()
}

/// Signals a process if its number still means the same one; a descriptor closes the gap between look and signal.
fn signal_exactly(process: ProcessId, signal: Signal) {
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
