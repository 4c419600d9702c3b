//! The command harness: what reaches it and what its run becomes.

use serde_json::json;

use super::*;

#[tokio::test]
async fn task_with_quotes_reaches_the_command_verbatim() {
    let task = "it's \"quoted\" $HOME `id` $(id) \\ $& {{model}} 日本\n  two lines; rm -rf . #";
    for command in [
        "printf '%s' {{task}}",
        "printf '%s' \"{{task}}\"",
        "printf '%s' '{{task}}'",
    ] {
        let job = command_job(
            command,
            json!({ "evalCase": { "task": task }, "harnessSpec": { "model": "m1" } }),
        );
        let result = World::new().run(job).await.unwrap();
        assert_eq!(answers(&result), [task], "{command}");
    }
}

#[tokio::test]
async fn template_value_is_never_re_expanded() {
    let change = json!({
        "evalCase": { "task": "{{model}} {{run_id}} {{p}}" },
        "harnessSpec": { "model": "it's; echo {{task}}", "params": { "p": "$(echo injected)", "task": "not the task" } },
    });
    let job = command_job("printf '[%s]' {{task}} {{model}} {{p}} '{{unknown}}'", change);
    let result = World::new().run(job).await.unwrap();
    assert_eq!(
        answers(&result),
        ["[{{model}} {{run_id}} {{p}}][it's; echo {{task}}][$(echo injected)][{{unknown}}]"]
    );
}

#[tokio::test]
async fn the_command_is_shown_as_it_was_meant() {
    let result = World::new()
        .run(command_job("echo {{task}}", json!({})))
        .await
        .unwrap();
    let detail = exit_detail(&result);
    assert_eq!(detail["command"], "echo 'say hi'");
    assert_eq!(detail["exitCode"], 0);
    assert!(detail.get("timedOut").is_none(), "{detail}");
}

#[tokio::test]
async fn a_non_zero_exit_is_evidence_and_no_failure() {
    let job = command_job(
        "echo oops >&2; exit 3",
        json!({ "evalCase": { "graders": [{ "id": "steps" }] } }),
    );
    let result = World::new().run(job).await.unwrap();
    assert!(result.failure.is_none());
    assert_eq!(errors(&result), ["command exit 3: oops"]);
    assert_eq!(exit_detail(&result)["exitCode"], 3);
    assert_eq!(result.trace_sealed, Some(true));
    assert_eq!(score(&result, 0)["metric"], "tool_calls");
    assert_eq!(score(&result, 0)["value"], 0.0);
}

#[tokio::test]
async fn a_missing_program_is_exit_127() {
    let result = World::new()
        .run(command_job("no-such-program-xyz --flag", json!({})))
        .await
        .unwrap();
    assert_eq!(exit_detail(&result)["exitCode"], 127);
    assert!(
        errors(&result)[0].starts_with("command exit 127: "),
        "{:?}",
        errors(&result)
    );
}

#[tokio::test]
async fn a_death_by_signal_is_exit_1_and_names_the_signal() {
    let result = World::new()
        .run(command_job("kill -9 $$", json!({})))
        .await
        .unwrap();
    assert_eq!(exit_detail(&result)["exitCode"], 1);
    assert_eq!(exit_detail(&result)["signal"], 9);
}

#[tokio::test]
async fn timeout_is_told_apart_from_failure() {
    let job = command_job(
        "echo start; sleep 60; echo end",
        json!({ "evalCase": { "timeoutSec": 1 } }),
    );
    let begin = Instant::now();
    let result = World::new().run(job).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
    let detail = exit_detail(&result);
    assert_eq!(
        (&detail["exitCode"], &detail["timedOut"]),
        (&json!(124), &json!(true))
    );
    assert_eq!(
        errors(&result),
        ["command exit 124: [everdict] exec timed out after 1s"]
    );
    assert_eq!(answers(&result), ["start"]);
    assert!(result.failure.is_none());

    let failed = World::new()
        .run(command_job("exit 124", json!({})))
        .await
        .unwrap();
    assert!(exit_detail(&failed).get("timedOut").is_none());
}

#[tokio::test]
async fn output_is_live_line_by_line() {
    let world = World::new();
    let job = command_job("echo one; echo two >&2; sleep 0.4; echo three", json!({}));
    world.run(job).await.unwrap();
    let lines = world.seen.lines.lock().unwrap();
    let time = |text: &str| lines.iter().find(|(_, line)| line == text).expect(text).0;
    assert!(
        time("three") - time("one") >= Duration::from_millis(300),
        "the lines came in one heap"
    );
    assert!(
        time("three") - time("two") >= Duration::from_millis(300),
        "the lines came in one heap"
    );
}

