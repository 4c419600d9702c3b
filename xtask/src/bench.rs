//! Benchmarks: real processes on loopback, one JSON document on stdout, progress on stderr.

mod control_plane;
mod desktop;
#[cfg(unix)]
mod hub;
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
    /// Hubs on each store under 200 runners that wait and 10,000 jobs: jobs/s, lease latency, CPU, memory, lost, doubled
    #[cfg(unix)]
    Hub(hub::HubBench),
    /// The packaged desktop app: size, memory, CPU while idle, and how soon it is there
    Desktop(desktop::DesktopBench),
    /// A service topology on the local Docker daemon: ours, the docker CLI and the bare Engine API, side by side
    Topology(topology::TopologyBench),
}

pub(crate) fn run(what: Bench) -> ToolResult<()> {
    match what {
        Bench::Lease(options) => lease::run(&options),
        #[cfg(unix)]
        Bench::Hub(options) => hub::run(&options),
        Bench::Desktop(options) => desktop::run(&options),
        Bench::Topology(options) => topology::run(&options),
    }
}
