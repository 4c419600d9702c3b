//! The terms on which a runner takes jobs: the hub's pause, the number of slots, waking from a sleep.

use std::sync::Arc;
use std::time::Duration;

use crate::world::{World, accepted, case, end, endless, job, pass, passing, until};
use everdict_runner_core::RunnerEvent;
use everdict_runner_core::RunnerState;
use everdict_runner_core::attempt::Outcome;
use tokio::sync::Notify;

#[tokio::test]
async fn a_pause_at_the_hub_is_told_with_its_reason_lets_the_running_job_finish_and_no_other_begin() {
    let world = World::new().await;
    world.hub.announce_ttl(Duration::from_secs(3));
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let handle = world.start(case(move |job, _| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            Ok(pass(&job))
        }
    }));
    let running = world.hub.enqueue(job("c1"));
    until(&handle, "the job runs", |now| now.active.len() == 1).await;
    world.hub.pause(Some("maintenance"));
    let next = world.hub.enqueue(job("c2"));
    // The heartbeat tells it, while the only slot is taken.
    until(&handle, "the reason shows", |now| {
        now.hub_pause.as_deref() == Some("maintenance")
    })
    .await;
    assert_eq!(handle.snapshot().borrow().active.len(), 1, "the job goes on");
    go.notify_one();
    world
        .hub
        .until("the job is done", |hub| accepted(hub, &running))
        .await;
    let polls = world.hub.calls_of("lease_job").len();
    world
        .hub
        .until("a poll is refused", |hub| hub.calls_of("lease_job").len() > polls)
        .await;
    let now = until(&handle, "the runner is idle", |now| {
        now.state == RunnerState::Idle
    })
    .await;
    assert_eq!(now.hub_pause.as_deref(), Some("maintenance"));
    assert!(world.hub.lease(&next).is_none(), "no lease while paused");
    world.hub.pause(None);
    handle.try_now();
    until(&handle, "the pause is over", |now| {
        now.hub_pause.is_none() && now.active.len() == 1
    })
    .await;
    go.notify_one();
    world
        .hub
        .until("the next job is done", |hub| accepted(hub, &next))
        .await;
    end(handle).await;
}

#[tokio::test]
async fn a_waiting_poll_learns_of_a_pause_at_once() {
    let world = World::new().await;
    let handle = world.start(passing());
    world
        .hub
        .until("the poll waits", |hub| hub.waiting_polls() == 1)
        .await;
    world.hub.pause(Some("maintenance"));
    until(&handle, "the reason shows", |now| now.hub_pause.is_some()).await;
    end(handle).await;
}

#[tokio::test]
async fn the_number_of_slots_follows_a_wish_while_the_runner_runs_and_stops_nothing() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let handle = world.start(case(move |job, _| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            Ok(pass(&job))
        }
    }));
    let jobs: Vec<String> = (0..4)
        .map(|index| world.hub.enqueue(job(&format!("c{index}"))))
        .collect();
    until(&handle, "one runs", |now| now.active.len() == 1).await;
    handle.resize(3);
    until(&handle, "three run", |now| now.active.len() == 3).await;
    handle.resize(1);
    go.notify_waiters();
    let finished = |hub: &everdict_testkit::ScriptedHub| jobs.iter().filter(|job| accepted(hub, job)).count();
    world
        .hub
        .until("those three finish", |hub| finished(hub) == 3)
        .await;
    until(&handle, "one slot is left, for the fourth", |now| {
        now.active.len() == 1
    })
    .await;
    world
        .hub
        .until("no other slot polls", |hub| hub.waiting_polls() == 0)
        .await;
    go.notify_one();
    world
        .hub
        .until("the fourth finishes", |hub| finished(hub) == 4)
        .await;
    world
        .hub
        .until("the one slot polls", |hub| hub.waiting_polls() == 1)
        .await;
    end(handle).await;
}

#[tokio::test]
async fn after_a_sleep_the_old_poll_is_dropped_and_the_lease_renewed_at_once_on_one_new_session() {
    let world = World::new().await;
    world.hub.announce_ttl(Duration::from_secs(3600));
    let handle = world.start_as(endless(), |config| config.max_concurrent = 2);
    let running = world.hub.enqueue(job("c1"));
    until(&handle, "the job runs", |now| now.active.len() == 1).await;
    world
        .hub
        .until("it beats, and the other slot polls", |hub| {
            hub.calls_of("heartbeat_job").len() == 1 && hub.waiting_polls() == 1
        })
        .await;
    let polls = world.hub.calls_of("lease_job").len();
    handle.woke();
    world
        .hub
        .until("it beats again, an hour early, and polls anew", |hub| {
            hub.calls_of("heartbeat_job").len() == 2
                && hub.calls_of("lease_job").len() == polls + 1
                && hub.waiting_polls() == 1
        })
        .await;
    assert_eq!(world.hub.sessions_opened_and_deleted().0, 2);
    let (beats, calls) = (
        world.hub.calls_of("heartbeat_job"),
        world.hub.calls_of("lease_job"),
    );
    assert_eq!(
        beats[1].session,
        calls.last().unwrap().session,
        "one new session for all"
    );
    assert_ne!(beats[0].session, beats[1].session);
    let mut events = handle.events();
    world.hub.cancel(&running);
    handle.woke();
    loop {
        if let RunnerEvent::JobFinished(summary) = events.recv().await.unwrap() {
            assert_eq!(
                summary.outcome,
                Outcome::Cancelled,
                "the renewal after a sleep tells what happened in it"
            );
            break;
        }
    }
    end(handle).await;
}
