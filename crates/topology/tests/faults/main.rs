//! What the runtime does when the daemon, a registry or a container fails, shown on a daemon over simulated state.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(unix)]

mod world;

mod addresses;
mod bad_input;
#[path = "../shared/bad_specs.rs"]
mod bad_specs;
mod budget;
#[path = "../shared/case.rs"]
mod case;
mod cleanup;
mod daemon;
mod debts;
mod deploy;
mod helpers;
mod images;
mod manners;
mod ports;
mod prepared;
mod registries;
#[path = "../shared/skip.rs"]
mod skip;
mod waits;
