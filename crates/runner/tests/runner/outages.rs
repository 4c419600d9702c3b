//! A hub that is away, or refuses a part, costs neither the log nor the result.

use std::sync::Arc;
use std::time::Duration;

use crate::world::{World, accepted, case, end, job, pass, until};
use everdict_contracts::TraceEvent;
use everdict_runner_core::RunnerState;
use everdict_testkit::{Fault as Misbehave, ScriptedHub};
use tokio::sync::Notify;

/// Four minutes of a thousand lines a second.
const LINES: usize = 240_000;

fn line(number: usize) -> String {
    format!("line {number} of a chatty agent that has something to say")
}

/// The numbered lines that the hub has, in its order.
fn numbers(hub: &ScriptedHub, job_id: &str) -> Vec<usize> {
    let log = hub.lease(job_id).map(|lease| lease.log).unwrap_or_default();
    log.iter()
        .filter_map(|line| line.strip_prefix("line ")?.split(' ').next()?.parse().ok())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_minutes_of_a_thousand_lines_a_second_without_a_hub_are_all_there_in_order_and_once() {
    let world = World::new().await;
    let (said, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&said), Arc::clone(&go));
    let handle = world.start_as(
        case(move |job, context| {
            let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
            async move {
                context.progress.log("before");
                wait.notified().await;
                for number in 0..LINES {
                    context.progress.log(&line(number));
                    if number % 1_000 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                tell.notify_one();
                wait.notified().await;
                Ok(pass(&job))
            }
        }),
        |config| config.heartbeat_ms = Some(50),
    );
    let job_id = world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    world.hub.outage(Some(503));
    go.notify_one();
    tokio::time::timeout(Duration::from_secs(60), said.notified())
        .await
        .expect("a hub that is away holds the job up");
    let missed = world.hub.missed();
    world
        .hub
        .until("it is tried in vain", |hub| hub.missed() > missed + 2)
        .await;
    assert_eq!(numbers(&world.hub, &job_id), Vec::<usize>::new());
    world.hub.outage(None);
    // The job ends in the moment of the return: the log goes first, and the result is not held up for long.
    go.notify_one();
    let back = tokio::time::Instant::now();
    // Not by a look at the lease, which is a copy of the whole log.
    while handle.snapshot().borrow().counters.accepted == 0 {
        assert!(back.elapsed() < Duration::from_secs(30), "the result is late");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(accepted(&world.hub, &job_id));
    let got = numbers(&world.hub, &job_id);
    assert_eq!(got.len(), LINES, "lines are missing or there twice");
    assert!(got.iter().copied().eq(0..LINES), "out of order");
    end(handle).await;
}

#[tokio::test]
async fn a_chunk_that_the_hub_refuses_for_ever_becomes_a_gap_and_the_rest_arrives() {
    // The session repeats a call by itself that had no answer, and takes a refusal for one.
    for (fault, times) in [
        (Misbehave::Status(400), 2),
        (Misbehave::Status(413), 2),
        (
            Misbehave::Refuse("MCP error -32602: Input validation error".to_owned()),
            1,
        ),
    ] {
        let world = World::new().await;
        let go = Arc::new(Notify::new());
        let wait = Arc::clone(&go);
        let handle = world.start(case(move |job, context| {
            let wait = Arc::clone(&wait);
            async move {
                wait.notified().await;
                context.progress.log("the bad one");
                wait.notified().await;
                context.progress.log("the good one");
                Ok(pass(&job))
            }
        }));
        let job_id = world.hub.enqueue(job("c1"));
        let has = |hub: &ScriptedHub, words: &str| {
            hub.lease(&job_id)
                .is_some_and(|lease| lease.log.iter().any(|line| line.contains(words)))
        };
        world
            .hub
            .until("the start is told", |hub| has(hub, "Started"))
            .await;
        for _ in 0..times {
            world.hub.arm("report_case_log", fault.clone());
        }
        go.notify_one();
        world
            .hub
            .until("the gap is told", |hub| has(hub, "left out"))
            .await;
        go.notify_one();
        world
            .hub
            .until("the result is in", |hub| accepted(hub, &job_id))
            .await;
        let log = world.hub.lease(&job_id).unwrap().log;
        assert!(
            log.iter().any(|line| line == "the good one"),
            "{fault:?}: {log:?}"
        );
        assert!(
            log.iter().any(|line| line.contains("refused by the hub")),
            "{fault:?}: {log:?}"
        );
        assert!(
            !log.iter().any(|line| line == "the bad one"),
            "{fault:?}: {log:?}"
        );
        end(handle).await;
    }
}

#[tokio::test]
async fn a_result_with_one_invalid_event_arrives_with_all_the_others() {
    let world = World::new().await;
    let handle = world.start(case(|job, _| async move {
        let mut result = pass(&job);
        result.trace = vec![
            TraceEvent::error(1.0, "before"),
            TraceEvent::error(f64::NAN, "no time"),
            TraceEvent::error(3.0, "after"),
        ];
        Ok(result)
    }));
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    assert_eq!(
        world.hub.calls_of("submit_job_result").len(),
        1,
        "repaired before it is sent"
    );
    let text = world.hub.lease(&job_id).unwrap().result.unwrap()["trace"].to_string();
    for words in ["before", "after", "an event that is not valid was left out"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    end(handle).await;
}

#[tokio::test]
async fn a_result_of_fifty_megabytes_arrives_cut_with_both_sizes_and_the_job_runs_once() {
    let world = World::new().await;
    let handle = world.start(case(|job, _| async move {
        let mut result = pass(&job);
        let text = "z".repeat(500_000);
        result.trace = (0..100)
            .map(|t| TraceEvent::error(f64::from(t), text.clone()))
            .collect();
        Ok(result)
    }));
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    let result = world.hub.lease(&job_id).unwrap().result.unwrap();
    assert_eq!(result["scores"][0]["pass"], true);
    let trace = result["trace"].to_string();
    assert!(trace.contains("result_too_large: 50"), "both sizes are told");
    assert!(trace.contains("the limit is 15728640"));
    assert_eq!(world.hub.lease(&job_id).unwrap().epoch, 1, "the job ran once");
    end(handle).await;
}
