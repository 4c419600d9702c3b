//! Every way in which a job or a runner is stopped.

use std::sync::Arc;
use std::time::Duration;

use crate::world::{World, accepted, case, end, endless, job, pass, passing, until};
use everdict_contracts::Fault;
use everdict_runner_core::attempt::{Outcome, StopReason};
use everdict_runner_core::{RunnerEvent, RunnerState};
use everdict_testkit::Fault as Misbehave;
use tokio::sync::Notify;

#[tokio::test]
async fn idle_long_poll_is_cut_on_drain() {
    let world = World::new().await;
    let handle = world.start(passing());
    world
        .hub
        .until("the poll waits", |hub| hub.waiting_polls() == 1)
        .await;
    end(handle).await;
    world
        .hub
        .until("the poll is gone", |hub| hub.waiting_polls() == 0)
        .await;
}

#[tokio::test]
async fn a_held_runner_takes_nothing_until_it_is_released() {
    let world = World::new().await;
    let handle = world.start(passing());
    world
        .hub
        .until("the poll waits", |hub| hub.waiting_polls() == 1)
        .await;
    handle.hold(true);
    world
        .hub
        .until("the poll is cut", |hub| hub.waiting_polls() == 0)
        .await;
    let job_id = world.hub.enqueue(job("c1"));
    assert!(!accepted(&world.hub, &job_id));
    assert_eq!(handle.snapshot().borrow().counters.leased, 0);
    handle.hold(false);
    world
        .hub
        .until("the job is done", |hub| accepted(hub, &job_id))
        .await;
    handle.hold(true);
    end(handle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_at_any_moment_ends_the_runner() {
    let world = World::new().await;
    world.hub.reply_in_json();
    for round in 0..40_usize {
        let handle = world.start(passing());
        let job_id = world.hub.enqueue(job(&format!("c{round}")));
        // Early stops hit the connect, the poll or the job; late ones the moment after a report.
        if round % 2 == 0 {
            world
                .hub
                .until("the result is in", |hub| accepted(hub, &job_id))
                .await;
        }
        if round % 4 < 2 {
            handle.cancel();
        }
        end(handle).await;
    }
}

#[tokio::test]
async fn drain_lets_a_running_job_finish_and_report() {
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
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    handle.drain();
    assert_eq!(handle.snapshot().borrow().state, RunnerState::Draining);
    go.notify_one();
    end(handle).await;
    assert!(accepted(&world.hub, &job_id));
}

#[tokio::test]
async fn cancel_stops_the_case_and_reports_it_as_cancelled() {
    let world = World::new().await;
    let handle = world.start(endless());
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    handle.cancel();
    end(handle).await;
    let result = world.hub.lease(&job_id).unwrap().result.unwrap();
    assert_eq!(result["failure"]["code"], "CANCELLED");
    assert_eq!(result["failure"]["retryable"], false);
}

#[tokio::test]
async fn a_dropped_handle_stops_everything() {
    let world = World::new().await;
    let handle = world.start(endless());
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    drop(handle);
    world
        .hub
        .until("it is reported", |hub| accepted(hub, &job_id))
        .await;
    world
        .hub
        .until("the session ends", |hub| hub.sessions_opened_and_deleted().1 == 1)
        .await;
}

#[tokio::test]
async fn cancelled_heartbeat_stops_the_tree() {
    let world = World::new().await;
    let handle = world.start_as(endless(), |config| config.heartbeat_ms = Some(20));
    let mut events = handle.events();
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    world.hub.cancel(&job_id);
    until(&handle, "it is stopped", |seen| seen.counters.cancelled == 1).await;
    // One acknowledgement, which the hub refuses; never more.
    assert_eq!(world.hub.calls_of("submit_job_result").len(), 1);
    assert!(!accepted(&world.hub, &job_id));
    end(handle).await;
    while let Ok(event) = events.try_recv() {
        if let RunnerEvent::JobFinished(summary) = event {
            assert_eq!(summary.outcome, Outcome::Cancelled);
        }
    }
}

#[tokio::test]
async fn a_case_that_prints_is_stopped_long_before_the_next_heartbeat() {
    let world = World::new().await;
    let handle = world.start(case(|_, context| async move {
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        while !context.cancel.is_cancelled() {
            tick.tick().await;
            context.progress.log("still here");
        }
        Err(Fault::cancelled("the run was cancelled"))
    }));
    let job_id = world.hub.enqueue(job("c1"));
    // The next beat would be due after a third of 120 s.
    world
        .hub
        .until("the first beat is in", |hub| {
            hub.calls_of("heartbeat_job").len() == 1
        })
        .await;
    world.hub.cancel(&job_id);
    until(&handle, "it is stopped", |seen| seen.counters.cancelled == 1).await;
    end(handle).await;
}

#[tokio::test]
async fn a_lost_lease_stops_the_tree_and_reports_nothing() {
    let world = World::new().await;
    let handle = world.start_as(endless(), |config| config.heartbeat_ms = Some(20));
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    world.hub.take_away(&job_id);
    until(&handle, "the loss is counted", |seen| {
        seen.counters.lease_lost == 1
    })
    .await;
    assert_eq!(world.hub.calls_of("submit_job_result").len(), 0);
    assert_eq!(world.hub.calls_of("fail_job").len(), 0);
    end(handle).await;
}

#[tokio::test]
async fn a_lease_that_nobody_could_renew_is_lost_after_its_grace() {
    let world = World::new().await;
    world.hub.announce_ttl(Duration::from_millis(60));
    for _ in 0..2_000 {
        world.hub.arm("heartbeat_job", Misbehave::Status(503));
    }
    let handle = world.start_as(endless(), |config| {
        config.lease_grace = Duration::from_millis(100);
    });
    world.hub.enqueue(job("c1"));
    let stopping = until(&handle, "it is stopping", |seen| {
        seen.active.first().is_some_and(|job| job.stopping.is_some()) || seen.counters.lease_lost == 1
    })
    .await;
    if let Some(job) = stopping.active.first() {
        assert_eq!(job.stopping, Some(StopReason::LeaseLost));
    }
    until(&handle, "the loss is counted", |seen| {
        seen.counters.lease_lost == 1
    })
    .await;
    assert_eq!(world.hub.calls_of("submit_job_result").len(), 0);
    end(handle).await;
}
