//! A runner that is pressed hard keeps its lease and its manners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::world::{World, accepted, case, end, endless, job, pass, until};
use everdict_runner_core::RunnerState;
use tokio::sync::Notify;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_job_on_busy_cpus_is_renewed_well_within_half_of_its_lease() {
    let world = World::new().await;
    let ttl = Duration::from_secs(6);
    world.hub.announce_ttl(ttl);
    let over = Arc::new(AtomicBool::new(false));
    // As the processes of a job would: not on the runner's own threads.
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let busy: Vec<_> = (0..cores)
        .map(|_| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let handle = world.start(endless());
    world.hub.enqueue(job("c1"));
    world
        .hub
        .until("four beats are in", |hub| {
            hub.calls_of("heartbeat_job").len() >= 4
        })
        .await;
    over.store(true, Ordering::Relaxed);
    let beats = world.hub.calls_of("heartbeat_job");
    let longest = beats.windows(2).map(|pair| pair[1].at - pair[0].at).max();
    assert!(longest < Some(ttl / 2), "{longest:?}");
    for thread in busy {
        thread.join().unwrap();
    }
    handle.cancel();
    end(handle).await;
}

#[tokio::test]
async fn a_long_503_leaves_the_job_unharmed_is_asked_ever_more_rarely_and_healing_is_noticed() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let handle = world.start_as(
        case(move |job, context| {
            let wait = Arc::clone(&wait);
            async move {
                wait.notified().await;
                assert!(!context.cancel.is_cancelled(), "the outage reached the job");
                Ok(pass(&job))
            }
        }),
        |config| {
            config.max_concurrent = 2;
            config.heartbeat_ms = Some(1_000);
        },
    );
    let first = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    world.hub.outage(Some(503));
    until(&handle, "the outage shows", |seen| {
        matches!(seen.state, RunnerState::Offline { .. })
    })
    .await;
    // Scaled: pauses grow from 20 ms, so that ten doublings take as long as ten minutes would from 2 s.
    world
        .hub
        .until("it was asked a while", |hub| hub.missed() >= 10)
        .await;
    let begin = Instant::now();
    let before = world.hub.missed();
    world
        .hub
        .until("it is still asked", |hub| hub.missed() >= before + 2)
        .await;
    assert!(
        begin.elapsed() > Duration::from_millis(200),
        "a hub that is away is hammered: {:?} for two calls",
        begin.elapsed()
    );
    world.hub.outage(None);
    handle.try_now();
    go.notify_one();
    go.notify_one();
    let second = world.hub.enqueue(job("c2"));
    let back = Instant::now();
    while !(accepted(&world.hub, &first) && accepted(&world.hub, &second)) {
        assert!(back.elapsed() < Duration::from_secs(30), "healing went unnoticed");
        go.notify_one();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.hub.lease(&first).unwrap().epoch, 1);
    end(handle).await;
}

#[tokio::test]
async fn a_runner_that_the_hub_has_given_up_is_told_with_its_next_call_stops_the_job_and_shows_it() {
    let world = World::new().await;
    let handle = world.start_as(endless(), |config| config.heartbeat_ms = Some(50));
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    world.hub.take_away(&job_id);
    let seen = until(&handle, "the loss is told", |seen| seen.counters.lease_lost == 1).await;
    assert!(seen.active.is_empty(), "{:?}", seen.active);
    until(&handle, "it has room again", |seen| {
        seen.state == RunnerState::Idle
    })
    .await;
    assert!(!accepted(&world.hub, &job_id));
    let next = world.hub.enqueue(job("c2"));
    until(&handle, "the next job is taken", |seen| !seen.active.is_empty()).await;
    world.hub.cancel(&next);
    end(handle).await;
}
