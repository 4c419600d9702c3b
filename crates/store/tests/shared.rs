//! A PostgreSQL database that several hubs share: starting at once, versions, and what a user is told.
#![cfg(all(unix, feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use everdict_store::{Store, StoreError, Write};
use everdict_testkit::Postgres;

fn server() -> Option<Postgres> {
    Postgres::start_or_skip("the store on PostgreSQL")
}

fn secret(value: &str) -> Write {
    Write::InsertSecret {
        name: "s".into(),
        value: value.into(),
    }
}

fn sql(server: &Postgres, text: &str) {
    let output = server
        .program("psql")
        .args([
            "--dbname",
            "postgres",
            "--set",
            "ON_ERROR_STOP=1",
            "--command",
            text,
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hubs_that_start_at_once_make_one_schema() {
    let Some(server) = server() else { return };
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = server.url();
        starting.spawn(async move { Store::connect(&url).await.unwrap() });
    }
    let stores = starting.join_all().await;
    stores[0].write(secret("one for all")).await.unwrap();
    for store in &stores {
        assert_eq!(store.secret("s").await.unwrap().as_deref(), Some("one for all"));
        store.close().await;
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let Some(server) = server() else { return };
    Store::connect(&server.url()).await.unwrap().close().await;
    sql(&server, "INSERT INTO schema_migrations VALUES (999)");
    let error = Store::connect(&server.url()).await.unwrap_err();
    assert!(matches!(error, StoreError::TooNew { found: 999, .. }), "{error}");
    assert!(error.to_string().contains("upgrade"), "{error}");
}

#[tokio::test]
async fn a_hub_goes_on_while_a_newer_one_adds_to_the_schema() {
    let Some(server) = server() else { return };
    let store = Store::connect(&server.url()).await.unwrap();
    sql(
        &server,
        "INSERT INTO schema_migrations VALUES (999); ALTER TABLE hub_secrets ADD COLUMN note TEXT",
    );
    store.write(secret("still here")).await.unwrap();
    assert_eq!(store.secret("s").await.unwrap().as_deref(), Some("still here"));
}

#[tokio::test]
async fn an_address_that_is_none_and_a_server_that_is_away_are_told_without_the_password() {
    let error = Store::connect("mysql://u:hunter2@h/d").await.unwrap_err();
    assert!(matches!(error, StoreError::BadAddress { .. }), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let url = format!(
        "postgres://ann:hunter2@localhost/db?host={}",
        folder.path().display()
    );
    let error = Store::connect(&url).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(matches!(error, StoreError::Unreachable { .. }), "{text}");
    assert!(text.contains("db of ann") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_store_outlives_a_restart_of_its_connections() {
    let Some(server) = server() else { return };
    let store = Store::connect(&server.url()).await.unwrap();
    store.write(secret("before")).await.unwrap();
    sql(
        &server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'everdict-hub'",
    );
    // What was under way on a cut connection may fail; the next goes over a new one.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while store.secret("s").await.is_err() || store.write(secret("again")).await.is_err() {
        assert!(std::time::Instant::now() < until);
        tokio::task::yield_now().await;
    }
    assert_eq!(store.secret("s").await.unwrap().as_deref(), Some("before"));
}
