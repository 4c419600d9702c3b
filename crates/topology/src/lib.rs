//! Service topologies on the local container engine: stores, services and a browser per case.
//!
//! The crate is the only one that names bollard. It never runs a program on the host, publishes no port beyond the
//! loopback, and removes nothing that isn't proved to be its own installation's.
//!
//! Invariants:
//! - what can be refused is refused by [`plan`], before anything is created;
//! - every call to the daemon has a deadline, and one that changes something is waited for rather than dropped, so that
//!   nothing appears after a clean-up;
//! - a topology is made once, whoever asks for it, and never taken down while a case of any process uses it ([`lock`]);
//! - what a process leaves behind, however it ends, goes: by its own clean-up, the [`watchdog`], or the next
//!   [`reaper::sweep`]; what resists is a [`Debt`] that is tried again.

#![expect(
    missing_docs,
    reason = "fields carry the protocol's own names; a comment stands where the name isn't enough"
)]

mod browser;
pub mod case_container;
mod deploy;
pub mod digest;
pub mod discovery;
pub mod egress;
pub mod engine;
mod env;
pub mod images;
pub mod installation;
pub mod labels;
pub mod lock;
pub mod names;
pub mod plan;
mod pool;
pub mod prepared;
pub mod process;
pub mod readiness;
pub mod reaper;
pub mod runtime;
pub mod stores;
pub mod watchdog;

pub use deploy::{Debt, DebtObject, Origin};
