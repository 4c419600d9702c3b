//! Runs one leased case: job in, result out.
//!
//! What it is for: [`run_leased_job`] takes a parsed [`everdict_contracts::CaseJob`], builds the declared world in a
//! scratch directory, drives the harness in it, snapshots what it did, grades it in two phases and assembles the
//! [`everdict_contracts::CaseResult`].
//!
//! What it refuses: a world it can't provide. Another operating system, an image without a docker daemon, limits or a
//! closed network without an image are config-class faults before anything runs, because a case that ran in another
//! world than it declares measures another task.
//!
//! Invariants:
//! - Everything that can be wrong with a job (graders, template, environment, world) is found before the agent runs.
//! - A seed or a setup step that fails is never scored.
//! - A service case's topology, its target and its part of every store are given back on every way out; a target goes
//!   before the graders, the stores after them.
//! - Every wait of a service case is under the case's token and a deadline.
//! - A harness that exits non-zero, is not found or runs out of time is evidence in the trace, not a failure.
//! - However a case ends, its processes are dead and its scratch directory is removed, or what is left is named.
//! - No secret that is known (of the job, of the runner, of the host's environment) is in the log, the live view or the
//!   result, in any of the forms in which programs print it.
//! - Values from the job reach the shell as variables, never as program text.

mod case;
mod context;
mod grading;
mod harness;
mod job;
mod recorder;
mod sandbox;
mod secrets;
mod service;
mod span;
mod template;
mod world;

use everdict_contracts::{EvalCase, Fault};

pub use context::{CaseContext, Progress};
pub use job::run_leased_job;
/// Checks the graders of a case as a run of it would, before there is one.
///
/// # Errors
/// `BAD_REQUEST` naming the JSON path of the first unknown id, unusable config or pattern.
pub fn check_graders(case: &EvalCase) -> Result<(), Fault> {
    everdict_graders::plan(case).map(drop)
}

pub use service::{CallbackHost, CaseBrowser, DockerTopologies, TopologyPort, TopologyUse};
