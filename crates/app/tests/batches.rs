//! Files of cases as a window submits them, on the real hub and a real runner; and looking after the machine.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_app::control::{
    AppState, BatchDetail, Control, ControlOptions, FileKind, JobOutcome, Leave, RunState, TokenPlace,
};
use everdict_app::{ContainerOptions, EnvSecrets, Paths, Settings};
use everdict_exec::HostEnv;
use serde_json::{Value, json};

/// Some cases of a fraction of a second each; two busy cores may need far longer.
const DEADLINE: Duration = Duration::from_secs(60);

/// An engine that can't be there, so that no test talks to the machine's own; a port of the test's own.
const SETTINGS: &str =
    "[hub]\nlisten = \"127.0.0.1:0\"\n[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n";

async fn paired(home: &Path) -> Control {
    let paths = Paths::under(home);
    let settings = Settings::parse("settings.toml", SETTINGS).unwrap();
    let mut containers = ContainerOptions::new(&paths, &settings, "test");
    containers.watchdog = None;
    // No session bus: a test must not reach the keyring of whoever runs it.
    let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
    let env = Arc::new(HostEnv::from_pairs([
        ("PATH", path.as_str()),
        ("USER", "josephine"),
    ]));
    let control = Control::start(ControlOptions {
        program: "a test",
        containers,
        secrets: EnvSecrets::from_env(&env),
        env,
        paths,
        settings,
        version: "0.0.0-test".to_owned(),
        tray_host: true,
        autostart: None,
    })
    .unwrap();
    control
        .pair_this_computer("josephine-laptop", TokenPlace::File)
        .await
        .unwrap();
    control
}

fn case(id: &str, expected: &str) -> Value {
    json!({
        "id": id, "env": {"kind": "prompt"}, "task": "say it", "timeoutSec": 60, "expected": expected,
        "graders": [{"id": "answer-match", "config": {"mode": "contains"}}],
    })
}

fn harness(command: &str) -> String {
    json!({"kind": "command", "id": "echo", "version": command.len().to_string(), "command": command})
        .to_string()
}

