//! The runner against a scripted hub: a real server on loopback, with faults.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod endurance;
mod hub_away;
mod jobs;
mod offers;
mod outages;
mod real_case;
mod reports;
mod session;
mod stopping;
mod terms;
mod world;
