//! Hermetic fakes for tests. Each fake is a real server over simulated state, with faults that a test
//! switches on by name; nothing here reaches beyond loopback.

pub mod scripted_hub;

pub use scripted_hub::{Call, Fault, Lease, ScriptedHub};