async fn done(control: &Control, batch: &str) -> BatchDetail {
    let end = Instant::now() + DEADLINE;
    loop {
        let detail = control.batch(batch).await.unwrap();
        if detail.batch.done == detail.batch.total {
            return detail;
        }
        assert!(Instant::now() < end, "the batch did not end: {detail:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_that_nobody_could_run_is_named_by_the_preview_and_refused_by_the_hub() {
    let home = tempfile::tempdir().unwrap();
    let control = paired(home.path()).await;
    let named = json!({"harness": {"id": "echo", "version": "10"}, "case": case("yes", "hello")}).to_string();
    let missing = control.preview_file("named.json", &named).await.unwrap();
    assert_eq!(missing.problems.len(), 1, "{missing:?}");
    assert!(missing.problems[0].message.contains("echo@10 is not registered"));
    let refused = control
        .submit_file(("named.json", &named), None, None, None)
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("echo@10 is not registered in this workspace"),
        "{refused}"
    );
    assert_eq!(control.batches().await.unwrap(), [], "nothing is kept of it");
    let hello = harness("echo hello");
    let seen = control.preview_file("h.json", &hello).await.unwrap();
    assert_eq!(seen.kind, FileKind::Harness);
    control
        .submit_file(("h.json", &hello), None, None, None)
        .await
        .unwrap();
    let known = control.preview_file("named.json", &named).await.unwrap();
    assert_eq!(known.problems, [], "it is registered now");
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_is_previewed_submitted_counted_and_compared() {
    let home = tempfile::tempdir().unwrap();
    let control = paired(home.path()).await;
    let none = control
        .preview_file("bad.jsonl", "{\"id\": 1}\n{oops")
        .await
        .unwrap();
    assert_eq!(none.problems.len(), 2, "{none:?}");
    assert_eq!(control.batches().await.unwrap(), []);

    let file = [case("yes", "hello"), case("no", "goodbye")]
        .map(|case| case.to_string())
        .join("\n");
    let seen = control.preview_file("two.jsonl", &file).await.unwrap();
    assert_eq!(
        (seen.kind, seen.cases.len(), seen.problems.len()),
        (FileKind::Dataset, 2, 0)
    );
    let (hello, goodbye) = (harness("echo hello"), harness("echo goodbye!"));
    for harness in [&hello, &goodbye] {
        let registered = control
            .submit_file(("h.json", harness), None, None, None)
            .await
            .unwrap();
        assert!(registered.runs.is_empty());
    }

    let first = control
        .submit_file(("two.jsonl", &file), Some("echo@10"), None, Some("first"))
        .await
        .unwrap();
    assert_eq!(first.runs.len(), 2);
    let first = done(&control, &first.batch).await;
    assert_eq!(
        (first.batch.label.as_str(), first.batch.passed, first.batch.failed),
        ("first", 1, 1)
    );
    let row = &first.rows[0];
    assert_eq!(
        (row.case_id.as_str(), row.status, row.outcome),
        ("yes", RunState::Ended, Some(JobOutcome::Passed))
    );
    assert_eq!(row.runner.as_deref(), Some("josephine-laptop"));
    assert!(row.started_at.is_some() && row.ended_at.is_some());

    let second = control
        .submit_file(("two.jsonl", &file), Some("echo@13"), None, None)
        .await
        .unwrap();
    let second = done(&control, &second.batch).await;
    assert_eq!(second.batch.label, "two.jsonl");
    let compared = control.compare(&first.batch.id, &second.batch.id).await.unwrap();
    assert_eq!(
        (compared.broken, compared.fixed),
        (vec!["yes".to_owned()], vec!["no".to_owned()])
    );

    let page = control.runs(3, None).await.unwrap();
    assert_eq!(page.runs.len(), 3);
    let rest = control.runs(3, page.next_cursor.as_deref()).await.unwrap();
    assert_eq!((rest.runs.len(), rest.next_cursor), (1, None));
    assert_eq!(control.batches().await.unwrap().len(), 2);
    assert_eq!(control.batch("nope").await.unwrap_err().code(), "input");
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_stopped_runs_nothing_more() {
    let home = tempfile::tempdir().unwrap();
    let control = paired(home.path()).await;
    control.pause(None).await.unwrap();
    let hello = harness("echo hello");
    let seen = control.preview_file("h.json", &hello).await.unwrap();
    assert_eq!(seen.kind, FileKind::Harness);
    control
        .submit_file(("h.json", &hello), None, None, None)
        .await
        .unwrap();
    let file = json!([case("a", "hello"), case("b", "hello")]).to_string();
    let batch = control
        .submit_file(("d.json", &file), Some("echo@10"), None, None)
        .await
        .unwrap()
        .batch;
    control.cancel_batch(&batch).await.unwrap();
    let detail = done(&control, &batch).await;
    assert!(
        detail
            .rows
            .iter()
            .all(|row| row.outcome == Some(JobOutcome::Cancelled)),
        "{detail:#?}"
    );
    assert_eq!(detail.batch.infra, 2);
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_room_is_named_before_it_goes_and_the_report_names_nobody() {
    let home = tempfile::tempdir().unwrap();
    let control = paired(home.path()).await;
    // A runner sweeps once, before its first lease.
    let end = Instant::now() + DEADLINE;
    while control.snapshot().state != AppState::Idle {
        assert!(Instant::now() < end, "not idle: {:#?}", control.snapshot());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Of a process that is gone: no process has this number.
    let stale = Paths::under(home.path()).work_root().join("everdict-gone");
    std::fs::create_dir_all(&stale).unwrap();
    let marker = "pid=4194304\nstarted=1\nboot=\ninstance=\n";
    std::fs::write(stale.join(".everdict-scratch"), marker).unwrap();
    std::fs::write(stale.join("left"), vec![0; 5000]).unwrap();
    let disk = control.disk().await.unwrap();
    let scratch = disk
        .categories
        .iter()
        .find(|category| category.id == "scratch")
        .unwrap();
    assert_eq!(scratch.would_go, [stale.display().to_string()]);
    assert!(disk.free.unwrap() > 0 && scratch.bytes >= 5000);
    let cleaned = control.clean("scratch").await.unwrap();
    assert_eq!(cleaned.removed, [stale.display().to_string()]);
    assert!(cleaned.freed >= 5000 && !stale.exists());
    assert_eq!(control.clean("hub").await.unwrap_err().code(), "nothing_goes");
    assert_eq!(control.clean("..").await.unwrap_err().code(), "category_unknown");

    let checks = control.doctor().await.unwrap();
    assert!(checks.iter().any(|check| check.id == "git"), "{checks:#?}");
    let report = control.report().await.unwrap();
    assert!(
        report.contains("Checks") && !report.contains("josephine"),
        "{report}"
    );
    control.leave(Leave::Now).await;
}
