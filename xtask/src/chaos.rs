//! `cargo xtask chaos`: breaks a real hub and a real runner again and again, and counts what that costs.
//!
//! Each round runs one job and does one bad thing to it: the runner dies between two steps, the hub dies, replies are
//! lost, requests come twice, the runner is frozen for longer than its lease, the disk is full. Then the runner is started
//! again if it has to be, and the round asks: did the run end with its result, was a safe result made a second time, is
//! any process or file left? The numbers to print are zero.

mod proxy;
mod scene;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::ToolResult;
use scene::{Round, Scene};

#[derive(Args)]
pub(crate) struct Chaos {
    /// How many jobs are run; each kind of trouble comes round in turn
    #[arg(long, default_value_t = 26)]
    rounds: usize,
    /// Print one JSON document instead of a line per round
    #[arg(long)]
    json: bool,
    /// A debug build of the program; `target/debug/everdict-runner` beside this tool by default
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// What is done to a round's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The runner kills itself at this step of the attempt; whether the result is safe by then.
    RunnerDies(&'static str, bool),
    HubDies,
    RepliesLost,
    RequestsTwice,
    Frozen,
    DiskFull,
}

const TROUBLES: [Trouble; 12] = [
    Trouble::RunnerDies("leased", false),
    Trouble::HubDies,
    Trouble::RunnerDies("journaled", false),
    Trouble::RepliesLost,
    Trouble::RunnerDies("started", false),
    Trouble::RequestsTwice,
    Trouble::RunnerDies("produced", false),
    Trouble::Frozen,
    Trouble::RunnerDies("kept", true),
    Trouble::DiskFull,
    Trouble::RunnerDies("answered", true),
    Trouble::RunnerDies("settled", true),
];

#[derive(Debug, Default, Serialize)]
struct Tally {
    rounds: usize,
    lost: usize,
    doubled: usize,
    leftover_processes: usize,
    leftover_files: usize,
    /// Rounds that could not be had here, such as a full disk without the right to mount one.
    skipped: usize,
    seconds: u64,
    /// What went wrong, round by round.
    findings: Vec<String>,
}

pub(crate) fn run(options: &Chaos) -> ToolResult<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let tally = runtime.block_on(rounds(options))?;
    println!("{}", serde_json::to_string(&tally)?);
    let all = tally.lost + tally.doubled + tally.leftover_processes + tally.leftover_files;
    if all == 0 {
        Ok(())
    } else {
        Err(format!("{all} promises were broken in {} rounds", tally.rounds).into())
    }
}

async fn rounds(options: &Chaos) -> ToolResult<Tally> {
    let begin = Instant::now();
    let mut scene = Scene::set(&binary(options)?).await?;
    let mut tally = Tally::default();
    for number in 0..options.rounds {
        let trouble = TROUBLES[number % TROUBLES.len()];
        let round = scene.round(number, trouble).await?;
        tally.rounds += 1;
        let Some(Round {
            lost,
            doubled,
            processes,
            files,
        }) = round
        else {
            tally.skipped += 1;
            continue;
        };
        tally.lost += usize::from(lost.is_some());
        tally.doubled += usize::from(doubled);
        tally.leftover_processes += processes;
        tally.leftover_files += files.len();
        if lost.is_some() || doubled || processes > 0 || !files.is_empty() {
            tally.findings.push(format!(
                "round {number} ({trouble:?}): lost {lost:?}, doubled {doubled}, {processes} processes, files {files:?}"
            ));
        }
        if !options.json {
            eprintln!("round {number}: {trouble:?}");
        }
    }
    tally.seconds = begin.elapsed().max(Duration::from_secs(1)).as_secs();
    Ok(tally)
}

/// The program under test. Only a debug build can be told to die at a step.
fn binary(options: &Chaos) -> ToolResult<PathBuf> {
    if let Some(named) = &options.binary {
        return Ok(named.clone());
    }
    let own = std::env::current_exe()?;
    let beside = own.with_file_name("everdict-runner");
    if beside.is_file() {
        Ok(beside)
    } else {
        Err(format!(
            "{} is not there: build it with `cargo build -p everdict-cli`, or name it with --binary",
            beside.display()
        )
        .into())
    }
}
