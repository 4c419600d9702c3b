//! What `docs/hub.md` says about backup and restore, done.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use everdict_store::{LogRow, NewRun, Outcome, Store, Write, backup};

fn run(id: &str) -> NewRun {
    NewRun {
        id: id.into(),
        workspace: "acme".into(),
        submitted_by: "ann".into(),
        harness_id: "echo".into(),
        harness_version: "1".into(),
        case_id: "c".into(),
        runtime: "self".into(),
        priority: "batch".into(),
        fair_group: "g".into(),
        case_spec: "{\"text\":\"it's ünïcode \\\\ $1\"}".into(),
        job: "{}".into(),
        owner: Some("ann".into()),
        runner: None,
        required_caps: vec![],
        note: None,
        batch: None,
        batch_label: None,
        created_at: 1,
    }
}

async fn fill(store: &Store) {
    store.write(Write::InsertRun(Box::new(run("j1")))).await.unwrap();
    let lines = vec![LogRow {
        seq: 1,
        at: 1,
        line: "tab\there".into(),
    }];
    let run = "j1".to_owned();
    store.write(Write::AppendLogs { run, lines }).await.unwrap();
}

async fn compare(before: &Store, after: &Store) {
    assert_eq!(before.run("j1").await.unwrap(), after.run("j1").await.unwrap());
    assert_eq!(
        before.logs("j1", 0, 9).await.unwrap(),
        after.logs("j1", 0, 9).await.unwrap()
    );
    // It is a database to go on with.
    let more = Write::InsertRun(Box::new(run("j2")));
    assert_eq!(after.write(more).await.unwrap(), Outcome::Applied);
}

#[tokio::test]
async fn a_sqlite_hub_is_backed_up_while_it_runs_and_goes_on_from_there() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(folder.path()).await.unwrap();
    fill(&store).await;
    let file = other.path().join("hub.db");
    backup(folder.path(), &file).await.unwrap();
    // A second one must not overwrite the first.
    assert!(backup(folder.path(), &file).await.is_err());
    let restored = Store::open(other.path()).await.unwrap();
    compare(&store, &restored).await;
    assert!(backup(&other.path().join("nowhere"), &file).await.is_err());
}

#[cfg(all(unix, feature = "postgres"))]
#[tokio::test]
async fn a_postgresql_database_is_dumped_while_a_hub_runs_and_goes_on_elsewhere() {
    use everdict_store::{Claim, Seat};
    use std::time::Duration;

    let Some(server) = everdict_testkit::Postgres::start_or_skip("backup of PostgreSQL") else {
        return;
    };
    let store = Store::connect(&server.url()).await.unwrap();
    fill(&store).await;
    let seat = || {
        [Seat {
            runner: "r".into(),
            caps: None,
        }]
    };
    let ttl = Duration::from_secs(60);
    assert_eq!(store.claim("ann", &seat(), 2, ttl).await.unwrap().len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hub.sql");
    let ran = |name: &str, args: &[&std::ffi::OsStr]| {
        let output = server.program(name).args(args).output().unwrap();
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let text = |text: &'static str| std::ffi::OsStr::new(text);
    ran(
        "pg_dump",
        &[
            text("--format=plain"),
            text("--no-owner"),
            text("--file"),
            file.as_os_str(),
            text("postgres"),
        ],
    );
    ran("createdb", &[text("restored")]);
    ran(
        "psql",
        &[
            text("--set"),
            text("ON_ERROR_STOP=1"),
            text("--quiet"),
            text("--single-transaction"),
            text("--file"),
            file.as_os_str(),
            text("restored"),
        ],
    );
    let restored = Store::connect(&server.url_of("restored")).await.unwrap();
    compare(&store, &restored).await;
    // The lease of before holds, and the queue goes on behind it.
    let claims = restored.claim("ann", &seat(), 3, ttl).await.unwrap();
    assert!(
        matches!(&claims[..], [Claim::Job { run, .. }] if run == "j2"),
        "{claims:?}"
    );
}
