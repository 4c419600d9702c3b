//! The graders that bring files of their own: `reward-file`, `swe-bench`, `script`.

use serde_json::json;

use super::*;

async fn graded(command: &str, env: Value, grader: Value) -> Value {
    let job = command_job(
        command,
        json!({ "evalCase": { "env": env, "graders": [grader] } }),
    );
    let result = World::new().run(job).await.unwrap();
    assert!(result.failure.is_none(), "{:?}", result.failure);
    serde_json::to_value(&result.scores).unwrap()
}

fn reward(test: &str, more: Value) -> Value {
    let mut config = json!({ "files": { "test.sh": test, "lib/data.txt": "hidden\n" } });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    json!({ "id": "reward-file", "config": config })
}

#[tokio::test]
async fn a_verifier_s_reward_is_read_whatever_its_exit_code() {
    let test = "grep -q hidden \"$EVERDICT_TESTS_DIR/lib/data.txt\" && cat app.txt && echo 0.5 > \"$EVERDICT_REWARD_DIR/reward.txt\"; exit 7";
    for (threshold, pass) in [(0.5, true), (0.6, false)] {
        let scores = graded(
            "echo fixed > app.txt",
            repo(json!({ "a": "b" })),
            reward(test, json!({ "passThreshold": threshold })),
        )
        .await;
        assert_eq!(
            (&scores[0]["metric"], &scores[0]["value"], &scores[0]["pass"]),
            (&json!("tests_pass"), &json!(0.5), &json!(pass))
        );
        assert!(
            scores[0]["detail"].as_str().unwrap().contains("fixed"),
            "{scores}"
        );
    }
}

