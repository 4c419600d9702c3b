//! `bench hub`: many runners that wait and a long queue, on each store. Runners are sessions of this process: what is
//! measured is the hub.
//!
//! Two phases, since a closed loop at full speed only measures itself: first everybody takes jobs as fast as they come (for
//! the throughput and the processor time), then at a pace well below that (for the latency of a lease).

mod load;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use everdict_testkit::Postgres;
use everdict_testkit::postgres::Durability;
use serde_json::{Value, json};

use self::load::{Fleet, Hubs};
use super::process::Measured;
use super::stats::{quantile, round};
use crate::ToolResult;

/// How long a hub may take to come up.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// Jobs of the paced phase, and how long each runner "works" on one: 200 runners then ask 400 times a second.
const PACED: usize = 2_000;
const PACE: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(crate) struct HubBench {
    /// Runners that lease
    #[arg(long, default_value_t = 200)]
    runners: usize,
    /// Jobs in the queue before the first is leased
    #[arg(long, default_value_t = 10_000)]
    queued: usize,
    /// Jobs submitted one by one while all runners wait
    #[arg(long, default_value_t = 200)]
    single: usize,
    /// Only these: sqlite_1, postgres_1, postgres_2
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Measure this binary instead of building a release one
    #[arg(long)]
    binary: Option<PathBuf>,
}

pub(crate) fn run(options: &HubBench) -> ToolResult<()> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => super::lease::build_release()?,
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut report = json!({
        "runners": options.runners,
        "queued": options.queued,
        "loadavg": std::fs::read_to_string("/proc/loadavg")?.trim(),
    });
    for (name, replicas) in [("sqlite_1", 1), ("postgres_1", 1), ("postgres_2", 2)] {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        eprintln!("{name} …");
        let server = match name {
            "sqlite_1" => None,
            _ => Some(Postgres::start(Durability::Disk)?),
        };
        report[name] = runtime.block_on(measure(options, &binary, server.as_ref(), replicas))?;
    }
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

fn hub_command(binary: &Path, home: &Path, server: Option<&Postgres>) -> Command {
    let mut command = Command::new(binary);
    command.arg("hub").env("EVERDICT_HOME", home);
    match server {
        Some(server) => command.env("EVERDICT_HUB_DATABASE", server.url()),
        None => command.arg("--data-dir").arg(home.join("hub")),
    };
    command
}

fn make_key(binary: &Path, home: &Path, server: Option<&Postgres>) -> ToolResult<String> {
    let output = hub_command(binary, home, server)
        .args(["key", "create", "--workspace", "bench", "--json"])
        .output()?;
    let reply: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!(
            "hub key create: {error}: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    let key = reply["apiKey"]
        .as_str()
        .ok_or("hub key create printed no apiKey")?;
    Ok(key.to_owned())
}

async fn start(binary: &Path, home: &Path, server: Option<&Postgres>) -> ToolResult<(Measured, String)> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = hub_command(binary, home, server);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    let hub = Measured::start("hub", &mut command)?;
    let deadline = Instant::now() + START_DEADLINE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > deadline {
            return Err("the hub did not come up".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok((hub, format!("http://127.0.0.1:{port}")))
}

async fn measure(
    options: &HubBench,
    binary: &Path,
    server: Option<&Postgres>,
    replicas: usize,
) -> ToolResult<Value> {
    let home = tempfile::tempdir()?;
    let key = make_key(binary, home.path(), server)?;
    let (mut processes, mut urls) = (Vec::new(), Vec::new());
    for _ in 0..replicas {
        let (hub, url) = start(binary, home.path(), server).await?;
        processes.push(hub);
        urls.push(url);
    }
    let hubs = Hubs::new(&urls, &key)?;
    let fleet = Fleet::pair(&hubs, options.runners).await?;
    eprintln!("  queueing {} jobs …", options.queued);
    let filling = Instant::now();
    hubs.fill(options.queued).await?;
    let submits_per_s = options.queued as f64 / filling.elapsed().as_secs_f64();

    let cpu = |processes: &[Measured]| -> ToolResult<f64> {
        processes.iter().try_fold(0.0, |sum, hub| Ok(sum + hub.cpu_ms()?))
    };
    let server_cpu = || server.map_or(Ok(0.0), Postgres::processor_ms);
    let paced = PACED.min(options.queued / 2);
    let fast = options.queued - paced;
    eprintln!("  draining {fast} of them at full speed, {paced} at a pace …");
    let (before, server_before) = (cpu(&processes)?, server_cpu()?);
    let started = Instant::now();
    fleet.drain(fast, Duration::ZERO).await?;
    let elapsed = started.elapsed().as_secs_f64();
    let (used, server_used) = (cpu(&processes)? - before, server_cpu()? - server_before);
    let leases = fleet.drain(options.queued, PACE).await?;
    eprintln!("  submitting {} one by one …", options.single);
    let singles = fleet.single(&hubs, options.single).await?;

    let mut rss: f64 = 0.0;
    for hub in &processes {
        rss = rss.max(hub.memory_mb("VmHWM")?);
    }
    let (lost, doubled) = fleet.balance(options.queued + options.single);
    Ok(json!({
        "jobs_per_s": round(fast as f64 / elapsed),
        "lease_ms_p50": quantile(&leases, 0.5).map(round),
        "lease_ms_p99": quantile(&leases, 0.99).map(round),
        "submit_to_lease_ms_p50": quantile(&singles, 0.5).map(round),
        "submit_to_lease_ms_p99": quantile(&singles, 0.99).map(round),
        "submits_per_s": round(submits_per_s),
        "cpu_ms_per_job": round(used / fast as f64),
        "database_cpu_ms_per_job": server.map(|_| round(server_used / fast as f64)),
        "rss_mb": round(rss),
        "lost": lost,
        "doubled": doubled,
    }))
}
