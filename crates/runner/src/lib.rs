//! Leases cases from a control plane, runs them here and reports the results.

pub mod attempt;
pub mod session;
