//! What becomes of a report: taken, dropped, refused, lost.

use std::sync::Arc;

use crate::world::{World, accepted, case, end, job, pass, passing, until};
use everdict_contracts::TraceEvent;
use everdict_runner_core::attempt::Outcome;
use everdict_runner_core::{OfflineCause, RunnerEvent, RunnerState};
use everdict_testkit::Fault as Misbehave;
use tokio::sync::Notify;

#[tokio::test]
async fn superseded_result_is_dropped_once() {
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
    world
        .hub
        .until("the first beat is in", |hub| {
            hub.calls_of("heartbeat_job").len() == 1
        })
        .await;
    world.hub.take_away(&job_id);
    go.notify_one();
    until(&handle, "the drop is counted", |seen| {
        seen.counters.superseded == 1
    })
    .await;
    assert_eq!(world.hub.calls_of("submit_job_result").len(), 1);
    assert!(!accepted(&world.hub, &job_id));
    end(handle).await;
}

#[tokio::test]
async fn lost_submit_reply_is_retried_and_one_result_stands() {
    let world = World::new().await;
    let handle = world.start(passing());
    let mut events = handle.events();
    // The session repeats a call once by itself; three lost replies take the loop's own retry too.
    for _ in 0..3 {
        world.hub.arm("submit_job_result", Misbehave::DropReply);
    }
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it is settled", |seen| seen.counters.superseded == 1).await;
    assert!(accepted(&world.hub, &job_id));
    assert_eq!(world.hub.calls_of("submit_job_result").len(), 4);
    end(handle).await;
    let mut outcomes = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let RunnerEvent::JobFinished(summary) = event {
            outcomes.push(summary.outcome);
        }
    }
    assert_eq!(
        outcomes,
        [Outcome::Superseded {
            after_lost_reply: true
        }]
    );
}

#[tokio::test]
async fn a_result_that_the_schema_refuses_keeps_its_verdict() {
    let world = World::new().await;
    let handle = world.start(case(|job, _| async move {
        let mut result = pass(&job);
        result.trace = vec![TraceEvent::error(1.0, "refused by the schema")];
        Ok(result)
    }));
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    let result = world.hub.lease(&job_id).unwrap().result.unwrap();
    assert_eq!(result["scores"][0]["pass"], true);
    let text = result["trace"].to_string();
    assert!(text.contains("3 trace events left out"), "{text}");
    end(handle).await;
}

#[tokio::test]
async fn malformed_job_fails_with_its_path() {
    let world = World::new().await;
    let handle = world.start(passing());
    let mut broken = job("c1");
    broken["evalCase"]["graders"][0] = serde_json::json!({"config": {}});
    let job_id = world.hub.enqueue(broken);
    let skewed = {
        let mut skewed = job("c2");
        skewed["evalCase"]["env"]["kind"] = serde_json::json!("hologram");
        world.hub.enqueue(skewed)
    };
    let good = world.hub.enqueue(job("c3"));
    world
        .hub
        .until("the good one is in", |hub| accepted(hub, &good))
        .await;
    let failure = world.hub.lease(&job_id).unwrap().failure.unwrap();
    assert!(
        failure.starts_with("malformed job: evalCase.graders[0].id"),
        "{failure}"
    );
    assert!(!failure.contains("update the runner"), "{failure}");
    let failure = world.hub.lease(&skewed).unwrap().failure.unwrap();
    assert!(
        failure.contains("evalCase.env.kind") && failure.contains("update the runner"),
        "{failure}"
    );
    end(handle).await;
}

#[tokio::test]
async fn a_panic_in_the_case_is_a_failed_result_not_a_lost_job() {
    let world = World::new().await;
    let handle = world.start(case(|job, _| async move {
        assert!(job.eval_case.id.as_str() != "c1", "the case blows up");
        Ok(pass(&job))
    }));
    let first = world.hub.enqueue(job("c1"));
    let second = world.hub.enqueue(job("c2"));
    world
        .hub
        .until("both are in", |hub| {
            accepted(hub, &first) && accepted(hub, &second)
        })
        .await;
    let result = world.hub.lease(&first).unwrap().result.unwrap();
    assert_eq!(result["failure"]["code"], "INTERNAL");
    assert_eq!(result["scores"][0]["status"], "unmeasured");
    end(handle).await;
}

#[tokio::test]
async fn a_hub_that_is_down_for_a_while_leaves_the_job_unharmed() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let handle = world.start_as(
        case(move |job, context| {
            let wait = Arc::clone(&wait);
            async move {
                context.progress.log("before");
                wait.notified().await;
                context.progress.log("after");
                Ok(pass(&job))
            }
        }),
        |config| config.heartbeat_ms = Some(20),
    );
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    for _ in 0..4 {
        world.hub.arm("heartbeat_job", Misbehave::Status(503));
        world.hub.arm("submit_job_result", Misbehave::Status(503));
    }
    until(&handle, "the outage shows", |seen| {
        matches!(
            &seen.state,
            RunnerState::Offline {
                cause: OfflineCause::Http,
                ..
            }
        )
    })
    .await;
    until(&handle, "it heals", |seen| seen.state == RunnerState::Running).await;
    go.notify_one();
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    let log = world.hub.lease(&job_id).unwrap().log;
    assert_eq!(
        log.iter()
            .filter(|line| *line == "before" || *line == "after")
            .count(),
        2
    );
    end(handle).await;
}
