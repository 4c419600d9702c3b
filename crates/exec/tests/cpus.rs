//! Launches keep to their share of the CPUs, from their first moment and when it changes while they run.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod support;

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use everdict_exec::{HostEnv, run, share_cpus};
use support::{World, eventually, processes_with};
use tokio_util::sync::CancellationToken;

/// Long enough that a clock tick of 10 ms more or less doesn't matter; the share holds for any span.
const WINDOW: Duration = Duration::from_secs(3);

/// Ticks per second of the times in `/proc/<pid>/stat`; a constant of the kernel's interface to programs.
const TICKS: f64 = 100.0;

fn several_cpus(test: &str) -> Option<usize> {
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus > 1 {
        return Some(cpus);
    }
    let line = format!("SKIPPED {test}: needs two CPUs");
    eprintln!("{line}");
    if let Some(log) = HostEnv::capture().get("EVERDICT_SKIP_LOG") {
        let file = fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut file| writeln!(file, "{line}")).unwrap();
    }
    None
}

/// A shell line of eight loops that do nothing but burn, each named `word`.
fn loops(word: &str) -> String {
    format!("for i in 1 2 3 4 5 6 7 8; do sh -c 'while :; do :; done' {word} & done; wait")
}

fn burners(word: &str) -> Vec<i32> {
    processes_with("while :; do :; done")
        .into_iter()
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"sh\0-c\0while") && line.ends_with(format!("{word}\0").as_bytes())
        })
        .collect()
}

/// Seconds of CPU that these processes have used.
fn used(pids: &[i32]) -> f64 {
    let ticks: f64 = pids
        .iter()
        .map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
        })
        .sum();
    ticks / TICKS
}

/// How many CPUs a process may use, by the kernel's word.
fn allowed(pid: i32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap_or_default();
    list.trim()
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| match part.split_once('-') {
            Some((from, to)) => to.parse::<usize>().unwrap() - from.parse::<usize>().unwrap() + 1,
            None => 1,
        })
        .sum()
}

#[tokio::test]
async fn eight_busy_loops_take_no_more_than_half_of_the_cpus_when_half_is_the_share() {
    let Some(cpus) =
        several_cpus("eight_busy_loops_take_no_more_than_half_of_the_cpus_when_half_is_the_share")
    else {
        return;
    };
    let share = share_cpus(50);
    assert!(share.kept);
    assert_eq!((share.allowed, share.of), (cpus / 2, cpus));
    let (world, cancel) = (World::new(), CancellationToken::new());
    let word = uuid::Uuid::new_v4().to_string();
    let (_, ()) = tokio::join!(run(world.shell(&loops(&word)), None, &cancel), async {
        eventually("eight loops burn", || burners(&word).len() == 8).await;
        let pids = burners(&word);
        let (begin, before) = (Instant::now(), used(&pids));
        tokio::time::sleep(WINDOW).await;
        let portion = (used(&pids) - before) / begin.elapsed().as_secs_f64() / cpus as f64;
        assert!(portion <= 0.55, "{:.0} % of all CPUs", portion * 100.0);
        assert!(portion > 0.05, "they did not burn at all: {portion}");
        cancel.cancel();
    });
}

#[tokio::test]
async fn a_share_that_changes_reaches_what_runs_escapees_and_threads_included_and_is_lifted_again() {
    let Some(cpus) = several_cpus(
        "a_share_that_changes_reaches_what_runs_escapees_and_threads_included_and_is_lifted_again",
    ) else {
        return;
    };
    let (world, cancel) = (World::new(), CancellationToken::new());
    let word = uuid::Uuid::new_v4().to_string();
    let line = format!("setsid sh -c 'while :; do :; done' {word} & {}", loops(&word));
    let (_, ()) = tokio::join!(run(world.shell(&line), None, &cancel), async {
        eventually("nine loops burn", || burners(&word).len() == 9).await;
        let at = |count: usize| burners(&word).iter().all(|pid| allowed(*pid) == count);
        assert!(at(cpus));
        share_cpus(50);
        assert!(at(cpus / 2), "at once, without another call");
        share_cpus(1);
        assert!(at(1), "a share is one CPU at least");
        share_cpus(100);
        assert!(at(cpus));
        cancel.cancel();
    });
    let me = i32::try_from(std::process::id()).unwrap();
    assert_eq!(allowed(me), cpus, "this process itself is never limited");
}
