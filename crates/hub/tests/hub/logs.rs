//! Logs, read afterwards and live.

use everdict_contracts::{RunLogs, RunStatus};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::kit::{PATIENCE, Runner, World};

/// Reads events of a live log one by one.
pub struct Events {
    response: Response,
    buffer: String,
}

impl Events {
    pub async fn open(world: &World, run: &str, last: Option<&str>) -> Self {
        let client = reqwest::Client::new();
        let mut request = client
            .get(world.url(&format!("/runs/{run}/logs?follow=1")))
            .bearer_auth(&world.key);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            response,
            buffer: String::new(),
        }
    }

    /// The next event as name, id and data; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<(String, String, Value)> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let frame: String = self.buffer.drain(..end + 2).collect();
                let field = |name: &str| {
                    let line = frame.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().to_owned()
                };
                if !frame.starts_with(':') {
                    let data = serde_json::from_str(&field("data: ")).unwrap();
                    return Some((field("event: "), field("id: "), data));
                }
                continue;
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await.unwrap().unwrap()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub async fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.len() < count {
            let (event, id, data) = self.next().await.unwrap();
            if event == "log" {
                assert_eq!(id, data["seq"].to_string());
                lines.push(data["line"].as_str().unwrap().to_owned());
            }
        }
        lines
    }
}

async fn running(world: &World) -> (Runner, String) {
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    runner.lease(0).await;
    (runner, run)
}

#[tokio::test]
async fn a_log_is_followed_live_and_ends_with_the_run() {
    let world = World::start().await;
    let runner = world.runner().await;
    let run = world.submit(&runner.target()).await;
    let mut events = Events::open(&world, &run, None).await;
    assert_eq!(
        events.next().await.unwrap(),
        ("status".into(), String::new(), json!({"status": "queued"}))
    );
    runner.lease(0).await;
    assert_eq!(events.next().await.unwrap().2, json!({"status": "running"}));
    for line in ["one", "two\nlines"] {
        runner.log(&run, 1, line).await;
        assert_eq!(events.lines(1).await, [line]);
    }
    runner.submit(&run, 1).await;
    assert_eq!(
        events.next().await.unwrap(),
        ("end".into(), String::new(), json!({"status": "succeeded"}))
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_reader_that_comes_back_gets_what_it_missed_and_nothing_twice() {
    let world = World::start().await;
    let (runner, run) = running(&world).await;
    for number in 1..=3 {
        runner.log(&run, 1, &format!("line {number}")).await;
    }
    let mut events = Events::open(&world, &run, None).await;
    assert_eq!(events.lines(2).await, ["line 1", "line 2"]);
    drop(events);
    runner.log(&run, 1, "line 4").await;
    let mut events = Events::open(&world, &run, Some("2")).await;
    assert_eq!(events.lines(2).await, ["line 3", "line 4"]);
}

#[tokio::test]
async fn lines_pushed_at_the_same_time_all_arrive_in_order_of_their_numbers() {
    let world = World::start().await;
    let (runner, run) = running(&world).await;
    let mut events = Events::open(&world, &run, None).await;
    let push = |number: usize| {
        let (runner, run) = (&runner, &run);
        async move { runner.log(run, 1, &format!("{number}")).await }
    };
    for _ in 0..10 {
        tokio::join!(push(1), push(2), push(3), push(4), push(5));
    }
    assert_eq!(events.lines(50).await.len(), 50);
    let (_, log) = world.http().get(&format!("/runs/{run}/logs")).await;
    let seqs: Vec<_> = log["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_finished_log_is_a_document_or_a_stream_that_ends() {
    let world = World::start().await;
    let (runner, run) = running(&world).await;
    runner.log(&run, 1, "only").await;
    runner.submit(&run, 1).await;
    let (status, log) = world.http().get(&format!("/runs/{run}/logs")).await;
    assert_eq!(status, StatusCode::OK);
    let log: RunLogs = everdict_contracts::decode(log).unwrap();
    assert_eq!(
        (log.status, log.found, log.text.as_str(), log.last),
        (RunStatus::Succeeded, true, "only", Some(1))
    );
    let lines = log.lines.unwrap();
    assert_eq!(
        (lines.len(), lines[0].seq, lines[0].line.as_str()),
        (1, 1, "only")
    );
    let (_, rest) = world.http().get(&format!("/runs/{run}/logs?after=1")).await;
    let rest: RunLogs = everdict_contracts::decode(rest).unwrap();
    assert_eq!((rest.found, rest.text.as_str(), rest.last), (false, "", Some(1)));
    let mut events = Events::open(&world, &run, None).await;
    assert_eq!(events.next().await.unwrap().2, json!({"status": "succeeded"}));
    assert_eq!(events.lines(1).await, ["only"]);
    assert_eq!(events.next().await.unwrap().0, "end");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_log_beyond_its_share_ends_with_a_line_that_says_so() {
    let world = World::with(|config| config.log_cap = 10).await;
    let (runner, run) = running(&world).await;
    assert_eq!(runner.log(&run, 1, "12345").await["durable"], true);
    for _ in 0..3 {
        let pushed = runner.log(&run, 1, "123456").await;
        assert_eq!((&pushed["ok"], &pushed["durable"]), (&json!(true), &json!(false)));
    }
    let (_, log) = world.http().get(&format!("/runs/{run}/logs")).await;
    assert_eq!(log["text"], "12345\n[the log ends here: it reached 10 bytes]");
}

#[tokio::test]
async fn evidence_can_be_read_while_the_run_goes_on() {
    let world = World::start().await;
    let (runner, run) = running(&world).await;
    let events = json!([{"t": 0, "kind": "message", "role": "user", "text": "hi"}]);
    let args = json!({"jobId": run, "leaseEpoch": 1, "events": events});
    runner.mcp.call("report_case_trace", args).await;
    let args = json!({"jobId": run, "leaseEpoch": 1, "frame": "aGk="});
    runner.mcp.call("report_case_screen", args).await;
    let (_, seen) = world.http().get(&format!("/runs/{run}/events")).await;
    assert_eq!(
        (&seen["events"][0]["kind"], &seen["events"][0]["body"]),
        (&json!("trace"), &events)
    );
    let (_, screen) = world.http().get(&format!("/runs/{run}/screen")).await;
    assert_eq!(
        (&screen["found"], &screen["frame"]),
        (&json!(true), &json!("aGk="))
    );
}
