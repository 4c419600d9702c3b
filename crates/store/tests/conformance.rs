//! What every backend of the store must do. A backend joins by one more line at the bottom that names
//! a function which opens an empty store and keeps whatever it needs alive.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use everdict_store::{
    ApiKeyRow, EventRow, HarnessRow, LogRow, NewRun, Outcome, RunFinish, RunStatus, RunnerRow, RunnerTouch,
    Store, Write,
};

fn new_run(id: &str) -> NewRun {
    NewRun {
        id: id.into(),
        workspace: "acme".into(),
        submitted_by: "u-1".into(),
        harness_id: "echo".into(),
        harness_version: "1".into(),
        case_id: "case-1".into(),
        runtime: "self".into(),
        priority: "interactive".into(),
        fair_group: "u:u-1".into(),
        case_spec: r#"{"id":"case-1"}"#.into(),
        job: r#"{"evalCase":{"id":"case-1"}}"#.into(),
        owner: Some("u-1".into()),
        runner: None,
        required_caps: vec!["git".into(), "docker".into()],
        note: None,
        batch: None,
        batch_label: None,
        created_at: 1_000,
    }
}

fn lease(id: &str, epoch: u64, runner: &str) -> Write {
    Write::LeaseRun {
        id: id.into(),
        epoch,
        runner: runner.into(),
        at: 2_000,
    }
}

fn finish(id: &str, epoch: Option<u64>) -> Write {
    Write::FinishRun(Box::new(RunFinish {
        id: id.into(),
        status: RunStatus::Succeeded,
        lease_epoch: epoch,
        holder: None,
        only_waiting: false,
        result: Some("{}".into()),
        usage: None,
        error: None,
        verdict: Some("pass".into()),
        score: Some("1".into()),
        at: 3_000,
    }))
}

fn cancel(id: &str) -> Write {
    Write::FinishRun(Box::new(RunFinish {
        id: id.into(),
        status: RunStatus::Failed,
        lease_epoch: None,
        holder: None,
        only_waiting: false,
        result: None,
        usage: None,
        error: Some(("CANCELLED".into(), "stopped".into())),
        verdict: None,
        score: None,
        at: 4_000,
    }))
}

fn runner(id: &str) -> RunnerRow {
    RunnerRow {
        owner: "u-1".into(),
        id: id.into(),
        workspace: "acme".into(),
        label: "lab".into(),
        os: None,
        capabilities: vec!["git".into()],
        token_hash: format!("hash-of-{id}"),
        paired_at: 1_000,
        last_seen_at: None,
        version: None,
        protocol: None,
        paused: None,
    }
}

async fn insert(store: &Store, id: &str) {
    let outcome = store.write(Write::InsertRun(Box::new(new_run(id)))).await;
    assert_eq!(outcome.unwrap(), Outcome::Applied);
}

async fn outcome(store: &Store, write: Write) -> Outcome {
    store.write(write).await.unwrap()
}

