//! The runner against a scripted hub: a real server on loopback, with faults.

mod hub_away;
mod jobs;
mod real_case;
mod reports;
mod session;
mod stopping;
mod world;
