//! Systems that don't let a program choose CPUs for another.

use super::CpuShare;

/// Does nothing, and says so: [`CpuShare::kept`] is false unless all CPUs may be used.
pub fn share_cpus(percent: u8) -> CpuShare {
    let of = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    CpuShare {
        allowed: of,
        of,
        kept: percent >= 100,
    }
}

pub(crate) fn within_share<T>(spawn: impl FnOnce() -> T) -> T {
    spawn()
}
