//! What a case may use, and what it may reach.

use std::time::{Duration, Instant};

use everdict_contracts::FailureClass;
use serde_json::json;

use super::world::{REDIS, answers, exit_detail, image_job, in_world};

/// Fills the memory of its shell; every image with a shell can.
const EAT: &str = "x=0123456789abcdef; while :; do x=$x$x; done";

#[tokio::test(flavor = "multi_thread")]
async fn declared_memory_is_enforced_and_oom_is_named() {
    in_world("declared_memory_is_enforced", async |world| {
        let limit = json!({"evalCase": {"resources": {"memoryMb": 64}}});
        let fault = world
            .run(image_job(
                REDIS,
                &format!("echo eating >&2; exec sh -c '{EAT}'"),
                limit.clone(),
            ))
            .await
            .unwrap_err();
        let failure = fault.failure();
        assert_eq!(
            (failure.code.as_str(), failure.class),
            ("OOM_KILLED", FailureClass::Infra),
            "{fault}"
        );
        assert!(failure.message.contains("evalCase.resources.memoryMb"), "{fault}");
        assert_eq!(failure.log_tail.as_deref().map(str::trim), Some("eating"));

        // A command that loses a child and goes on is scored.
        let result = world
            .run(image_job(REDIS, &format!("sh -c '{EAT}'; echo went on"), limit))
            .await
            .unwrap();
        assert_eq!(answers(&result), ["went on"]);
        assert_eq!(exit_detail(&result)["oomKilledProcesses"], 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn network_none_has_no_network() {
    in_world("network_none_has_no_network", async |world| {
        let command = "cat /proc/net/route | wc -l; ls /sys/class/net";
        let closed = json!({"evalCase": {"network": {"mode": "none"}}});
        let result = world.run(image_job(REDIS, command, closed)).await.unwrap();
        assert_eq!(answers(&result), ["1\nlo"]);
        let result = world.run(image_job(REDIS, command, json!({}))).await.unwrap();
        assert!(answers(&result)[0].contains("eth0"), "{:?}", answers(&result));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_ends_with_its_case() {
    in_world("a_fork_bomb_ends_with_its_case", async |world| {
        let command = "bomb() { bomb | bomb & }; bomb; sleep 300";
        let grader =
            json!([{"id": "command", "config": {"cmd": "test $(ls -d /proc/[0-9]* | wc -l) -lt 10"}}]);
        let change = json!({"evalCase": {"timeoutSec": 2, "graders": grader, "resources": {"cpu": 500}}});
        let began = Instant::now();
        let result = world.run(image_job(REDIS, command, change)).await.unwrap();
        assert_eq!(exit_detail(&result)["timedOut"], true);
        assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
        let score = serde_json::to_value(&result.scores[0]).unwrap();
        assert_eq!(score["pass"], true, "{score}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_confined() {
    in_world("a_container_is_confined", async |world| {
        let command = "grep -E 'CapBnd|NoNewPrivs' /proc/self/status; mknod /tmp/d b 8 0 || echo no device; \
                       mount -t tmpfs none /mnt || echo no mount; cat /sys/fs/cgroup/pids/pids.max \
                       /sys/fs/cgroup/pids.max 2>/dev/null";
        let result = world.run(image_job(REDIS, command, json!({}))).await.unwrap();
        let answer = answers(&result).join("\n");
        for part in ["NoNewPrivs:\t1", "no device", "no mount", "2048"] {
            assert!(answer.contains(part), "{part}: {answer}");
        }
    })
    .await;
}
