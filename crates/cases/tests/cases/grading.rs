//! Graders see the finished work, and their troubles are told apart from the agent's.

use serde_json::json;

use super::*;

#[tokio::test]
async fn tests_pass_runs_where_the_agent_worked() {
    let graders = json!([
        { "id": "steps" },
        { "id": "tests-pass", "config": { "cmd": "grep -q fixed app.txt" } },
        { "id": "command", "config": { "cmd": "test -d nested", "cwd": "work/dir" } },
        { "id": "script-score", "config": { "cmd": "echo SCORE=0.9" } },
    ]);
    let env = repo(json!({ "app.txt": "broken\n", "dir/nested/x": "" }));
    let job = command_job(
        "echo fixed > app.txt",
        json!({ "evalCase": { "env": env, "graders": graders } }),
    );
    let result = World::new().run(job).await.unwrap();
    let read: Vec<_> = (0..4)
        .map(|at| {
            (
                score(&result, at)["graderId"].clone(),
                score(&result, at)["pass"].clone(),
            )
        })
        .collect();
    assert_eq!(
        read,
        [
            (json!("steps"), Value::Null),
            (json!("tests-pass"), json!(true)),
            (json!("command"), json!(true)),
            (json!("script-score"), json!(true)),
        ]
    );
}

#[tokio::test]
async fn graders_leave_no_trace_in_the_snapshot() {
    let grader = json!({ "id": "tests-pass", "config": { "cmd": "touch grader-was-here" } });
    let change = json!({ "evalCase": { "env": repo(json!({})), "graders": [grader] } });
    let result = World::new()
        .run(command_job("touch agent-was-here", change))
        .await
        .unwrap();
    let snapshot = serde_json::to_value(&result.snapshot).unwrap();
    assert_eq!(snapshot["changedFiles"], json!(["agent-was-here"]));
}

#[tokio::test]
async fn a_patch_of_the_grader_is_applied_for_it_alone() {
    let patch = "diff --git a/t.txt b/t.txt\nnew file mode 100644\n--- /dev/null\n+++ b/t.txt\n@@ -0,0 +1 @@\n+hidden test\n";
    let graders = json!([
        { "id": "command", "config": { "cmd": "cat t.txt", "applyPatch": patch, "passPattern": "^hidden test" } },
        { "id": "command", "config": { "cmd": "true", "applyPatch": "no patch at all" } },
    ]);
    for env in [json!({ "kind": "prompt" }), repo(json!({ "a": "b" }))] {
        let change = json!({ "evalCase": { "env": env, "graders": graders } });
        let result = World::new()
            .run(command_job("! test -e t.txt", change))
            .await
            .unwrap();
        assert!(errors(&result).is_empty(), "the agent saw the hidden test");
        assert_eq!(score(&result, 0)["pass"], true, "{}", score(&result, 0));
        assert_eq!(
            (&score(&result, 1)["pass"], &score(&result, 1)["value"]),
            (&json!(false), &json!(0))
        );
    }
}

#[tokio::test]
async fn grading_has_its_own_budget() {
    let grader = json!({ "id": "tests-pass", "config": { "cmd": "sleep 1.2" } });
    let change = json!({ "evalCase": { "timeoutSec": 1, "graders": [grader] } });
    let result = World::new().run(command_job("sleep 60", change)).await.unwrap();
    assert_eq!(exit_detail(&result)["timedOut"], true);
    assert_eq!(
        score(&result, 0)["pass"],
        true,
        "an agent that used all of its time is graded all the same"
    );
}

#[tokio::test]
async fn grader_outage_is_unmeasured() {
    let grader = json!({ "id": "command", "config": { "cmd": "true", "cwd": "../../elsewhere" } });
    let change = json!({ "evalCase": { "graders": [grader, { "id": "steps" }] } });
    let result = World::new().run(command_job("true", change)).await.unwrap();
    let outage = score(&result, 0);
    assert_eq!(
        (&outage["status"], &outage["reason"]),
        (&json!("unmeasured"), &json!("grader_error"))
    );
    assert!(outage.get("value").is_none());
    assert_eq!(score(&result, 1)["status"], "measured");
    assert!(result.failure.is_none());
}

#[tokio::test]
async fn the_judge_key_reaches_graders_and_not_the_agent() {
    let change = json!({
        "evalCase": { "graders": [{ "id": "command", "config": { "cmd": "env", "passPattern": "." } }] },
        "judge": { "model": "judge-model", "provider": "anthropic" },
        "judgeAuth": { "apiKey": "judge-key", "baseUrl": "http://judge" },
    });
    let result = World::new().run(command_job("env", change)).await.unwrap();
    assert!(!answers(&result)[0].contains("judge"), "{:?}", answers(&result));
    let detail = score(&result, 0)["detail"].as_str().unwrap().to_owned();
    for line in [
        "EVERDICT_JUDGE_MODEL=judge-model",
        "EVERDICT_JUDGE_PROVIDER=anthropic",
        // Only what is exactly the key becomes a mask.
        "ANTHROPIC_API_KEY=***",
        "ANTHROPIC_BASE_URL=http://judge",
    ] {
        assert!(
            detail.lines().any(|have| have == line),
            "{line} is missing in {detail}"
        );
    }
}

#[tokio::test]
async fn answer_match_reads_what_the_command_said() {
    let graders = json!([{ "id": "answer-match" }, { "id": "text-metric", "config": { "pattern": "n=(\\d+)", "metric": "n" } }]);
    let change = json!({ "evalCase": { "graders": graders, "expected": "forty two" } });
    let result = World::new()
        .run(command_job("echo It is Forty  Two, n=42", change))
        .await
        .unwrap();
    assert_eq!(score(&result, 0)["pass"], true);
    assert_eq!(score(&result, 1)["value"], 42);
}