#[tokio::test]
async fn several_rewards_need_one_called_reward() {
    let publish = |json: &str| format!("printf '%s' '{json}' > \"$EVERDICT_REWARD_DIR/reward.json\"");
    let scores = graded(
        "true",
        json!({ "kind": "prompt" }),
        reward(&publish(r#"{"reward":1,"style":0.25}"#), json!({})),
    )
    .await;
    let read: Vec<_> = scores
        .as_array()
        .unwrap()
        .iter()
        .map(|score| (score["metric"].clone(), score["value"].clone()))
        .collect();
    assert_eq!(
        read,
        [
            (json!("tests_pass"), json!(1)),
            (json!("reward:reward"), json!(1)),
            (json!("reward:style"), json!(0.25))
        ]
    );
    let scores = graded(
        "true",
        json!({ "kind": "prompt" }),
        reward(&publish(r#"{"a":1,"b":0}"#), json!({})),
    )
    .await;
    assert_eq!(
        (&scores[0]["status"], &scores[0]["reason"]),
        (&json!("unmeasured"), &json!("unsupported"))
    );
}

#[tokio::test]
async fn a_verifier_that_publishes_nothing_or_nonsense_is_unmeasured_never_zero() {
    for (test, reason) in [
        ("exit 0", "missing_evidence"),
        ("echo soon > \"$EVERDICT_REWARD_DIR/reward.txt\"", "grader_error"),
        (
            "echo '{\"reward\":\"x\"}' > \"$EVERDICT_REWARD_DIR/reward.json\"",
            "grader_error",
        ),
        (
            "ln -s /etc/hostname \"$EVERDICT_REWARD_DIR/reward.txt\"",
            "missing_evidence",
        ),
    ] {
        let scores = graded("true", json!({ "kind": "prompt" }), reward(test, json!({}))).await;
        assert_eq!(
            (&scores[0]["status"], &scores[0]["reason"]),
            (&json!("unmeasured"), &json!(reason)),
            "{test}"
        );
        assert!(scores[0].get("value").is_none());
    }
}

#[tokio::test]
async fn a_verifier_s_files_come_after_the_agent_is_gone_and_follow_no_link_of_its() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("keep"), "mine").unwrap();
    // The agent looks for the hidden tests, and puts links where folders may come.
    let command = format!(
        "find .. -name test.sh -o -name data.txt; for name in tests verifier grade .everdict-grade; do ln -s '{}' ../$name; done",
        outside.path().display()
    );
    let test = "echo 1 > \"$EVERDICT_REWARD_DIR/reward.txt\"";
    let job = command_job(
        &command,
        json!({ "evalCase": { "graders": [reward(test, json!({}))] } }),
    );
    let result = World::new().run(job).await.unwrap();
    assert_eq!(
        answers(&result),
        Vec::<&str>::new(),
        "the agent saw the verifier's files"
    );
    assert_eq!(score(&result, 0)["pass"], true);
    let left: Vec<_> = std::fs::read_dir(outside.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "something was written behind a link: {left:?}");
}

#[tokio::test]
async fn a_bad_config_of_a_verifier_fails_before_the_agent_runs() {
    for (grader, place) in [
        (
            reward("true", json!({ "cmd": "bash /tests/test.sh" })),
            "config.cmd",
        ),
        (
            json!({ "id": "reward-file", "config": { "files": { "../x": "" } } }),
            "config.files",
        ),
        (
            json!({ "id": "reward-file", "config": { "testsDir": "/a/../b" } }),
            "config.testsDir",
        ),
        (
            json!({ "id": "swe-bench", "config": { "failToPass": 3 } }),
            "config.failToPass",
        ),
        (
            json!({ "id": "script", "config": { "language": "perl", "code": "1" } }),
            "config.language",
        ),
        (json!({ "id": "script" }), "config.code"),
        (
            json!({ "id": "script", "config": { "entrypoint": "/etc/passwd" } }),
            "config.entrypoint",
        ),
        (json!({ "id": "no-such-grader" }), "graders[0].id"),
    ] {
        let world = World::new();
        let ran = world.dir.path().join("ran");
        let job = command_job(
            &format!("touch '{}'", ran.display()),
            json!({ "evalCase": { "graders": [grader] } }),
        );
        let fault = world.run(job).await.unwrap_err();
        assert!(fault.message.contains(place), "{place}: {fault}");
        assert!(!ran.exists(), "{place}: the agent ran");
    }
}

const TEST_PATCH: &str = "diff --git a/check.sh b/check.sh\nnew file mode 100755\n--- /dev/null\n+++ b/check.sh\n@@ -0,0 +1,2 @@\n+#!/bin/sh\n+for name; do [ \"$(cat \"$name\")\" = fixed ] || { echo \"$name is broken\"; exit 1; }; done\n";

fn swe(fail: Value, pass: Value) -> Value {
    json!({ "id": "swe-bench", "config": {
        "testPatch": TEST_PATCH, "failToPass": fail, "passToPass": pass, "testCmd": "sh ./check.sh" } })
}

#[tokio::test]
async fn swe_bench_resolves_when_every_named_test_passes_on_the_patched_tree() {
    let env = || repo(json!({ "a b's.txt": "broken\n", "old.txt": "fixed\n" }));
    // Data sets carry the lists as JSON in a string, too.
    for names in [json!(["a b's.txt"]), json!("[\"a b's.txt\"]")] {
        let scores = graded(
            "echo fixed > \"a b's.txt\"",
            env(),
            swe(names, json!(["old.txt"])),
        )
        .await;
        assert_eq!(
            (&scores[0]["metric"], &scores[0]["pass"]),
            (&json!("resolved"), &json!(true)),
            "{scores}"
        );
    }
    let scores = graded(
        "echo fixed > \"a b's.txt\"; echo x > old.txt",
        env(),
        swe(json!(["a b's.txt"]), json!(["old.txt"])),
    )
    .await;
    assert_eq!(scores[0]["pass"], false);
    assert!(
        scores[0]["detail"]
            .as_str()
            .unwrap()
            .contains("old.txt is broken"),
        "{scores}"
    );
    let scores = graded("echo mine > check.sh", env(), swe(json!(["old.txt"]), json!([]))).await;
    assert_eq!(scores[0]["pass"], false);
    assert!(
        scores[0]["detail"].as_str().unwrap().contains("does not apply"),
        "{scores}"
    );
}

#[tokio::test]
async fn swe_bench_hands_over_more_tests_than_one_argument_holds() {
    let many: Vec<String> = (0..9_000)
        .map(|number| format!("test-{number:08}-{}", "x".repeat(10)))
        .collect();
    let config = json!({ "id": "swe-bench", "config": { "passToPass": many, "testCmd": "printf '%s\\n' >> seen; printf '%s\\n' >> seen" } });
    let scores = graded("true", repo(json!({ "a": "b" })), config).await;
    assert_eq!(scores[0]["pass"], true, "{scores}");
    let config = json!({ "id": "swe-bench", "config": { "passToPass": many, "testCmd": "false" } });
    let scores = graded("true", repo(json!({ "a": "b" })), config).await;
    assert_eq!(scores[0]["pass"], false, "{scores}");
}

#[tokio::test]
async fn a_machine_without_the_test_runner_says_nothing_about_the_fix() {
    let config =
        json!({ "id": "swe-bench", "config": { "failToPass": ["t"], "testCmd": "no-such-test-runner" } });
    let scores = graded("true", repo(json!({ "a": "b" })), config).await;
    assert_eq!(
        (&scores[0]["status"], &scores[0]["reason"]),
        (&json!("unmeasured"), &json!("grader_error"))
    );
}

fn script(code: &str, more: Value) -> Value {
    let mut config = json!({ "code": code });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    json!({ "id": "script", "config": config })
}

#[tokio::test]
async fn a_script_sees_case_trace_and_snapshot_and_speaks_for_itself_alone() {
    let code = r#"
import json, sys
c = json.load(open(sys.argv[1]))
print("noise {not json}")
print(json.dumps([
    {"graderId": "tests-pass", "metric": "files", "value": len(c["snapshot"]["changedFiles"]), "pass": True},
    {"metric": "events", "value": len(c["trace"]), "detail": c["case"]["task"]},
]))
print("bye")
"#;
    let scores = graded(
        "touch one two",
        repo(json!({ "a": "b" })),
        script(code, json!({ "id": "mine", "contextPath": "sub/ctx.json" })),
    )
    .await;
    assert_eq!(
        (&scores[0]["graderId"], &scores[0]["metric"], &scores[0]["value"]),
        (&json!("mine"), &json!("files"), &json!(2)),
        "{scores}"
    );
    assert_eq!(
        (&scores[1]["graderId"], &scores[1]["detail"]),
        (&json!("mine"), &json!("say hi"))
    );
}

#[tokio::test]
async fn a_result_in_a_file_survives_twenty_megabytes_of_noise() {
    let code = r#"
import os, sys
open(os.environ["EVERDICT_RESULT_FILE"], "w").write('{"metric":"m","value":3}')
for _ in range(200): sys.stdout.write("x" * 99_999 + "\n")
"#;
    let scores = graded("true", json!({ "kind": "prompt" }), script(code, json!({}))).await;
    assert_eq!(
        (&scores[0]["metric"], &scores[0]["value"]),
        (&json!("m"), &json!(3)),
        "{scores}"
    );
}

#[tokio::test]
async fn a_script_that_fails_is_unmeasured_and_one_that_claims_a_foreign_metric_is_invalid() {
    for code in ["raise SystemExit(3)", "print('no json')"] {
        let scores = graded("true", json!({ "kind": "prompt" }), script(code, json!({}))).await;
        assert_eq!(
            (&scores[0]["status"], &scores[0]["reason"]),
            (&json!("unmeasured"), &json!("grader_error")),
            "{code}"
        );
    }
    for answer in [r#"{"metric": "tests_pass", "value": 1}"#, r#"{"value": 1}"#] {
        let code = format!("print('{answer}')");
        let scores = graded("true", json!({ "kind": "prompt" }), script(&code, json!({}))).await;
        assert_eq!(scores[0]["status"], "invalid", "{answer}");
    }
}
