//! The built-in harnesses.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;

fn built_in(id: &str, change: Value) -> Value {
    let mut job = command_job("unused", json!({ "harness": { "id": id, "version": "0" } }));
    job.as_object_mut().unwrap().remove("harnessSpec");
    merge(&mut job, change);
    job
}

/// Puts a program named `claude` in front of the host's PATH.
fn with_claude(world: World, script: &str) -> World {
    let bin = world.dir.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let file = bin.join("claude");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    world.with_host("PATH", &path)
}

#[tokio::test]
async fn scripted_follows_its_plan() {
    let graders =
        json!([{ "id": "steps" }, { "id": "tests-pass", "config": { "cmd": "grep -q hello out.txt" } }]);
    let change = json!({ "evalCase": { "env": repo(json!({ "README.md": "hi" })), "graders": graders } });
    let result = World::new().run(built_in("scripted", change)).await.unwrap();
    assert_eq!(result.harness, "scripted@0");
    let trace = serde_json::to_value(&result.trace).unwrap();
    let kinds: Vec<_> = trace
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["message", "tool_call", "tool_result", "message", "infra"]);
    assert_eq!(
        (&trace[0]["role"], &trace[0]["text"]),
        (&json!("user"), &json!("say hi"))
    );
    assert_eq!(
        (&trace[1]["id"], &trace[1]["spanId"]),
        (&json!("step-0"), &json!("step-0"))
    );
    assert_eq!(trace[1]["args"], json!({ "cmd": "echo hello > out.txt" }));
    assert_eq!(
        (&trace[2]["ok"], &trace[2]["parentId"]),
        (&json!(true), &json!("step-0"))
    );
    let snapshot = serde_json::to_value(&result.snapshot).unwrap();
    assert_eq!(
        (&snapshot["kind"], &snapshot["changedFiles"]),
        (&json!("repo"), &json!(["out.txt"]))
    );
    assert!(snapshot["diff"].as_str().unwrap().contains("+hello"));
    assert_eq!(score(&result, 0)["value"], 1);
    assert_eq!(score(&result, 1)["pass"], true);
}

#[tokio::test]
async fn a_process_spec_names_a_built_in() {
    let change = json!({ "harness": { "id": "mine", "version": "3" }, "harnessSpec": { "kind": "process", "id": "scripted", "version": "3" } });
    let mut job = built_in("scripted", json!({}));
    merge(&mut job, change);
    let result = World::new().run(job).await.unwrap();
    assert_eq!(
        (result.harness.as_str(), answers(&result)),
        ("mine@3", vec!["done"])
    );
}

#[expect(clippy::too_many_lines, reason = "one transcript and what it must become")]
#[tokio::test]
async fn claude_code_is_read_line_by_line() {
    let script = r#"
printf '{"type":"system","subtype":"init"}\n'
printf '{"type":"assistant","message":{"model":"opus","content":[{"type":"text","text":"looking"},{"type":"tool_use","id":"tu_1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":10,"output_tokens":5}}}\n'
printf '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"tu_1","content":[{"type":"text","text":"no such"}],"is_error":true}]}}\n'
head -c 40000 /dev/zero | tr '\0' 'x' > big
printf '{"type":"assistant","message":{"model":"opus","content":[{"type":"text","text":"%s %s"}],"usage":{"input_tokens":1,"output_tokens":1}}}\n' "$2" "$(cat big)"
printf 'a stray line\n'
printf '{"type":"result","subtype":"success","total_cost_usd":0.125}\n'
echo "args: $# $1 $3 $4 $5 $6 IS_SANDBOX=$IS_SANDBOX" >&2
"#;
    let world = with_claude(World::new(), script);
    let graders = json!([{ "id": "steps" }, { "id": "cost" }]);
    let result = world
        .run(built_in(
            "claude-code",
            json!({ "evalCase": { "graders": graders } }),
        ))
        .await
        .unwrap();
    let trace = serde_json::to_value(&result.trace).unwrap();
    let kinds: Vec<_> = trace
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "message",
            "tool_call",
            "llm_call",
            "tool_result",
            "message",
            "llm_call",
            "llm_call",
            "infra"
        ]
    );
    assert_eq!(
        (&trace[1]["spanId"], &trace[1]["args"]),
        (&json!("tu_1"), &json!({ "command": "ls" }))
    );
    assert_eq!(
        (&trace[2]["model"], &trace[2]["cost"]["inputTokens"]),
        (&json!("opus"), &json!(10))
    );
    assert_eq!(
        (&trace[3]["ok"], &trace[3]["output"]),
        (&json!(false), &json!("no such"))
    );
    assert!(answers(&result)[1].starts_with("say hi xxx") && answers(&result)[1].len() > 40_000);
    assert_eq!(
        (&trace[6]["model"], &trace[6]["cost"]["usd"]),
        (&json!("aggregate"), &json!(0.125))
    );
    assert_eq!(
        (&score(&result, 0)["value"], &score(&result, 1)["value"]),
        (&json!(1), &json!(0.125))
    );
    let lines = world.lines();
    assert!(
        lines.contains(&"looking".to_owned()) && lines.contains(&"a stray line".to_owned()),
        "{lines:?}"
    );
    let args = "args: 6 -p --output-format stream-json --verbose --dangerously-skip-permissions IS_SANDBOX=1";
    assert!(lines.iter().any(|line| line == args), "{lines:?}");
}

#[tokio::test]
async fn the_trace_is_shown_while_the_agent_works() {
    let say = r#"printf '{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}\n'"#;
    let world = with_claude(
        World::new(),
        &format!("{say} one; {say} two; sleep 1.3; {say} three"),
    );
    let result = world.run(built_in("claude-code", json!({}))).await.unwrap();
    assert_eq!(answers(&result), ["one", "two", "three"]);
    let sizes: Vec<_> = world.seen.batches.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 1], "a batch a second, each event once");
}

#[tokio::test]
async fn a_missing_claude_is_an_error_event() {
    let world = World::new().with_host("PATH", "/usr/bin:/bin");
    let result = world.run(built_in("claude-code", json!({}))).await.unwrap();
    assert!(result.failure.is_none());
    assert_eq!(errors(&result).len(), 1);
    assert!(
        errors(&result)[0].contains("claude") && errors(&result)[0].contains("not found"),
        "{:?}",
        errors(&result)
    );
}

#[tokio::test]
async fn a_claude_that_runs_out_of_time_is_a_timeout() {
    let world = with_claude(World::new(), "sleep 60");
    let result = world
        .run(built_in(
            "claude-code",
            json!({ "evalCase": { "timeoutSec": 1 } }),
        ))
        .await
        .unwrap();
    assert_eq!(exit_detail(&result)["timedOut"], true);
    assert_eq!(errors(&result), ["[everdict] exec timed out after 1s"]);
}
