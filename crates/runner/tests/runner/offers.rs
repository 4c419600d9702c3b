//! What a runner offers changes while a poll waits, and no poll that is cut loses a job.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::Capability;
use everdict_runner_core::capabilities::ContainerOffer;
use everdict_testkit::ScriptedHub;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::world::{World, accepted, end, job, passing, until};

/// The polls of these tests wait longer than any test may take, so that a new one means that the old one was cut.
const POLL: u32 = 25_000;
const AT_ONCE: Duration = Duration::from_secs(2);

fn last_offer(hub: &ScriptedHub) -> Vec<String> {
    let polls = hub.calls_of("lease_job");
    let offer = polls.last().map(|poll| poll.args["capabilities"].clone());
    serde_json::from_value(offer.unwrap_or_default()).unwrap_or_default()
}

fn has(hub: &ScriptedHub, word: &str) -> bool {
    last_offer(hub).iter().any(|offered| offered == word)
}

#[tokio::test]
async fn docker_s_coming_and_going_is_told_to_the_hub_at_once_and_not_at_the_end_of_a_poll() {
    let world = World::new().await;
    let (tell, containers) = watch::channel(ContainerOffer::Absent("nobody answers".to_owned()));
    let handle = world.start_as(passing(), |config| {
        config.wait_ms = POLL;
        config.containers = Some(containers);
    });
    let hub = &world.hub;
    hub.until("the first poll waits", |hub| hub.waiting_polls() == 1)
        .await;
    assert!(!has(hub, "docker"), "{:?}", last_offer(hub));
    for there in [true, false, true] {
        tell.send_replace(if there {
            ContainerOffer::Ready("here".to_owned())
        } else {
            ContainerOffer::Absent("gone".to_owned())
        });
        let begin = Instant::now();
        hub.until("the hub knows", |hub| {
            has(hub, "docker") == there && hub.waiting_polls() == 1
        })
        .await;
        assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
        let seen = until(&handle, "the snapshot knows", |seen| {
            seen.capabilities.offered().contains(&Capability::Docker) == there
        })
        .await;
        assert_eq!(seen.capabilities.offered().contains(&Capability::Browser), there);
    }
    // The polls that were cut count as answered, and the runner was never "offline".
    assert_eq!(hub.calls_of("lease_job").len(), 4);
    assert_eq!(hub.called_off(), 3);
    end(handle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_handed_to_a_poll_in_the_moment_of_its_cut_is_run() {
    let world = World::new().await;
    let (tell, containers) = watch::channel(ContainerOffer::Absent("nobody answers".to_owned()));
    let handle = world.start_as(passing(), |config| {
        config.wait_ms = POLL;
        config.containers = Some(containers);
    });
    let hub = &world.hub;
    for round in 0..60_u32 {
        hub.until("the poll waits", |hub| hub.waiting_polls() == 1).await;
        let offer = if round % 2 == 0 {
            ContainerOffer::Ready("here".to_owned())
        } else {
            ContainerOffer::Absent("gone".to_owned())
        };
        // Either order, with the two as close as threads can be.
        let told = tokio::task::spawn_blocking({
            let tell = tell.clone();
            move || tell.send_replace(offer)
        });
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
        let job_id = hub.enqueue(job(&format!("c{round}")));
        told.await.unwrap();
        hub.until("the job is done", |hub| accepted(hub, &job_id)).await;
        assert_eq!(hub.lease(&job_id).unwrap().epoch, 1, "handed out once");
    }
    end(handle).await;
}

/// C36.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_dispatched_in_the_moment_of_finish_then_stop_is_run_or_never_left_the_hub() {
    let world = World::new().await;
    for round in 0..30_u32 {
        let handle = Arc::new(world.start_as(passing(), |config| config.wait_ms = POLL));
        let hub = &world.hub;
        hub.until("the poll waits", |hub| hub.waiting_polls() == 1).await;
        let draining = tokio::task::spawn_blocking({
            let handle = Arc::clone(&handle);
            move || handle.drain()
        });
        let job_id = hub.enqueue(job(&format!("c{round}")));
        draining.await.unwrap();
        let begin = Instant::now();
        end(Arc::into_inner(handle).unwrap()).await;
        assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
        if let Some(lease) = hub.lease(&job_id) {
            assert!(lease.result.is_some(), "a leased job was left to time out");
        } else {
            // It waits for the next runner, which takes it.
            let handle = world.start(passing());
            hub.until("the job is done", |hub| accepted(hub, &job_id)).await;
            end(handle).await;
        }
    }
}

#[tokio::test]
async fn a_hub_that_does_not_know_how_to_end_a_poll_holds_nobody_up() {
    let world = World::new().await;
    world.hub.ignore_call_offs();
    let handle = world.start_as(passing(), |config| config.wait_ms = POLL);
    world
        .hub
        .until("the poll waits", |hub| hub.waiting_polls() == 1)
        .await;
    let begin = Instant::now();
    end(handle).await;
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    world
        .hub
        .until("the poll is gone", |hub| hub.waiting_polls() == 0)
        .await;
}