async fn a_run_is_stored_as_submitted(store: Store) {
    insert(&store, "run-1").await;
    let row = store.run("run-1").await.unwrap().unwrap();
    assert_eq!(row.status, RunStatus::Queued);
    assert_eq!((row.lease_epoch, row.requeues), (0, 0));
    assert_eq!(row.case_spec, r#"{"id":"case-1"}"#);
    assert_eq!(
        store.job("run-1").await.unwrap().as_deref(),
        Some(new_run("run-1").job.as_str())
    );
    assert_eq!(store.run("run-2").await.unwrap(), None);
}

async fn a_lease_only_moves_forward(store: Store) {
    insert(&store, "run-1").await;
    assert_eq!(outcome(&store, lease("run-1", 1, "a")).await, Outcome::Applied);
    assert_eq!(outcome(&store, lease("run-1", 1, "b")).await, Outcome::Refused);
    assert_eq!(outcome(&store, lease("run-1", 2, "b")).await, Outcome::Applied);
    let row = store.run("run-1").await.unwrap().unwrap();
    assert_eq!((row.lease_epoch, row.leased_by.as_deref()), (2, Some("b")));
    assert_eq!(row.status, RunStatus::Running);
}

async fn a_requeue_that_comes_late_does_not_undo_the_next_lease(store: Store) {
    insert(&store, "run-1").await;
    outcome(&store, lease("run-1", 1, "a")).await;
    outcome(&store, lease("run-1", 2, "b")).await;
    let requeue = |epoch| Write::RequeueRun {
        id: "run-1".into(),
        epoch,
        requeues: 1,
        at: 5_000,
    };
    assert_eq!(outcome(&store, requeue(1)).await, Outcome::Applied);
    let row = store.run("run-1").await.unwrap().unwrap();
    assert_eq!((row.status, row.requeues), (RunStatus::Running, 1));
    assert_eq!(outcome(&store, requeue(3)).await, Outcome::Refused);
    assert_eq!(outcome(&store, requeue(2)).await, Outcome::Applied);
    let row = store.run("run-1").await.unwrap().unwrap();
    assert_eq!((row.status, row.requeues), (RunStatus::Queued, 1));
    assert_eq!(row.lease_epoch, 2);
}

async fn a_result_is_taken_once_and_only_from_the_named_lease(store: Store) {
    insert(&store, "run-1").await;
    outcome(&store, lease("run-1", 2, "a")).await;
    assert_eq!(outcome(&store, finish("run-1", Some(1))).await, Outcome::Refused);
    assert_eq!(outcome(&store, finish("run-1", Some(2))).await, Outcome::Applied);
    assert_eq!(outcome(&store, finish("run-1", Some(2))).await, Outcome::Refused);
    assert_eq!(outcome(&store, cancel("run-1")).await, Outcome::Refused);
    assert_eq!(outcome(&store, lease("run-1", 3, "a")).await, Outcome::Refused);
    let row = store.run("run-1").await.unwrap().unwrap();
    assert_eq!(row.status, RunStatus::Succeeded);
    assert_eq!(row.result.as_deref(), Some("{}"));
}

async fn a_cancelled_run_refuses_results(store: Store) {
    insert(&store, "run-1").await;
    outcome(&store, lease("run-1", 1, "a")).await;
    assert_eq!(outcome(&store, cancel("run-1")).await, Outcome::Applied);
    assert_eq!(outcome(&store, finish("run-1", Some(1))).await, Outcome::Refused);
    let row = store.run("run-1").await.unwrap().unwrap();
    assert_eq!(row.error, Some(("CANCELLED".into(), "stopped".into())));
}

async fn open_runs_are_what_a_restarted_hub_needs(store: Store) {
    for id in ["run-1", "run-2", "run-3", "run-4"] {
        insert(&store, id).await;
    }
    outcome(&store, lease("run-2", 1, "a")).await;
    outcome(&store, lease("run-3", 1, "a")).await;
    outcome(&store, cancel("run-3")).await;
    outcome(&store, cancel("run-4")).await;
    let open = store.open_runs(3_999).await.unwrap();
    let seen: Vec<_> = open
        .iter()
        .map(|run| (run.id.as_str(), run.status, run.leased_by.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            ("run-1", RunStatus::Queued, None),
            ("run-2", RunStatus::Running, Some("a")),
            ("run-3", RunStatus::Failed, Some("a")),
        ]
    );
    assert_eq!(open[0].required_caps, ["git", "docker"]);
    assert_eq!(store.open_runs(4_000).await.unwrap().len(), 2);
}

async fn runs_are_paged_newest_first(store: Store) {
    for id in ["run-1", "run-2", "run-3", "run-4", "run-5"] {
        insert(&store, id).await;
    }
    let ids = |page: &everdict_store::RunPage| -> Vec<String> {
        page.runs.iter().map(|run| run.id.clone()).collect()
    };
    let first = store.runs("acme", None, 2).await.unwrap();
    assert_eq!(ids(&first), ["run-5", "run-4"]);
    let second = store.runs("acme", first.next.as_deref(), 2).await.unwrap();
    assert_eq!(ids(&second), ["run-3", "run-2"]);
    let last = store.runs("acme", second.next.as_deref(), 2).await.unwrap();
    assert_eq!((ids(&last), last.next), (vec!["run-1".to_owned()], None));
    assert!(store.runs("other", None, 2).await.unwrap().runs.is_empty());
}

async fn a_batch_is_counted_by_what_its_runs_came_to(store: Store) {
    for (id, batch, label) in [
        ("run-1", Some("b-1"), Some("nightly")),
        ("run-2", Some("b-1"), Some("nightly")),
        ("run-3", Some("b-1"), Some("nightly")),
        ("run-4", None, None),
        ("run-5", Some("b-2"), None),
    ] {
        let run = NewRun {
            batch: batch.map(str::to_owned),
            batch_label: label.map(str::to_owned),
            ..new_run(id)
        };
        assert_eq!(
            outcome(&store, Write::InsertRun(Box::new(run))).await,
            Outcome::Applied
        );
    }
    outcome(&store, lease("run-1", 1, "a")).await;
    outcome(&store, finish("run-1", Some(1))).await;
    outcome(&store, cancel("run-2")).await;
    let batches = store.batches("acme", None, 10).await.unwrap();
    let ids: Vec<&str> = batches.iter().map(|batch| batch.id.as_str()).collect();
    assert_eq!(
        ids,
        ["b-2", "b-1"],
        "the latest first, and runs alone are no batch"
    );
    let nightly = &batches[1];
    assert_eq!(
        (nightly.label.as_deref(), nightly.created_at),
        (Some("nightly"), 1_000)
    );
    assert_eq!((nightly.total, nightly.done), (3, 2));
    assert_eq!(nightly.verdicts[0], ("pass".to_owned(), 1));
    assert_eq!(nightly.verdicts.iter().map(|(_, count)| count).sum::<u64>(), 1);
    assert_eq!(store.batches("acme", Some("b-2"), 10).await.unwrap().len(), 1);
    assert!(store.batches("other", None, 10).await.unwrap().is_empty());
    assert_eq!(store.open_in_batch("acme", "b-1").await.unwrap(), ["run-3"]);
    let page = store.batch_runs("acme", "b-1", None, 2).await.unwrap();
    assert_eq!(page.runs[1].id, "run-2");
    let rest = store
        .batch_runs("acme", "b-1", page.next.as_deref(), 2)
        .await
        .unwrap();
    assert_eq!((rest.runs[0].verdict.as_deref(), rest.next), (Some("pass"), None));
}

async fn log_lines_are_read_from_any_point(store: Store) {
    insert(&store, "run-1").await;
    let line = |seq: u64| LogRow {
        seq,
        at: 1,
        line: format!("line {seq}"),
    };
    let append = |lines| Write::AppendLogs {
        run: "run-1".into(),
        lines,
    };
    outcome(&store, append(vec![line(1), line(2)])).await;
    assert_eq!(outcome(&store, append(vec![line(2)])).await, Outcome::Refused);
    outcome(&store, append(vec![line(3)])).await;
    assert_eq!(store.logs("run-1", 1, 10).await.unwrap(), [line(2), line(3)]);
    assert_eq!(store.logs("run-1", 0, 1).await.unwrap(), [line(1)]);
    assert_eq!(store.log_extent("run-1").await.unwrap(), (3, 18));
    assert_eq!(store.log_extent("run-2").await.unwrap(), (0, 0));
}

async fn evidence_is_kept_in_order(store: Store) {
    insert(&store, "run-1").await;
    let event = EventRow {
        seq: 1,
        at: 1,
        kind: "trace".into(),
        body: "[]".into(),
    };
    let write = Write::AppendEvent {
        run: "run-1".into(),
        event: event.clone(),
    };
    assert_eq!(outcome(&store, write).await, Outcome::Applied);
    assert_eq!(store.events("run-1", 0, 10).await.unwrap(), [event]);
    assert_eq!(store.event_extent("run-1").await.unwrap(), (1, 2));
}

async fn a_bad_write_fails_alone(store: Store) {
    let orphan = Write::AppendLogs {
        run: "no-such-run".into(),
        lines: vec![LogRow {
            seq: 1,
            at: 1,
            line: "x".into(),
        }],
    };
    let (bad, good) = tokio::join!(
        store.write(orphan),
        store.write(Write::InsertRun(Box::new(new_run("run-1")))),
    );
    bad.unwrap_err();
    assert_eq!(good.unwrap(), Outcome::Applied);
    assert!(store.run("run-1").await.unwrap().is_some());
}

async fn a_harness_version_never_changes(store: Store) {
    let row = |spec: &str| HarnessRow {
        workspace: "acme".into(),
        id: "echo".into(),
        version: "1".into(),
        spec: spec.into(),
        created_by: "u-1".into(),
        created_at: 1,
    };
    assert_eq!(
        outcome(&store, Write::InsertHarness(row("a"))).await,
        Outcome::Applied
    );
    assert_eq!(
        outcome(&store, Write::InsertHarness(row("b"))).await,
        Outcome::Refused
    );
    let found = store.harness("acme", "echo", "1").await.unwrap().unwrap();
    assert_eq!(found.spec, "a");
    assert_eq!(store.harnesses("acme").await.unwrap().len(), 1);
    assert_eq!(store.harness("other", "echo", "1").await.unwrap(), None);
}

async fn a_runner_keeps_what_a_touch_leaves_out(store: Store) {
    assert_eq!(
        outcome(&store, Write::InsertRunner(runner("r-1"))).await,
        Outcome::Applied
    );
    let mut clash = runner("r-2");
    clash.token_hash = runner("r-1").token_hash;
    assert_eq!(
        outcome(&store, Write::InsertRunner(clash)).await,
        Outcome::Refused
    );
    let touch = RunnerTouch {
        id: "r-1".into(),
        last_seen_at: 9,
        version: Some(("1.2".into(), 2)),
        ..RunnerTouch::default()
    };
    outcome(&store, Write::TouchRunner(touch)).await;
    let expected = RunnerRow {
        last_seen_at: Some(9),
        version: Some("1.2".into()),
        protocol: Some(2),
        ..runner("r-1")
    };
    assert_eq!(store.runners().await.unwrap(), [expected]);
}

async fn only_the_owner_removes_a_runner(store: Store) {
    outcome(&store, Write::InsertRunner(runner("r-1"))).await;
    let delete = |owner: &str| Write::DeleteRunner {
        owner: owner.into(),
        id: "r-1".into(),
        at: 5,
    };
    assert_eq!(outcome(&store, delete("u-2")).await, Outcome::Refused);
    assert!(store.removed_runners().await.unwrap().is_empty());
    assert_eq!(outcome(&store, delete("u-1")).await, Outcome::Applied);
    assert!(store.runners().await.unwrap().is_empty());
    assert_eq!(store.removed_runners().await.unwrap(), ["hash-of-r-1"]);
    assert_eq!(outcome(&store, delete("u-1")).await, Outcome::Refused);
}

async fn a_pause_is_kept_until_it_is_ended(store: Store) {
    outcome(&store, Write::InsertRunner(runner("r-1"))).await;
    let pause = |owner: &str, reason: Option<&str>| Write::PauseRunner {
        owner: owner.into(),
        id: "r-1".into(),
        reason: reason.map(str::to_owned),
    };
    let why = async || store.runners().await.unwrap()[0].paused.clone();
    assert_eq!(outcome(&store, pause("u-2", Some("x"))).await, Outcome::Refused);
    assert_eq!(why().await, None);
    let paused = outcome(&store, pause("u-1", Some("maintenance"))).await;
    assert_eq!(paused, Outcome::Applied);
    assert_eq!(why().await.as_deref(), Some("maintenance"));
    assert_eq!(outcome(&store, pause("u-1", None)).await, Outcome::Applied);
    assert_eq!(why().await, None);
}

async fn keys_and_secrets_are_found_by_name(store: Store) {
    let key = ApiKeyRow {
        hash: "h".into(),
        workspace: "acme".into(),
        role: "admin".into(),
        subject: "key:acme".into(),
        label: "first".into(),
        created_at: 1,
        last_used_at: None,
        expires_at: None,
    };
    outcome(&store, Write::InsertApiKey(key.clone())).await;
    assert_eq!(store.api_key("h").await.unwrap(), Some(key));
    let touch = Write::TouchApiKey {
        hash: "h".into(),
        at: 5,
    };
    outcome(&store, touch).await;
    let keys = store.api_keys("acme").await.unwrap();
    assert_eq!(keys[0].last_used_at, Some(5));
    outcome(&store, Write::DeleteApiKey { hash: "h".into() }).await;
    assert_eq!(store.api_key("h").await.unwrap(), None);
    let secret = |value: &str| Write::InsertSecret {
        name: "s".into(),
        value: value.into(),
    };
    assert_eq!(outcome(&store, secret("a")).await, Outcome::Applied);
    assert_eq!(outcome(&store, secret("b")).await, Outcome::Refused);
    assert_eq!(store.secret("s").await.unwrap().as_deref(), Some("a"));
}

async fn only_keys_whose_time_is_over_are_cleared_away(store: Store) {
    let key = |hash: &str, expires_at| ApiKeyRow {
        hash: hash.into(),
        workspace: "acme".into(),
        role: "viewer".into(),
        subject: "oidc:ann".into(),
        label: String::new(),
        created_at: 1,
        last_used_at: None,
        expires_at,
    };
    for row in [
        key("lasting", None),
        key("over", Some(10)),
        key("short", Some(11)),
    ] {
        outcome(&store, Write::InsertApiKey(row)).await;
    }
    let clear = || Write::DeleteExpiredApiKeys { at: 10 };
    assert_eq!(outcome(&store, clear()).await, Outcome::Applied);
    assert_eq!(outcome(&store, clear()).await, Outcome::Refused);
    let left: Vec<_> = store.api_keys("acme").await.unwrap();
    let left: Vec<_> = left
        .iter()
        .map(|row| (row.hash.as_str(), row.expires_at))
        .collect();
    assert_eq!(left, [("lasting", None), ("short", Some(11))]);
}

async fn texts_keep_every_character(store: Store) {
    insert(&store, "run-1").await;
    let text = "tab\t, quote ', \u{1F600}, \u{1b}[31m, \\x00";
    let lines = vec![
        LogRow {
            seq: 1,
            at: 1,
            line: text.into(),
        },
        LogRow {
            seq: 2,
            at: 1,
            line: "nul \0 here".into(),
        },
    ];
    let run = "run-1".to_owned();
    outcome(&store, Write::AppendLogs { run, lines }).await;
    let rows = store.logs("run-1", 0, 10).await.unwrap();
    assert_eq!(rows[0].line, text);
    // PostgreSQL has no NUL in a text; what stands for it must not swallow the rest of the line.
    assert!(
        rows[1].line.starts_with("nul ") && rows[1].line.ends_with(" here"),
        "{:?}",
        rows[1].line
    );
}

async fn many_writers_lose_nothing(store: Store) {
    insert(&store, "run-1").await;
    let mut writers = tokio::task::JoinSet::new();
    for seq in 1..=500_u64 {
        let store = store.clone();
        writers.spawn(async move {
            let lines = vec![LogRow {
                seq,
                at: 1,
                line: "x".into(),
            }];
            let run = "run-1".to_owned();
            store.write(Write::AppendLogs { run, lines }).await.unwrap()
        });
    }
    while let Some(outcome) = writers.join_next().await {
        assert_eq!(outcome.unwrap(), Outcome::Applied);
    }
    assert_eq!(store.log_extent("run-1").await.unwrap(), (500, 500));
}

macro_rules! conformance {
    ($backend:ident, $open:path, [$($case:ident),* $(,)?]) => {
        mod $backend {
            $(
                #[tokio::test]
                async fn $case() {
                    let Some((store, _keep)) = $open().await else {
                        return;
                    };
                    super::$case(store.clone()).await;
                    store.close().await;
                }
            )*
        }
    };
}

macro_rules! every_backend {
    ($($backend:ident: $open:path),* $(,)?) => {
        $(conformance!($backend, $open, [
            a_run_is_stored_as_submitted,
            a_lease_only_moves_forward,
            a_requeue_that_comes_late_does_not_undo_the_next_lease,
            a_result_is_taken_once_and_only_from_the_named_lease,
            a_cancelled_run_refuses_results,
            open_runs_are_what_a_restarted_hub_needs,
            runs_are_paged_newest_first,
            a_batch_is_counted_by_what_its_runs_came_to,
            log_lines_are_read_from_any_point,
            evidence_is_kept_in_order,
            a_bad_write_fails_alone,
            a_harness_version_never_changes,
            a_runner_keeps_what_a_touch_leaves_out,
            only_the_owner_removes_a_runner,
            a_pause_is_kept_until_it_is_ended,
            keys_and_secrets_are_found_by_name,
            only_keys_whose_time_is_over_are_cleared_away,
            many_writers_lose_nothing,
            texts_keep_every_character,
        ]);)*
    };
}

async fn open_sqlite() -> Option<(Store, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    Some((Store::open(folder.path()).await.unwrap(), folder))
}

every_backend!(sqlite: super::open_sqlite);

#[cfg(all(unix, feature = "postgres"))]
async fn open_postgres() -> Option<(Store, everdict_testkit::Postgres)> {
    let server = everdict_testkit::Postgres::start_or_skip("the store's conformance on PostgreSQL")?;
    Some((Store::connect(&server.url()).await.unwrap(), server))
}

#[cfg(all(unix, feature = "postgres"))]
every_backend!(postgres: super::open_postgres);
