//! `bench topology`: PostgreSQL + Redis + a front door + a browser on the local daemon, three ways, interleaved.
//!
//! - **ours**: the runtime that cases use;
//! - **cli**: the same sequence as a shell script would do it, one `docker` call after the other;
//! - **floor**: the bare Engine calls on the critical path, everything in parallel, on the same prepared database image,
//!   with nothing around them: no labels, no confinement, no records.

mod cli;
mod floor;
mod ours;

use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use super::stats::{quantile, round};
use crate::ToolResult;

/// The images that the benchmark runs; `cargo xtask images` makes them where no registry is reached.
pub(super) const FRONT_DOOR: &str = "everdict/front-door:dev";
pub(super) const POSTGRES: &str = "postgres:16-alpine";
pub(super) const REDIS: &str = "redis:7-alpine";
pub(super) const BROWSER: &str = "chromedp/headless-shell:latest";

#[derive(Args)]
pub(crate) struct TopologyBench {
    /// Rounds; each measures all three ways
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The daemon
    #[arg(long, default_value = "unix:///var/run/docker.sock")]
    docker: String,
}

/// One way's times of one round, in milliseconds.
#[derive(Default)]
pub(super) struct Round {
    pub(super) cold: f64,
    pub(super) warm: Option<f64>,
    pub(super) browser: f64,
    pub(super) dispose: f64,
}

pub(super) fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1000.0
}

pub(crate) fn run(options: &TopologyBench) -> ToolResult<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(measure(options))?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

async fn measure(options: &TopologyBench) -> ToolResult<Value> {
    let tag = format!("everdict-bench-{}", std::process::id());
    let bench = ours::Ours::open(&options.docker, &tag).await?;
    eprintln!("preparing: one topology that is not counted …");
    let prepared = bench.prepare().await?;
    let floor = floor::Floor::open(&options.docker, &tag, &prepared).await?;
    let (mut ours, mut cli, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let loadavg = std::fs::read_to_string("/proc/loadavg")?.trim().to_owned();
    let mut outcome = Ok(());
    for n in 0..options.runs {
        eprintln!("round {} of {} …", n + 1, options.runs);
        outcome = one_round(n, &bench, &floor, &tag, (&mut ours, &mut cli, &mut bare)).await;
        if outcome.is_err() {
            break;
        }
    }
    bench.remove_all().await;
    cli::remove_all(&tag);
    outcome?;
    let median = |rounds: &[Round], pick: fn(&Round) -> f64| {
        let values: Vec<f64> = rounds.iter().map(pick).collect();
        quantile(&values, 0.5).map(round)
    };
    let warm: Vec<f64> = ours.iter().filter_map(|round| round.warm).collect();
    Ok(json!({
        "cold_ms": {
            "ours": median(&ours, |r| r.cold), "cli": median(&cli, |r| r.cold), "floor": median(&bare, |r| r.cold),
        },
        "warm_ms": {"ours": quantile(&warm, 0.5).map(round)},
        "browser_ms": {
            "ours": median(&ours, |r| r.browser), "cli": median(&cli, |r| r.browser), "floor": median(&bare, |r| r.browser),
        },
        "dispose_ms": {"ours": median(&ours, |r| r.dispose), "cli": median(&cli, |r| r.dispose)},
        "runs": options.runs,
        "prepared_database": prepared,
        "loadavg": loadavg,
    }))
}

type Sums<'a> = (&'a mut Vec<Round>, &'a mut Vec<Round>, &'a mut Vec<Round>);

async fn one_round(
    n: usize,
    bench: &ours::Ours,
    floor: &floor::Floor,
    tag: &str,
    (ours, cli, bare): Sums<'_>,
) -> ToolResult<()> {
    ours.push(bench.round(n).await?);
    let name = format!("{tag}-cli-{n}");
    cli.push(tokio::task::spawn_blocking(move || cli::round(&name)).await??);
    bare.push(floor.round(n).await?);
    Ok(())
}
