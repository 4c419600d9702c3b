//! Leases cases from a hub, runs them here and reports the results.
//!
//! What it is for: [`Runner::start`] gives a [`RunnerHandle`] to watch, drain and cancel. Behind it are one MCP session
//! ([`session`]), a worker per slot, and for each lease a pure state machine ([`attempt`]) with an async shell.
//!
//! What it refuses: to run a job that it can't read, to report anything for a lease it has lost, and to offer what this
//! build can't honour ([`capabilities`]).
//!
//! Invariants:
//! - a job has at most one report in flight, and none after the hub's last word;
//! - heartbeats, log and case run beside each other; none waits for another;
//! - an attempt is written down before it has any effect, and its result before it is sent; what a killed process left is
//!   brought to its end by the next ([`RunnerConfig::state_dir`]);
//! - a job survives a hub that is away; a lease that is lost stops the job's processes and reports nothing;
//! - the token is in no error, no debug output and no log line;
//! - every channel and buffer is bounded.

pub mod attempt;
mod backoff;
mod board;
pub mod capabilities;
mod config;
mod drive;
mod evidence;
mod executor;
mod hops;
mod hub;
mod journal;
mod lease_loop;
mod replay;
mod report;
mod runner;
pub mod session;
mod text;

pub use board::{
    ActiveJob, Counters, JobSummary, OfflineCause, RunnerEvent, RunnerSnapshot, RunnerState, ScoreSummary,
};
pub use config::{MAX_CONCURRENT, RunnerConfig};
pub use executor::{Executor, case_executor};
pub use runner::{Runner, RunnerHandle};
