use everdict_contracts::{ErrorCode, IsolateBy};
use everdict_topology::stores::wiring;
use serde_json::{Value, json};

use crate::world::with_store;

/// Asks over TCP, as long as the database isn't being made.
const READY: [&str; 8] = [
    "psql",
    "-h",
    "127.0.0.1",
    "-U",
    "everdict",
    "everdict",
    "-c",
    "SELECT 1",
];

fn data(isolate_by: &str) -> Value {
    json!({"store": "postgres", "role": "app", "isolateBy": isolate_by, "purpose": "data", "storeConfig": {"persistence": false}})
}

fn ready() -> Vec<&'static str> {
    let mut argv = vec!["env", "PGPASSWORD=everdict"];
    argv.extend(READY);
    argv
}

#[tokio::test]
async fn a_run_sees_what_was_seeded_for_it_and_no_other_run_does() {
    with_store("pg_seed", data("schema"), &ready(), |store| async move {
        // Differ in case only; then in the last character of a name beyond PostgreSQL's limit.
        let long = "c".repeat(70);
        let runs = [
            "EVD-Case-t0".to_owned(),
            "evd-case-t0".to_owned(),
            format!("{long}-t0"),
            format!("{long}-t1"),
        ];
        for (index, run) in runs.iter().enumerate() {
            let sql = format!(
                "CREATE TABLE carts (id int, \"name\" text);\nINSERT INTO carts VALUES ({index}, 'it''s')"
            );
            store.seed(run, &sql).await.unwrap();
        }
        for (index, run) in runs.iter().enumerate() {
            let answer = store.read(run, "SELECT id, name FROM carts").await.unwrap();
            assert_eq!(answer, format!("{index}|it's\n"));
        }
        // The agent finds the same rows by the schema that it is told, quoted or not.
        let (_, schema) = wiring(IsolateBy::Schema, &runs[0]).unwrap();
        let answer = store
            .read(&runs[1], &format!("SELECT id FROM {schema}.carts"))
            .await
            .unwrap();
        assert_eq!(answer, "0\n");
        store
    })
    .await;
}

#[tokio::test]
async fn a_dropped_slice_is_gone_and_the_next_trial_starts_afresh() {
    with_store("pg_drop", data("schema"), &ready(), |store| async move {
        store.seed("t1", "CREATE TABLE t (i int)").await.unwrap();
        store
            .seed("t2", "CREATE TABLE t (i int); INSERT INTO t VALUES (2)")
            .await
            .unwrap();
        assert_eq!(
            store.seed("t1", "CREATE TABLE t (i int)").await.unwrap_err().code,
            ErrorCode::BadRequest
        );
        store.drop_slices("t1").await.unwrap();
        let fault = store.read("t1", "SELECT * FROM t").await.unwrap_err();
        assert!(fault.message.contains("relation \"t\" does not exist"), "{fault}");
        store.seed("t1", "CREATE TABLE t (i int)").await.unwrap();
        assert_eq!(store.read("t1", "SELECT count(*) FROM t").await.unwrap(), "0\n");
        assert_eq!(store.read("t2", "SELECT i FROM t").await.unwrap(), "2\n");
        store.drop_slices("never seeded").await.unwrap();
        store
    })
    .await;
}

#[tokio::test]
async fn a_seed_that_fails_leaves_nothing_and_names_the_line() {
    with_store("pg_bad", data("thread_id"), &ready(), |store| async move {
        let fault = store
            .seed(
                "r",
                "CREATE TABLE t (i int);\nINSERT INTO t VALUES (1);\nBOGUS;\n",
            )
            .await
            .unwrap_err();
        assert_eq!(fault.code, ErrorCode::BadRequest);
        assert!(
            fault
                .message
                .starts_with("evalCase.fixtures[0]: failed to seed postgres: "),
            "{fault}"
        );
        assert!(
            fault
                .message
                .contains(":3: ERROR:  syntax error at or near \"BOGUS\""),
            "{fault}"
        );
        assert!(store.read("r", "SELECT * FROM t").await.is_err());
        store
    })
    .await;
}

#[tokio::test]
async fn a_read_can_not_write() {
    with_store("pg_readonly", data("schema"), &ready(), |store| async move {
        store
            .seed("r", "CREATE TABLE t (i int); INSERT INTO t VALUES (1)")
            .await
            .unwrap();
        for query in [
            "DELETE FROM t",
            "SELECT 1; DROP TABLE t",
            "COMMIT; DELETE FROM t",
            "CREATE TABLE u (i int)",
        ] {
            let fault = store.read("r", query).await.unwrap_err();
            assert!(
                fault.message.contains("read-only transaction"),
                "{query}: {fault}"
            );
        }
        assert_eq!(store.read("r", "SELECT i FROM t;").await.unwrap(), "1\n");
        assert_eq!(
            store
                .read("r", "WITH x AS (SELECT 7 AS i) SELECT i FROM x -- done")
                .await
                .unwrap(),
            "7\n"
        );
        store
    })
    .await;
}

#[tokio::test]
async fn a_seed_of_many_megabytes_and_with_copy_goes_in() {
    with_store("pg_large", data("schema"), &ready(), |store| async move {
        let rows: String = (0..100_000)
            .map(|i| format!("{i}\t{}\n", "x".repeat(60)))
            .collect();
        let sql =
            format!("CREATE TABLE big (i int, t text);\nCOPY big FROM stdin;\n{rows}\\.\nANALYZE big;\n");
        assert!(sql.len() > 6_000_000);
        store.seed("r", &sql).await.unwrap();
        assert_eq!(
            store.read("r", "SELECT count(*), sum(i) FROM big").await.unwrap(),
            "100000|4999950000\n"
        );
        store
    })
    .await;
}
