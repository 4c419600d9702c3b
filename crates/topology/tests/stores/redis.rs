use everdict_contracts::ErrorCode;
use serde_json::{Value, json};

use crate::world::with_store;

const READY: [&str; 3] = ["redis-cli", "-e", "PING"];

fn data() -> Value {
    json!({"store": "redis", "role": "queue", "isolateBy": "key-prefix", "purpose": "data", "storeConfig": {"memoryMb": 32}})
}

#[tokio::test]
async fn a_run_sees_its_keys_and_dropping_spares_those_of_a_run_with_a_longer_id() {
    with_store("redis_seed", data(), &READY, |store| async move {
        for run in ["t1", "t10", "t1-x"] {
            let text = format!("SET {{prefix}}:name \"a value of {run}\"\nRPUSH {{prefix}}:list 1 2 3\n");
            store.seed(run, &text).await.unwrap();
        }
        assert_eq!(
            store.read("t1", "GET {prefix}:name").await.unwrap(),
            "a value of t1\n"
        );
        assert_eq!(
            store.read("t1", "LRANGE {prefix}:list 0 -1").await.unwrap(),
            "1\n2\n3\n"
        );
        store.drop_slices("t1").await.unwrap();
        assert_eq!(
            store
                .read("t1", "EXISTS {prefix}:name {prefix}:list")
                .await
                .unwrap(),
            "0\n"
        );
        assert_eq!(
            store.read("t10", "GET {prefix}:name").await.unwrap(),
            "a value of t10\n"
        );
        assert_eq!(
            store.read("t1-x", "GET {prefix}:name").await.unwrap(),
            "a value of t1-x\n"
        );
        store
    })
    .await;
}

#[tokio::test]
async fn a_refused_command_fails_the_seed_and_the_read() {
    with_store("redis_bad", data(), &READY, |store| async move {
        for text in [
            "SET {prefix}:a 1\nBOGUS 1\nSET {prefix}:b 2",
            "SET {prefix}:a \"unbalanced",
            "SET onlykey",
        ] {
            let fault = store.seed("r", text).await.unwrap_err();
            assert_eq!(fault.code, ErrorCode::BadRequest, "{text}");
            assert!(
                fault
                    .message
                    .starts_with("evalCase.fixtures[0]: failed to seed redis: "),
                "{fault}"
            );
        }
        store
            .seed("r", "SET {prefix}:s \"(error) only a value\"")
            .await
            .unwrap();
        assert_eq!(
            store.read("r", "GET {prefix}:s").await.unwrap(),
            "(error) only a value\n"
        );
        let fault = store.read("r", "LRANGE {prefix}:s 0 -1").await.unwrap_err();
        assert!(fault.message.contains("WRONGTYPE"), "{fault}");
        store
    })
    .await;
}

#[tokio::test]
async fn a_text_that_looks_like_shell_stays_text_and_a_large_one_goes_in() {
    with_store("redis_large", data(), &READY, |store| async move {
        let mut text = String::from("SET {prefix}:sh \"$(touch /tmp/x) `id` EOF ' %s\"\n");
        for i in 0..60_000 {
            text.push_str(&format!("SET {{prefix}}:{i} value-{i}\n"));
        }
        store.seed("r", &text).await.unwrap();
        assert_eq!(
            store.read("r", "GET {prefix}:sh").await.unwrap(),
            "$(touch /tmp/x) `id` EOF ' %s\n"
        );
        assert_eq!(
            store.read("r", "GET {prefix}:59999").await.unwrap(),
            "value-59999\n"
        );
        store.drop_slices("r").await.unwrap();
        assert_eq!(store.read("r", "DBSIZE").await.unwrap(), "0\n");
        store
    })
    .await;
}
