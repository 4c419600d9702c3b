//! What the loop promises about jobs: leased, run, logged, side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{World, accepted, case, end, endless, job, pass, passing, until};
use everdict_contracts::{Fault, TraceEvent};
use everdict_runner_core::attempt::{Form, Outcome};
use everdict_runner_core::{RunnerEvent, RunnerState};
use tokio::sync::Notify;

#[tokio::test]
async fn a_leased_job_is_run_logged_and_submitted() {
    let world = World::new().await;
    let handle = world.start(case(|job, context| async move {
        context.progress.log("working");
        Ok(pass(&job))
    }));
    let mut events = handle.events();
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;

    let lease = world.hub.lease(&job_id).unwrap();
    let result = lease.result.unwrap();
    assert_eq!(result["caseId"], "c1");
    let trace = result["trace"].as_array().unwrap();
    assert_eq!(trace.first().unwrap()["event"], "leased");
    assert_eq!(trace.first().unwrap()["node"], "testbox");
    assert_eq!(trace.last().unwrap()["event"], "finished");
    assert_eq!(
        lease.log,
        [
            "▶ Started: running the case on this self-hosted runner",
            "working",
            "✓ Completed: 1 of 1 verdicts passed",
        ]
    );

    let poll = &world.hub.calls_of("lease_job")[0].args;
    assert_eq!(poll["wait_ms"], 25_000);
    assert_eq!(poll["protocol"], 2);
    assert_eq!(poll["version"], "0.1.0");
    assert_eq!(poll["statusLevel"], "info");
    let beat = &world.hub.calls_of("heartbeat_job")[0].args;
    assert_eq!(beat["jobId"], job_id);
    assert_eq!(beat["leaseEpoch"], 1);
    assert_eq!(beat["status"], "running: case c1");

    until(&handle, "the job is counted", |seen| seen.counters.accepted == 1).await;
    end(handle).await;
    let mut kinds = Vec::new();
    while let Ok(event) = events.try_recv() {
        kinds.push(match event {
            RunnerEvent::JobStarted(_) => "started",
            RunnerEvent::LogLine { .. } => "line",
            RunnerEvent::JobFinished(summary) => {
                assert_eq!(summary.outcome, Outcome::Accepted(Form::Result));
                "finished"
            }
        });
    }
    assert_eq!(kinds, ["started", "line", "line", "line", "finished"]);
}

#[tokio::test]
async fn the_next_poll_follows_at_once_and_slots_run_side_by_side() {
    let world = World::new().await;
    let together = Arc::new(tokio::sync::Barrier::new(4));
    let handle = world.start_as(
        case(move |job, _| {
            let together = Arc::clone(&together);
            async move {
                together.wait().await;
                Ok(pass(&job))
            }
        }),
        |config| config.max_concurrent = 4,
    );
    let jobs: Vec<_> = (0..12)
        .map(|n| world.hub.enqueue(job(&format!("c{n}"))))
        .collect();
    world
        .hub
        .until("all results are in", |hub| {
            jobs.iter().all(|id| accepted(hub, id))
        })
        .await;
    assert_eq!(world.hub.sessions_opened_and_deleted(), (1, 0));
    end(handle).await;
    assert_eq!(world.hub.sessions_opened_and_deleted(), (1, 1));
}

