//! Processes as Unix knows them: a group per launch, exact identities, and a sweep for what left its group.

mod companion;
#[cfg(target_os = "linux")]
#[path = "unix/cpus_linux.rs"]
mod cpus;
#[cfg(not(target_os = "linux"))]
#[path = "unix/cpus_other.rs"]
mod cpus;
mod hand_over;
#[cfg(target_os = "linux")]
mod proc_linux;
mod registry;
mod spawned;
#[cfg(target_os = "linux")]
#[path = "unix/tree_linux.rs"]
mod tree;
#[cfg(not(target_os = "linux"))]
#[path = "unix/tree_other.rs"]
mod tree;
mod watch;

pub use companion::Companion;
pub use cpus::share_cpus;
pub(crate) use cpus::within_share;
pub use hand_over::hand_over;
pub(crate) use registry::REGISTRY;
pub use registry::{become_subreaper, become_subreaper_beside_other_children};
pub(crate) use spawned::{Pipes, Spawned};
pub(crate) use tree::{boot_id, is_alive, kill_groups, kill_instance, this_process};
pub(crate) use watch::ExitWatch;

/// Ends this process as `kill -9` does, for tests of what it leaves behind.
#[cfg(debug_assertions)]
pub fn die() -> ! {
    loop {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::thread::yield_now();
    }
}

/// How much of the CPUs launches may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuShare {
    /// So many CPUs.
    pub allowed: usize,
    /// Of so many.
    pub of: usize,
    /// Whether this system can keep it.
    pub kept: bool,
}

/// A process that can't be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// The number; also that of the process group when this is the main process of a launch.
    pub pid: i32,
    /// When it started, in clock ticks since boot; `None` where the system doesn't tell.
    pub started: Option<u64>,
}
