//! `bench lease`: the main job measured from outside. The case's command is `true`, so that everything beside one
//! process start is ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::control_plane::{ControlPlane, Sample, now_ms};
use super::process::Measured;
use super::stats::{quantile, round};
use crate::ToolResult;

/// Idle CPU is a mean over this long: shorter, and one 10 ms tick is most of the figure.
const IDLE_WINDOW: Duration = Duration::from_secs(10);
/// How long hub and runner may take to come up.
const START_DEADLINE: Duration = Duration::from_secs(20);

#[derive(Args)]
pub(crate) struct LeaseBench {
    /// Jobs per throughput phase
    #[arg(long, default_value_t = 600)]
    jobs: usize,
    /// Jobs per latency phase, each submitted after the one before it has ended
    #[arg(long, default_value_t = 200)]
    latency_jobs: usize,
    /// Measure against a control plane that is already up
    #[arg(long, requires = "token")]
    api_url: Option<String>,
    /// API key for that control plane (pairs a runner and submits)
    #[arg(long)]
    token: Option<String>,
}

pub(crate) fn run(options: &LeaseBench) -> ToolResult<()> {
    let binary = build_release()?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(measure(options, &binary))?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

pub(super) fn build_release() -> ToolResult<PathBuf> {
    eprintln!("building the release binary …");
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let status = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--package",
            "everdict-cli",
        ])
        .status()?;
    if !status.success() {
        return Err("cargo build --release failed".into());
    }
    Ok(metadata
        .target_directory
        .as_std_path()
        .join("release/everdict-runner"))
}

/// A hub of our own for the time of the benchmark, or the one that was named.
struct Plane {
    client: ControlPlane,
    url: String,
    _hub: Option<Measured>,
}