#[tokio::test]
async fn the_live_trace_is_the_trace_each_event_once() {
    let world = World::new();
    let result = world.run(command_job("echo hello", json!({}))).await.unwrap();
    let live: Vec<_> = world.seen.batches.lock().unwrap().concat();
    assert_eq!(live.len(), 2);
    assert_eq!(
        serde_json::to_value(&live).unwrap(),
        serde_json::to_value(&result.trace[..2]).unwrap()
    );
}

#[tokio::test]
async fn the_environment_has_the_declared_and_the_run_and_nothing_of_the_host() {
    let world = World::new()
        .with_host("EVERDICT_RUNNER_TOKEN", "rnr_secret")
        .with_host("AWS_SECRET_ACCESS_KEY", "aws-secret")
        .with_host("OPENAI_API_KEY", "host-key")
        .with_host("ANTHROPIC_API_KEY", "");
    let change = json!({
        "harnessSpec": { "env": { "OPENAI_BASE_URL": "http://declared", "MY_VAR": "a b" }, "trace": { "kind": "file" } },
        "judgeAuth": { "apiKey": "judge-key" },
    });
    let result = world
        .run(command_job("env; echo \"cwd=$PWD home=$HOME\"", change))
        .await
        .unwrap();
    let text = answers(&result)[0];
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")))
    };
    // Only what is exactly the key becomes a mask.
    assert_eq!(value("OPENAI_API_KEY"), Some("***"));
    assert_eq!(value("OPENAI_BASE_URL"), Some("http://declared"));
    assert_eq!(value("MY_VAR"), Some("a b"));
    assert_eq!(value("EVERDICT_RUN_ID"), Some("evd-run-1"));
    assert_eq!(
        value("OTEL_RESOURCE_ATTRIBUTES"),
        Some("everdict.run_id=evd-run-1")
    );
    assert_eq!(value("TRACEPARENT").map(str::len), Some(55));
    assert_eq!(value("ANTHROPIC_API_KEY"), None);
    for secret in ["rnr_secret", "aws-secret", "judge-key"] {
        assert!(!text.contains(secret), "{secret} reached the agent");
    }
    let root = world.root().canonicalize().unwrap();
    assert!(
        value("HOME").is_some_and(|home| home.starts_with(root.to_str().unwrap())),
        "{text}"
    );
}

#[tokio::test]
async fn a_trace_file_is_taken_and_its_bad_rows_are_counted() {
    let write = r#"cat > everdict-trace.json <<'EOF'
{"t":1,"kind":"tool_call","id":"a","name":"bash"}
{"t":2,"kind":"no_such_kind"}
not json
{"t":3,"kind":"message","role":"assistant","text":"from the file"}
EOF
echo printed"#;
    let change = json!({
        "evalCase": { "graders": [{ "id": "steps" }, { "id": "answer-match", "config": { "expect": "from the file" } }] },
        "harnessSpec": { "trace": { "kind": "file" } },
    });
    let result = World::new().run(command_job(write, change)).await.unwrap();
    assert_eq!(
        answers(&result),
        ["from the file"],
        "the printed text is a log line when the file has the answer"
    );
    assert_eq!(score(&result, 0)["value"], 1.0);
    assert_eq!(score(&result, 1)["pass"], true);
    let text = serde_json::to_string(&result.trace).unwrap();
    assert!(text.contains("2 of 4 rows"), "{text}");
}

#[tokio::test]
async fn a_trace_file_out_of_the_sandbox_is_not_read() {
    let world = World::new();
    let secret = world.dir.path().join("secret.json");
    std::fs::write(
        &secret,
        r#"[{"t":1,"kind":"message","role":"assistant","text":"stolen"}]"#,
    )
    .unwrap();
    let command = format!("ln -s {} everdict-trace.json", secret.display());
    let result = world
        .run(command_job(
            &command,
            json!({ "harnessSpec": { "trace": { "kind": "file" } } }),
        ))
        .await;
    let text = format!("{result:?}");
    assert!(!text.contains("stolen"), "{text}");
}