#[tokio::test]
async fn status_over_200_is_clipped_and_the_next_lease_goes_on() {
    let world = World::new().await;
    let handle = world.start(case(|job, _| async move {
        if job.eval_case.id.as_str() == "c1" {
            return Err(Fault::bad_request("ü😀".repeat(300)));
        }
        Ok(pass(&job))
    }));
    let first = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the failure is in", |hub| accepted(hub, &first))
        .await;
    let second = world.hub.enqueue(job("c2"));
    world
        .hub
        .until("the next result is in", |hub| accepted(hub, &second))
        .await;
    let statuses: Vec<String> = world
        .hub
        .calls_of("lease_job")
        .iter()
        .map(|call| call.args["status"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        statuses.iter().all(|status| status.encode_utf16().count() <= 200),
        "{statuses:?}"
    );
    assert!(
        statuses
            .iter()
            .any(|status| status.starts_with("last job failed [config]")),
        "{statuses:?}"
    );
    end(handle).await;
}

#[tokio::test]
async fn long_poll_does_not_block_heartbeats() {
    let world = World::new().await;
    let handle = world.start_as(endless(), |config| {
        config.max_concurrent = 2;
        config.heartbeat_ms = Some(20);
    });
    world.hub.enqueue(job("c1"));
    until(&handle, "it runs", |seen| seen.state == RunnerState::Running).await;
    world
        .hub
        .until("the other slot waits", |hub| hub.waiting_polls() == 1)
        .await;
    let polls = world.hub.calls_of("lease_job").len();
    let beats = world.hub.calls_of("heartbeat_job").len();
    world
        .hub
        .until("five more beats", |hub| {
            hub.calls_of("heartbeat_job").len() >= beats + 5
        })
        .await;
    assert_eq!(world.hub.calls_of("lease_job").len(), polls);
    assert_eq!(world.hub.waiting_polls(), 1);
    handle.cancel();
    end(handle).await;
}

#[tokio::test]
async fn lost_session_is_replaced_once_and_the_call_repeated() {
    let world = World::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let handle = world.start_as(
        case(move |job, _| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(pass(&job)) }
        }),
        |config| config.max_concurrent = 3,
    );
    world
        .hub
        .until("the slots wait", |hub| hub.waiting_polls() == 3)
        .await;
    world.hub.lose_sessions();
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    assert_eq!(world.hub.sessions_opened_and_deleted().0, 2);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(world.hub.lease(&job_id).unwrap().epoch, 1);
    end(handle).await;
}

#[tokio::test]
async fn log_lines_keep_their_order_in_few_calls() {
    let world = World::new().await;
    let handle = world.start(case(|job, context| async move {
        for n in 0..2_000 {
            context.progress.log(&format!("line {n}"));
        }
        Ok(pass(&job))
    }));
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    let log = world.hub.lease(&job_id).unwrap().log;
    let expected: Vec<String> = (0..2_000).map(|n| format!("line {n}")).collect();
    assert_eq!(log[1..2_001], expected);
    assert!(world.hub.calls_of("report_case_log").len() <= 10);
    end(handle).await;
}

#[tokio::test]
async fn a_job_without_a_run_pushes_no_evidence() {
    let world = World::new().await;
    let handle = world.start(passing());
    let mut bare = job("c1");
    bare.as_object_mut().unwrap().remove("runId");
    let job_id = world.hub.enqueue(bare);
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    assert!(world.hub.calls_of("report_case_log").is_empty());
    end(handle).await;
}

#[tokio::test]
async fn live_trace_travels_in_batches_the_hub_takes() {
    let world = World::new().await;
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let handle = world.start(case(move |job, context| {
        let wait = Arc::clone(&wait);
        async move {
            let events = (0..1_200).map(|n| TraceEvent::error(f64::from(n), "x")).collect();
            context.progress.trace(events);
            wait.notified().await;
            context
                .progress
                .trace(vec![TraceEvent::error(1_200.0, "the last")]);
            Ok(pass(&job))
        }
    }));
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("three batches", |hub| {
            hub.calls_of("report_case_trace").len() == 3
        })
        .await;
    let sizes: Vec<usize> = world
        .hub
        .calls_of("report_case_trace")
        .iter()
        .map(|call| call.args["events"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [500, 500, 200]);
    go.notify_one();
    // What comes at the very end of a job that was shown live is shown too, before the report.
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    assert_eq!(world.hub.calls_of("report_case_trace").len(), 4);
    end(handle).await;
}

#[tokio::test]
async fn requests_carry_the_fields_of_the_protocol_and_no_others() {
    let world = World::new().await;
    let handle = world.start(passing());
    let job_id = world.hub.enqueue(job("c1"));
    world
        .hub
        .until("the result is in", |hub| accepted(hub, &job_id))
        .await;
    world.hub.enqueue(serde_json::json!({"not": "a job"}));
    world
        .hub
        .until("the other is failed", |hub| hub.calls_of("fail_job").len() == 1)
        .await;
    end(handle).await;
    let keys = |tool: &str| {
        let args = world.hub.calls_of(tool)[0].args.clone();
        args.as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        keys("lease_job"),
        "capabilities os protocol status statusLevel version wait_ms"
    );
    assert_eq!(
        keys("heartbeat_job"),
        "capabilities jobId leaseEpoch status statusLevel"
    );
    assert_eq!(keys("report_case_log"), "jobId leaseEpoch line");
    assert_eq!(keys("submit_job_result"), "jobId leaseEpoch result");
    assert_eq!(keys("fail_job"), "jobId leaseEpoch message");
    assert!(
        world
            .hub
            .calls()
            .iter()
            .all(|call| call.params.get("_meta").is_none())
    );
}
