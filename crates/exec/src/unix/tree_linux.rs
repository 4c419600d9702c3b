use std::collections::HashSet;
use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::ProcessId;
use super::proc_linux::{
    Proc, below, by_parent, markers, process_table, read_stat, signal_exactly, this_pid,
};
pub(crate) use super::proc_linux::{boot_id, is_alive, this_process};
use super::registry::{REGISTRY, Reaping};

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
        let children = by_parent(table);
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
        if process.dead
            && ours
            && process.parent == this_pid()
            && !is_registered(process.id.pid)
            && let Some(pid) = Pid::from_raw(process.id.pid)
        {
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// The identity of a child that was just spawned and is not reaped.
pub(crate) fn root_id(child: &Child) -> ProcessId {
    let pid = i32::try_from(child.id()).expect("BUG: a pid fits into pid_t");
    ProcessId {
        pid,
        started: read_stat(pid).and_then(|stat| stat.id.started),
    }
}

pub(crate) fn reap_abandoned() {
    REGISTRY.reap_abandoned();
}

fn is_registered(pid: i32) -> bool {
    REGISTRY.active().values().any(|root| root.pid == pid)
        || REGISTRY.is_abandoned(pid)
        || REGISTRY.is_companion(pid)
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

fn marker_of(pid: i32) -> Marker {
    let markers = markers(pid);
    markers
        .iter()
        .find_map(|marker| REGISTRY.launch_of(marker))
        .map_or(Marker::None, Marker::Launch)
}

/// Kills what a dead process' launches left behind, by the first part of their markers. Gives out what was killed.
/// Blocking.
pub(crate) fn kill_instance(instance: &str) -> Vec<ProcessId> {
    let mut killed = HashSet::new();
    let deadline = Instant::now() + INSTANCE_LIMIT;
    loop {
        let found = instance_members(instance);
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

/// Kills these process groups, as far as their leaders are exactly the noted processes: a group whose leader has ended, or
/// whose number is another's by now, is left alone. Gives out what was killed. Blocking.
pub(crate) fn kill_groups(groups: &[ProcessId]) -> Vec<ProcessId> {
    let leads = |leader: &&ProcessId| {
        is_alive(**leader) && read_stat(leader.pid).is_some_and(|stat| stat.group == leader.pid)
    };
    // A number is nobody else's while anything of its group lives, so the proof holds for the rounds that follow.
    let proven: HashSet<i32> = groups.iter().filter(leads).map(|leader| leader.pid).collect();
    let mut killed = HashSet::new();
    let deadline = Instant::now() + INSTANCE_LIMIT;
    while !proven.is_empty() {
        let table = process_table();
        let tops = table.iter().filter(|process| proven.contains(&process.group));
        let members = below(
            tops.map(|process| process.id.pid),
            &by_parent(&table),
            &HashSet::from([1, this_pid()]),
        );
        let found: Vec<_> = table
            .iter()
            .filter(|process| !process.dead && members.contains(&process.id.pid))
            .map(|process| process.id)
            .collect();
        for process in &found {
            signal_exactly(*process, Signal::KILL);
        }
        let done = found.is_empty() || Instant::now() >= deadline;
        killed.extend(found);
        if done {
            break;
        }
        std::thread::sleep(INSTANCE_PAUSE);
    }
    killed.into_iter().collect()
}

/// Every living process that carries a marker of `instance`, and all below them.
pub(crate) fn instance_members(instance: &str) -> Vec<ProcessId> {
    let table = process_table();
    let children = by_parent(&table);
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
