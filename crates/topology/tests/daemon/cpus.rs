//! The share of the CPUs that a container may use.

use std::time::{Duration, Instant};

use crate::case_image::{REDIS, line, said, start};
use crate::world::in_world;

/// The loops burn this long, in seconds.
const WINDOW: u32 = 4;

/// `0m1.50s 0m0.02s`, as the shell's `times` has it, in seconds.
fn seconds(times: &str) -> f64 {
    times
        .split_whitespace()
        .map(|part| {
            let (minutes, seconds) = part.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        })
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_busy_loops_in_a_container_take_no_more_than_half_of_the_cpus() {
    in_world(
        "eight_busy_loops_in_a_container_take_no_more_than_half_of_the_cpus",
        |world| async move {
            let cpus = world.engine.info().await.unwrap().cpus;
            if cpus < 2 {
                return;
            }
            let container = start(&world, REDIS).await;
            let id = container.id().to_owned();
            // Changed while it runs, and back again.
            world
                .engine
                .set_cpus(&id, &format!("{}-{}", cpus - cpus / 2, cpus - 1))
                .await
                .unwrap();
            let burn = format!(
                "nproc; for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; sleep {WINDOW}; \
             kill $(jobs -p); wait; times"
            );
            let began = Instant::now();
            let (exit, text) = said(&container, line(&burn, "/")).await;
            let elapsed = began.elapsed().min(Duration::from_secs(u64::from(WINDOW) + 1));
            assert_eq!(exit.code, 0, "{text}");
            let lines: Vec<&str> = text.lines().collect();
            let (allowed, times) = (lines[0], *lines.last().unwrap());
            assert_eq!(allowed, (cpus / 2).to_string());
            let portion = seconds(times) / elapsed.as_secs_f64() / cpus as f64;
            assert!(portion <= 0.55, "{:.0} % of all CPUs", portion * 100.0);
            assert!(portion > 0.05, "they did not burn at all: {portion}");
            world
                .engine
                .set_cpus(&id, &format!("0-{}", cpus - 1))
                .await
                .unwrap();
            let (_, text) = said(&container, line("nproc", "/")).await;
            assert_eq!(text, cpus.to_string());
            assert_eq!(container.remove().await, None);
        },
    )
    .await;
}