#[tokio::test]
async fn a_trace_that_can_not_be_collected_keeps_the_work() {
    let change = json!({
        "evalCase": {
            "env": repo(json!({})),
            "graders": [{ "id": "steps" }, { "id": "tests-pass", "config": { "cmd": "test -f made" } }],
        },
        "harnessSpec": { "trace": { "kind": "otel", "endpoint": "http://127.0.0.1:1" } },
    });
    let result = World::new().run(command_job("touch made", change)).await.unwrap();
    let failure = serde_json::to_value(result.failure.as_ref().unwrap()).unwrap();
    assert_eq!(
        (&failure["stage"], &failure["code"]),
        (&json!("collect"), &json!("TRACE_COLLECT_FAILED"))
    );
    assert_eq!(failure["retryable"], true);
    assert_eq!(result.trace_sealed, None);
    assert_eq!(serde_json::to_value(&result.trace_ref).unwrap()["kind"], "otel");
    let steps = score(&result, 0);
    assert_eq!(
        (&steps["status"], &steps["reason"]),
        (&json!("unmeasured"), &json!("missing_evidence"))
    );
    assert_eq!(steps["retryable"], true);
    assert_eq!(score(&result, 1)["pass"], true);
}

#[tokio::test]
async fn a_trace_for_the_control_plane_is_left_to_it() {
    let change = json!({
        "evalCase": { "graders": [{ "id": "steps" }, { "id": "tests-pass" }] },
        "harnessSpec": { "trace": { "kind": "otel", "endpoint": "http://127.0.0.1:1", "collect": "control-plane" } },
    });
    let result = World::new().run(command_job("true", change)).await.unwrap();
    assert!(result.failure.is_none());
    let reference = serde_json::to_value(&result.trace_ref).unwrap();
    assert_eq!(
        (&reference["kind"], &reference["runId"]),
        (&json!("otel"), &json!("evd-run-1"))
    );
    assert_eq!(result.scores.len(), 1);
    assert_eq!(score(&result, 0)["graderId"], "tests-pass");
}

#[tokio::test]
async fn failing_setup_is_an_install_failure() {
    let change = json!({ "harnessSpec": { "setup": ["true", "echo broken installer >&2; exit 7"] } });
    let fault = World::new()
        .run(command_job("echo never", change))
        .await
        .unwrap_err();
    let failure = serde_json::to_value(fault.failure()).unwrap();
    assert_eq!(
        (&failure["stage"], &failure["class"]),
        (&json!("install"), &json!("harness"))
    );
    assert_eq!(failure["code"], "HARNESS_INSTALL_FAILED");
    assert!(
        fault.message.contains("harnessSpec.setup[1]") && fault.message.contains("broken installer"),
        "{fault}"
    );
    assert!(fault.message.contains("exit 7"), "{fault}");
}

#[tokio::test]
async fn setup_runs_in_order_where_the_command_runs() {
    let change =
        json!({ "harnessSpec": { "setup": ["echo a > log", "echo b >> log"], "workDir": "sub/dir" } });
    let result = World::new()
        .run(command_job("cat log; pwd", change))
        .await
        .unwrap();
    assert!(
        answers(&result)[0].starts_with("a\nb\n") && answers(&result)[0].ends_with("/sub/dir"),
        "{result:?}"
    );
}

#[tokio::test]
async fn the_result_says_what_ran_where() {
    let result = World::new()
        .run(command_job("echo hello", json!({})))
        .await
        .unwrap();
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(
        decode::<CaseResult>(&json).unwrap(),
        result,
        "the result survives the wire"
    );
    assert_eq!(json["caseId"], "case-1");
    assert_eq!(json["harness"], "cmd@1.0.0");
    assert_eq!(json["evidenceVersion"], 2);
    assert_eq!(json["traceSealed"], true);
    assert_eq!(json["snapshot"], json!({ "kind": "prompt", "output": "" }));
    let os = if cfg!(target_os = "macos") {
        "macos"
    } else {
        "linux"
    };
    assert_eq!(
        json["execution"],
        json!({ "os": os, "osResolved": "defaulted", "driver": "local", "manifestVersion": 2, "imageProvenance": { "kind": "none" } })
    );
    let last = json["trace"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["event"], &last["scope"]),
        (&json!("compute_released"), &json!("placement"))
    );
    assert_eq!(
        json["trace"][0]["at"].as_str().unwrap().len(),
        "2026-01-01T00:00:00.000Z".len()
    );
}
