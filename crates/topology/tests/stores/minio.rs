//! The stand-in image has no `mc`, so these tests put one in its place that writes down how it was called.

use everdict_contracts::ErrorCode;
use serde_json::{Value, json};

use crate::world::with_store;

const READY: [&str; 2] = ["python3", "--version"];

fn data() -> Value {
    json!({"store": "minio", "role": "files", "isolateBy": "object-prefix", "purpose": "data"})
}

/// Logs its arguments and its input; lists one bucket; fails on `mc fail`.
const CLIENT: &str = r#"printf '#!/bin/sh\n[ "$1" = fail ] && exit 1\n[ "$*" = "ls local" ] && echo "[date]  0B pics/" && exit 0\necho "$MC_HOST_local $*|$(cat)" >> /tmp/calls\n' > /usr/local/bin/mc && chmod 755 /usr/local/bin/mc"#;

#[tokio::test]
async fn an_image_without_the_client_says_so_and_has_nothing_to_drop() {
    with_store("minio_bare", data(), &READY, |store| async move {
        let fault = store.seed("r", "mc mb local/pics").await.unwrap_err();
        assert_eq!(fault.code, ErrorCode::UpstreamMisconfigured);
        assert!(fault.message.ends_with("the image has no mc"), "{fault}");
        store.drop_slices("r").await.unwrap();
        store
    })
    .await;
}

#[tokio::test]
async fn a_script_runs_with_its_prefix_and_ends_at_the_first_failure() {
    with_store("minio_script", data(), &READY, |store| async move {
        store.run(&["sh", "-c", CLIENT]).await;
        store
            .seed("R1", "mc mb local/pics\necho hi | mc pipe local/pics/{prefix}a")
            .await
            .unwrap();
        let login = "http://everdict:everdictsecret@127.0.0.1:9000";
        let expected = format!("{login} mb local/pics|\n{login} pipe local/pics/runs/R1/a|hi\n");
        assert_eq!(store.run(&["cat", "/tmp/calls"]).await, expected);
        let fault = store.seed("R1", "mc fail; mc mb local/after").await.unwrap_err();
        assert_eq!(fault.code, ErrorCode::BadRequest);
        assert_eq!(
            store.run(&["cat", "/tmp/calls"]).await,
            expected,
            "nothing after the failure"
        );
        assert_eq!(store.read("R1", "echo {prefix}").await.unwrap(), "runs/R1/\n");
        store.drop_slices("R1").await.unwrap();
        let calls = store.run(&["cat", "/tmp/calls"]).await;
        assert!(
            calls.ends_with("rm --recursive --force local/pics/runs/R1/|\n"),
            "{calls}"
        );
        store
    })
    .await;
}
