//! Service topologies on the local container engine: stores, services and a browser per case.
//!
//! The crate is the only one that names bollard. It never runs a program on the host.

#![expect(missing_docs, reason = "fields carry the protocol's own names; a comment stands where the name isn't enough")]

mod browser;
pub mod case_container;
mod deploy;
pub mod digest;
pub mod discovery;
pub mod engine;
mod env;
pub mod images;
pub mod installation;
pub mod labels;
pub mod lock;
pub mod names;
pub mod plan;
mod pool;
pub mod process;
pub mod readiness;
pub mod reaper;
pub mod runtime;
pub mod stores;
pub mod watchdog;

pub use deploy::{Debt, DebtObject, Origin};
