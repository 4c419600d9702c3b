//! What the runtime promises, shown on a real daemon. Without one each test is listed as skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod world;

#[path = "../shared/bad_specs.rs"]
#[cfg(target_os = "linux")]
mod bad_specs;
#[path = "../shared/case.rs"]
mod case;
#[path = "../shared/skip.rs"]
mod skip;

mod browser;
mod case_image;
mod cpus;
mod data;
mod deploy;
mod egress;
mod member;
mod one_shot;
mod policies;
mod prepared;
mod process;
mod program;
mod reaper;
mod registry;
mod registry_world;
mod tcp;
mod verdicts;

/// Daemons of the tests' own, in name spaces.
#[cfg(target_os = "linux")]
mod private;
