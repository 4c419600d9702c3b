use std::process::Child;

use rustix::process::{Pid, Signal};

use super::ProcessId;
use super::registry::REGISTRY;

/// What came from one launch, as far as a system without a process file system shows it: the group.
pub(crate) struct Tree {
    root: ProcessId,
    root_alive: bool,
}

impl Tree {
    pub(crate) fn new(_launch: u64, root: ProcessId) -> Self {
        Self {
            root,
            root_alive: true,
        }
    }

    pub(crate) fn root(&self) -> ProcessId {
        self.root
    }

    pub(crate) fn root_is_reaped(&mut self) {
        self.root_alive = false;
    }

    pub(crate) fn may_have_leftovers(&self) -> bool {
        self.group_is_alive()
    }

    /// The main process stands for the whole group.
    pub(crate) fn members(&mut self) -> Vec<ProcessId> {
        if self.group_is_alive() {
            vec![self.root]
        } else {
            Vec::new()
        }
    }

    pub(crate) fn signal_members(&mut self, signal: Signal) -> Vec<ProcessId> {
        let members = self.members();
        if let (false, Some(group)) = (members.is_empty(), Pid::from_raw(self.root.pid)) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
        members
    }

    pub(crate) fn signal_strays(&mut self, _signal: Signal) {}

    pub(crate) fn reap_orphans(&self) {}

    fn group_is_alive(&self) -> bool {
        Pid::from_raw(self.root.pid)
            .is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
    }
}

pub(crate) fn root_id(child: &Child) -> ProcessId {
    ProcessId {
        pid: i32::try_from(child.id()).expect("BUG: a pid fits into pid_t"),
        started: None,
    }
}

pub(crate) fn this_process() -> ProcessId {
    ProcessId {
        pid: rustix::process::getpid().as_raw_nonzero().get(),
        started: None,
    }
}

/// Whether a process of this number runs. Without start times a reused number counts as alive.
pub(crate) fn is_alive(process: ProcessId) -> bool {
    Pid::from_raw(process.pid).is_some_and(|pid| {
        !matches!(
            rustix::process::test_kill_process(pid),
            Err(rustix::io::Errno::SRCH)
        )
    })
}

pub(crate) fn boot_id() -> Option<String> {
    None
}

pub(crate) fn reap_abandoned() {
    REGISTRY.reap_abandoned();
}

/// Another process' environment can't be read here, so nothing can be proven.
pub(crate) fn kill_instance(_instance: &str) -> Vec<ProcessId> {
    Vec::new()
}

/// Start times can't be read here, so nothing can be proven.
pub(crate) fn kill_groups(_groups: &[ProcessId]) -> Vec<ProcessId> {
    Vec::new()
}
