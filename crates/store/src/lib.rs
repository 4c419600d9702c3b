//! The hub's database: API keys, runners, harnesses, runs, their logs and evidence.
//!
//! This is the only crate that names a database driver. It refuses to make decisions: who may see a run,
//! which runner gets a job and when a lease is dead are the hub's business. What it does guard is the
//! part that must hold even when two writers disagree: a lease only moves forward ([`Write::LeaseRun`]
//! needs a higher epoch), a finished run stays finished, and a harness version never changes.
//!
//! Invariants:
//! - Writes go through tasks that group whatever is waiting into one transaction; a write has been committed when
//!   [`Store::write`] returns.
//! - Writes to one row are applied in the order in which they were handed over.
//! - Statements use only what SQLite and PostgreSQL share; what only several hubs on one PostgreSQL need stands in
//!   `postgres/`.

mod error;
mod migrate;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod read;
mod shared;
mod sql;
mod sqlite;
mod store;
mod write;
mod writer;

pub use error::StoreError;
pub use model::{
    ApiKeyRow, BatchRow, EventRow, HarnessRow, LogRow, Millis, NewRun, OpenRun, RunFinish, RunPage, RunRow,
    RunStatus, RunnerRow, RunnerTouch,
};
pub use shared::{Claim, Expired, LeaseOf, Seat, SharedWrite, Standing, Told};
pub use sqlite::backup;
pub use store::Store;
pub use write::{Outcome, Write};