async fn open_plane(options: &LeaseBench, binary: &Path, home: &Path) -> ToolResult<Plane> {
    if let (Some(url), Some(key)) = (&options.api_url, &options.token) {
        return Ok(Plane {
            client: ControlPlane::new(url, Some(key))?,
            url: url.clone(),
            _hub: None,
        });
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("http://127.0.0.1:{port}");
    let data = home.join("hub");
    let key = Command::new(binary)
        .args([
            "hub",
            "key",
            "create",
            "--workspace",
            "bench",
            "--role",
            "admin",
            "--json",
            "--data-dir",
        ])
        .arg(&data)
        .output()?;
    let reply: Value = serde_json::from_slice(&key.stdout).map_err(|error| {
        format!(
            "hub key create: {error}: {}",
            String::from_utf8_lossy(&key.stderr)
        )
    })?;
    let key = reply["apiKey"]
        .as_str()
        .ok_or("hub key create printed no apiKey")?;
    let mut command = Command::new(binary);
    command
        .args(["hub", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(&data)
        .env("EVERDICT_HOME", home);
    let hub = Measured::start("hub", &mut command)?;
    let deadline = Instant::now() + START_DEADLINE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > deadline {
            return Err("the hub did not come up".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(Plane {
        client: ControlPlane::new(&url, Some(key))?,
        url,
        _hub: Some(hub),
    })
}

async fn measure(options: &LeaseBench, binary: &Path) -> ToolResult<Value> {
    let home = tempfile::tempdir()?;
    let plane = open_plane(options, binary, home.path()).await?;
    let mut report = json!({
        "jobs": options.jobs,
        "latency_jobs": options.latency_jobs,
        "loadavg": std::fs::read_to_string("/proc/loadavg")?.trim(),
    });
    for concurrency in [1_usize, 4] {
        eprintln!("concurrency {concurrency} …");
        let (id, token) = plane.client.pair().await?;
        let phase = measure_runner(options, binary, &plane, (&id, &token, concurrency), home.path()).await;
        plane.client.unpair(&id).await?;
        let phase = phase?;
        if concurrency == 1 {
            for field in ["rss_idle_mb", "rss_peak_mb", "first_lease_ms", "idle_cpu_pct"] {
                report[field] = phase[field].clone();
            }
        }
        report[format!("c{concurrency}")] = phase["latency"].clone();
    }
    Ok(report)
}

async fn measure_runner(
    options: &LeaseBench,
    binary: &Path,
    plane: &Plane,
    (id, token, concurrency): (&str, &str, usize),
    home: &Path,
) -> ToolResult<Value> {
    let mut command = Command::new(binary);
    command
        .args([
            "--api-url",
            &plane.url,
            "--max-concurrent",
            &concurrency.to_string(),
        ])
        .env("EVERDICT_HOME", home)
        .env("EVERDICT_RUNNER_TOKEN", token)
        .env("EVERDICT_RUNNER_VERSION", env!("CARGO_PKG_VERSION"));
    let started_ms = now_ms();
    let runner = Measured::start("runner", &mut command)?;
    let first_lease_ms = first_lease(&plane.client, id).await? - started_ms;

    // A few jobs to warm caches and pools, then a pause: "idle" means after work, not before any.
    for n in 0..10 {
        plane.client.measured_run(id, &format!("warm-{n}")).await?;
    }
    let idle_cpu = runner.cpu_ms()?;
    tokio::time::sleep(IDLE_WINDOW).await;
    let idle_cpu_pct = (runner.cpu_ms()? - idle_cpu) / IDLE_WINDOW.as_secs_f64() / 10.0;
    let rss_idle_mb = runner.memory_mb("VmRSS")?;

    let samples = latencies(options, &plane.client, id, concurrency).await?;
    let (jobs_per_s, cpu_ms_per_job) = throughput(options, &plane.client, id, &runner).await?;

    let of = |pick: fn(&Sample) -> f64, q: f64| {
        let values: Vec<f64> = samples.iter().map(pick).collect();
        quantile(&values, q).map(round)
    };
    Ok(json!({
        "rss_idle_mb": round(rss_idle_mb),
        "rss_peak_mb": round(runner.memory_mb("VmHWM")?),
        "first_lease_ms": round(first_lease_ms),
        "idle_cpu_pct": round(idle_cpu_pct),
        "latency": {
            "jobs_per_s": round(jobs_per_s),
            "pickup_ms_p50": of(|s| s.pickup_ms, 0.5),
            "pickup_ms_p95": of(|s| s.pickup_ms, 0.95),
            "overhead_ms_p50": of(|s| s.overhead_ms, 0.5),
            "overhead_ms_p95": of(|s| s.overhead_ms, 0.95),
            "cpu_ms_per_job": round(cpu_ms_per_job),
        },
    }))
}

async fn first_lease(client: &ControlPlane, id: &str) -> ToolResult<f64> {
    let deadline = Instant::now() + START_DEADLINE;
    loop {
        if let Some(seen) = client.last_seen_ms(id).await? {
            return Ok(seen);
        }
        if Instant::now() > deadline {
            return Err("the runner made no lease call".into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Closed loop: as many submitters as workers, each waits for its run before the next.
async fn latencies(
    options: &LeaseBench,
    client: &ControlPlane,
    id: &str,
    submitters: usize,
) -> ToolResult<Vec<Sample>> {
    let mut tasks = tokio::task::JoinSet::new();
    for submitter in 0..submitters {
        let (client, id) = (client.clone(), id.to_owned());
        let jobs = options.latency_jobs / submitters;
        tasks.spawn(async move {
            let mut samples = Vec::with_capacity(jobs);
            for n in 0..jobs {
                samples.push(
                    client
                        .measured_run(&id, &format!("latency-{submitter}-{n}"))
                        .await?,
                );
            }
            ToolResult::Ok(samples)
        });
    }
    let mut samples = Vec::new();
    while let Some(joined) = tasks.join_next().await {
        samples.extend(joined??);
    }
    Ok(samples)
}

/// Open loop: everything is queued as fast as the hub takes it; returns (jobs/s, runner CPU ms/job).
async fn throughput(
    options: &LeaseBench,
    client: &ControlPlane,
    id: &str,
    runner: &Measured,
) -> ToolResult<(f64, f64)> {
    let cpu_before = runner.cpu_ms()?;
    let started = Instant::now();
    let mut last = String::new();
    let mut runs = Vec::with_capacity(options.jobs);
    for n in 0..options.jobs {
        last = client.submit(id, &format!("queue-{n}")).await?;
        runs.push(last.clone());
    }
    // One runner drains its own queue first in, first out: when the last has ended, at most the other workers' jobs
    // are still running, and those are looked at once each.
    client.drained(&last).await?;
    for run in runs.iter().rev().take(8) {
        client.finished(run).await?;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let cpu = runner.cpu_ms()? - cpu_before;
    Ok((options.jobs as f64 / elapsed, cpu / options.jobs as f64))
}
