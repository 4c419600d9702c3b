//! Benchmarks: real processes on loopback, one JSON document on stdout, progress on stderr.

mod control_plane;
mod desktop;
mod lease;
mod process;
mod stats;
mod topology;

use clap::Subcommand;

use crate::ToolResult;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// N jobs through a hub and a runner: throughput, pick-up, overhead, CPU and memory of the runner
    Lease(lease::LeaseBench),
    /// The packaged desktop app: size, memory, CPU while idle, and how soon it is there
    Desktop(desktop::DesktopBench),
    /// A service topology on the local Docker daemon: ours, the docker CLI and the bare Engine API, side by side
    Topology(topology::TopologyBench),
}

pub(crate) fn run(what: Bench) -> ToolResult<()> {
    match what {
        Bench::Lease(options) => lease::run(&options),
        Bench::Desktop(options) => desktop::run(&options),
        Bench::Topology(options) => topology::run(&options),
    }
}
