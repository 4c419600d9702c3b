//! Runs what a job asks for: child processes, scratch directories and source checkouts.
//!
//! This is the only crate that spawns processes. It refuses to hand a child anything of the host that is not on the
//! allow-list ([`ChildEnv`]), to touch a path outside the directory it was given, and to signal a process it cannot
//! prove to be its own (pid and start time, or a marker in the process' environment).
//!
//! Invariants:
//! - each launch leads its own process group; when [`run`] returns, nothing of that launch is alive, or the survivors
//!   are listed in [`Exit::survivors`];
//! - exit code and signal of the main process are reported as they were ([`Exit::ended`]);
//! - output is held in bounded memory, and what was left out is counted;
//! - concurrent launches of one process never kill each other's children.
//!
//! Call [`become_subreaper`] once from `main` on Linux, so that processes that leave their group are handed to this
//! process instead of to init. Without it the sweep still finds them by their marker, at the price of a walk over
//! `/proc` after every launch.

#[cfg(not(unix))]
compile_error!(
    "everdict-exec knows process groups of Unix only: Windows needs a job object behind `unix.rs`'s interface"
);

mod checkout;
mod contained;
mod env;
mod error;
mod launch;
mod output;
mod probe;
mod redact;
mod scratch;
mod unix;

pub use checkout::{Baseline, DiffCut, DiffRequest, RepoDiff, SeedRequest, diff_since, rebase, seed};
pub use contained::contained_in;
pub use env::{ChildEnv, HostEnv};
pub use error::ExecError;
pub use launch::{Ended, Exit, ExitStatus, Launch, Program, run};
pub use output::{CaptureLimits, Captured, MAX_LINE_CHARS, OutputSink, Stream, StreamTap};
pub use probe::{ProbeOutput, probe};
pub use redact::{RedactedStream, Redactor};
pub use scratch::{GroupNotes, Leftover, Scratch, SweepReport, find_stale, sweep_stale};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use unix::die;
pub use unix::{
    Companion, CpuShare, ProcessId, become_subreaper, become_subreaper_beside_other_children, hand_over,
    share_cpus,
};
