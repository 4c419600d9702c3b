//! Grades one finished case: plans the graders before the agent runs, then measures.
//!
//! What it is for: turning a case's `graders` list into [`PlannedGrader`]s ([`plan`]), and running them in the two
//! phases a case has (with the sandbox, after the sandbox) through a [`Gradebook`] that keeps the declared order.
//!
//! What it refuses: spawning processes (a [`Compute`] does that), talking to stores (a [`StateReader`] does), and inventing a value. A grader that could not
//! measure answers `unmeasured` with a reason; it never answers zero.
//!
//! Invariants:
//! - An unknown grader id or an unusable config is a `BAD_REQUEST` naming its JSON path, found before the agent runs.
//! - Every regular expression is compiled while planning, under a size limit.
//! - A score whose metric belongs to another grader leaves as `invalid`/`contract_violation`, whoever claims it.
//! - A panic, an error or a time-out of one grader touches no other grader's score.

mod builtin;
mod compute;
mod config;
mod gradebook;
mod grader;
mod plan;
mod reserved;
mod state;
mod text;

pub use compute::{Compute, ComputeExec, ComputeOutput};
pub use gradebook::Gradebook;
pub use grader::{GradeError, GradeInput, Grader, Needs};
pub use plan::{PlannedGrader, plan};
pub use state::{StateQuery, StateReader};
