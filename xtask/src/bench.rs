//! Benchmarks: real processes on loopback, one JSON document on stdout, progress on stderr.

mod control_plane;
mod lease;
mod process;
mod stats;

use clap::Subcommand;

use crate::ToolResult;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// N jobs through a hub and a runner: throughput, pick-up, overhead, CPU and memory of the runner
    Lease(lease::LeaseBench),
}

pub(crate) fn run(what: Bench) -> ToolResult<()> {
    match what {
        Bench::Lease(options) => lease::run(&options),
    }
}
