use std::collections::{HashMap, HashSet};
use std::process::Child;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use super::ProcessId;

/// Set in each child's environment. It survives double fork and setsid, and tells concurrent launches apart.
pub(crate) const MARKER: &str = "EVERDICT_LAUNCH_ID";

const NOT_REAPING: u8 = 0;
const REAPING_MARKED: u8 = 1;
const REAPING_ALL: u8 = 2;

/// Makes this process the one that orphans of its launches are handed to (Linux; elsewhere nothing happens).
///
/// For a process that spawns through this crate alone: every other child it finds is taken for an escapee of a launch.
/// Returns false when the system refused, in which case escapees are still found by their marker.
pub fn become_subreaper() -> bool {
    start_reaping(REAPING_ALL)
}

/// [`become_subreaper`] for a process whose libraries start children of their own (a webview does): only what is
/// proven to come from a launch is touched.
pub fn become_subreaper_beside_other_children() -> bool {
    start_reaping(REAPING_MARKED)
}

fn start_reaping(mode: u8) -> bool {
    #[cfg(target_os = "linux")]
    {
        let set = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok();
        REGISTRY
            .reaping
            .store(if set { mode } else { NOT_REAPING }, Ordering::Release);
        set
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (mode, REAPING_MARKED, REAPING_ALL);
        false
    }
}

/// How sure this process may be that a child it didn't register is an escapee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaping {
    /// Orphans go to init.
    Off,
    /// Orphans come here, among children of others.
    Marked,
    /// Orphans come here, and nobody else's children are here.
    All,
}

/// Every launch of this process that has not ended. One per process, because the children are the process' own.
pub(crate) struct Registry {
    /// Prefix of each marker this process hands out.
    instance: String,
    next: AtomicU64,
    reaping: AtomicU8,
    /// Read-held from before a spawn until its registration; write-held while deciding about unregistered children.
    spawning: RwLock<()>,
    active: Mutex<HashMap<u64, ProcessId>>,
    /// Killed main processes of dropped launches, still to be reaped.
    abandoned: Mutex<Vec<Child>>,
    /// Children that are to outlive this process: no sweep touches them.
    companions: Mutex<HashSet<u32>>,
}

pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry {
    instance: uuid::Uuid::new_v4().simple().to_string(),
    next: AtomicU64::new(1),
    reaping: AtomicU8::new(NOT_REAPING),
    spawning: RwLock::new(()),
    active: Mutex::new(HashMap::new()),
    abandoned: Mutex::new(Vec::new()),
    companions: Mutex::default(),
});

impl Registry {
    pub(crate) fn next_launch(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// What every marker of this process begins with.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    pub(crate) fn marker(&self, launch: u64) -> String {
        format!("{}.{launch}", self.instance)
    }

    /// The launch a marker names, if this process handed it out.
    pub(crate) fn launch_of(&self, marker: &str) -> Option<u64> {
        marker
            .strip_prefix(&self.instance)?
            .strip_prefix('.')?
            .parse()
            .ok()
    }

    pub(crate) fn reaping(&self) -> Reaping {
        match self.reaping.load(Ordering::Acquire) {
            REAPING_ALL => Reaping::All,
            REAPING_MARKED => Reaping::Marked,
            _ => Reaping::Off,
        }
    }

    /// Spawns and registers in one step, as far as a sweep can see.
    pub(crate) fn register<E>(
        &self,
        launch: u64,
        spawn: impl FnOnce() -> Result<(Child, ProcessId), E>,
    ) -> Result<(Child, ProcessId), E> {
        let _spawning = self.spawning.read().unwrap_or_else(PoisonError::into_inner);
        let (child, root) = spawn()?;
        self.active().insert(launch, root);
        Ok((child, root))
    }

    pub(crate) fn forget(&self, launch: u64) {
        self.active().remove(&launch);
    }

    /// The launches that have not ended, with their main processes.
    pub(crate) fn active(&self) -> MutexGuard<'_, HashMap<u64, ProcessId>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `decide` while no spawn is between fork and registration.
    pub(crate) fn while_nothing_spawns<T>(&self, decide: impl FnOnce() -> T) -> T {
        let _quiet = self.spawning.write().unwrap_or_else(PoisonError::into_inner);
        decide()
    }

    /// Takes over a killed child whose launch was dropped before it could be reaped.
    pub(crate) fn abandon(&self, child: Child) {
        self.abandoned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(child);
    }

    /// Reaps the abandoned that are dead by now.
    pub(crate) fn reap_abandoned(&self) {
        let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// Starts a child that no sweep is to take for an escapee of a launch.
    pub(crate) fn register_companion<E>(&self, spawn: impl FnOnce() -> Result<Child, E>) -> Result<Child, E> {
        let _spawning = self.spawning.read().unwrap_or_else(PoisonError::into_inner);
        let child = spawn()?;
        self.companions().insert(child.id());
        Ok(child)
    }

    /// To be called once a companion is reaped.
    pub(crate) fn forget_companion(&self, pid: u32) {
        self.companions().remove(&pid);
    }

    pub(crate) fn is_companion(&self, pid: i32) -> bool {
        u32::try_from(pid).is_ok_and(|pid| self.companions().contains(&pid))
    }

    fn companions(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.companions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_abandoned(&self, pid: i32) -> bool {
        let abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned
            .iter()
            .any(|child| i64::from(child.id()) == i64::from(pid))
    }
}
