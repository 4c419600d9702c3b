//! Where a test may have the process killed: between any two hops of an attempt.

use everdict_exec::HostEnv;

/// Names the hop at which a debug build kills itself, as `kill -9` would.
#[cfg(debug_assertions)]
const DIE_AT: &str = "EVERDICT_TEST_DIE_AT";

/// A step of an attempt that has just been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hop {
    /// The hub gave out the lease; nothing is written.
    Leased,
    /// The journal has the attempt; nothing runs.
    Journaled,
    /// The case has been started.
    Started,
    /// The case has its result, in memory.
    Produced,
    /// The journal has the result; nothing is sent.
    Kept,
    /// The hub has answered; the journal still has the result.
    Answered,
    /// The journal has forgotten the attempt.
    Settled,
}

/// Does nothing, but in a debug build that was told to die here.
pub(crate) fn passed(_env: &HostEnv, _hop: Hop) {
    #[cfg(debug_assertions)]
    if _env
        .get(DIE_AT)
        .is_some_and(|name| name.eq_ignore_ascii_case(&format!("{_hop:?}")))
    {
        everdict_exec::die();
    }
}
