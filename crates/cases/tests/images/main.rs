//! Cases in containers of their images, on a real daemon. Without one each test is listed as skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod limits;
mod world;

use std::time::{Duration, Instant};

use everdict_contracts::ErrorCode;
use serde_json::json;

use world::{FRONT_DOOR, POSTGRES, REDIS, answers, exit_detail, image_job, in_world};

#[tokio::test(flavor = "multi_thread")]
async fn image_case_runs_in_its_container() {
    in_world("image_case_runs_in_its_container", async |world| {
        let job = image_job(REDIS, "redis-server --version; echo work >&2; pwd", json!({}));
        let result = world.run(job).await.unwrap();
        let answer = answers(&result).join("\n");
        assert!(answer.contains("Redis server v="), "{answer}");
        assert!(answer.ends_with("/everdict/work"), "{answer}");
        assert!(world.lines().contains(&"work".to_owned()));
        let execution = serde_json::to_value(result.execution.unwrap()).unwrap();
        assert_eq!(execution["driver"], "docker");
        assert_eq!(execution["os"], "linux");
        assert_eq!(execution["imageProvenance"]["images"][0]["ref"], REDIS);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_env_works() {
    in_world("prompt_env_works", async |world| {
        // Template values reach the command as data there too, and the trace file is read out of the container.
        let command = "echo said {{task}}; echo \"$MODE $EVERDICT_RUN_ID\"; cat > everdict-trace.json <<'T'\n\
                       [{\"t\": 1, \"kind\": \"message\", \"role\": \"assistant\", \"text\": \"from the file\"}]\nT";
        let job = image_job(
            FRONT_DOOR,
            command,
            json!({
                "evalCase": {"task": "it's $(id) {{model}}"},
                "harnessSpec": {"env": {"MODE": "a b"}, "trace": {"kind": "file"}},
            }),
        );
        let result = world.run(job).await.unwrap();
        assert_eq!(answers(&result), ["from the file"]);
        assert!(world.lines().contains(&"said it's $(id) {{model}}".to_owned()), "{:?}", world.lines());
        assert!(world.lines().contains(&"a b evd-run-1".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_files_are_not_visible() {
    in_world("host_files_are_not_visible", async |world| {
        std::fs::write(world.dir.path().join("secret"), "s3cr3t").unwrap();
        let command = format!(
            "cat {}/secret; ls /var/run/docker.sock; env; wc -l < /proc/mounts",
            world.dir.path().display()
        );
        let world = world
            .with_host("EVERDICT_RUNNER_TOKEN", "rnr_x")
            .with_host("SSH_AUTH_SOCK", "/s");
        let result = world.run(image_job(REDIS, &command, json!({}))).await.unwrap();
        let answer = answers(&result).join("\n");
        assert!(
            !answer.contains("s3cr3t") && !answer.contains("docker.sock"),
            "{answer}"
        );
        assert!(
            !answer.contains("rnr_x") && !answer.contains("SSH_AUTH_SOCK"),
            "{answer}"
        );
        assert!(!answer.contains(world.dir.path().to_str().unwrap()), "{answer}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repo_diff_comes_back_with_binary_changes() {
    in_world("repo_diff_comes_back_with_binary_changes", async |world| {
        let env = json!({
            "kind": "repo",
            "source": {"files": {"a.txt": "one\n", "dir/b.txt": "b\n", "gone.txt": "g\n"}},
            "setup": ["echo installed > setup.txt; which git || echo no git here"],
        });
        let command = "cat a.txt setup.txt; echo two >> a.txt; printf '\\000\\377' > bin.dat; rm gone.txt; \
                       printf '#!/bin/sh\\n' > run.sh; chmod +x run.sh; ln -s /etc/passwd link; mkfifo pipe; \
                       rm -rf .git; mkdir .git; printf '[core]\\n fsmonitor = touch /tmp/escaped\\n' > .git/config";
        let grader = json!([{"id": "command", "config": {"cmd": "grep -q two a.txt && test -x run.sh"}}]);
        let job = image_job(REDIS, command, json!({"evalCase": {"env": env, "graders": grader}}));
        let result = world.run(job).await.unwrap();
        assert_eq!(answers(&result), ["one\ninstalled"]);
        let snapshot = serde_json::to_value(&result.snapshot).unwrap();
        assert_eq!(
            snapshot["changedFiles"],
            json!(["a.txt", "bin.dat", "gone.txt", "link", "run.sh"]),
            "{snapshot}"
        );
        let diff = snapshot["diff"].as_str().unwrap();
        for part in ["GIT binary patch", "+two", "deleted file mode", "new file mode 100755", "new file mode 120000"] {
            assert!(diff.contains(part), "{part}: {diff}");
        }
        assert!(!diff.contains("root:"), "a link of the agent's was followed");
        assert!(world.lines().contains(&"no git here".to_owned()));
        assert!(world.lines().iter().any(|line| line.contains("`pipe`: it is no file")), "{:?}", world.lines());
        assert!(!std::path::Path::new("/tmp/escaped").exists(), "an agent's git configuration ran on the host");
        assert_eq!(serde_json::to_value(&result.scores[0]).unwrap()["pass"], true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_setup_in_the_image_is_never_scored() {
    in_world("a_failing_setup_in_the_image", async |world| {
        let env =
            json!({"kind": "repo", "source": {"files": {}}, "setup": ["echo no such package >&2; exit 9"]});
        let fault = world
            .run(image_job(REDIS, "true", json!({"evalCase": {"env": env}})))
            .await
            .unwrap_err();
        assert!(fault.message.contains("evalCase.env.setup[0]"), "{fault}");
        assert!(fault.message.contains("no such package"), "{fault}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_timeout_kills_inside_the_container() {
    in_world("exec_timeout_kills_inside_the_container", async |world| {
        let command = "trap '' TERM; (setsid sleep 300 &); echo partial; sleep 300; sleep 300";
        // The grader runs in the same container, after the time-out: it sees no process of the agent's.
        let grader = json!([{
            "id": "command",
            "config": {"cmd": "for p in /proc/[0-9]*; do cat $p/comm; done; ! cat /proc/[0-9]*/comm | grep -q sleep"}
        }]);
        let job = image_job(REDIS, command, json!({"evalCase": {"timeoutSec": 2, "graders": grader}}));
        let began = Instant::now();
        let result = world.run(job).await.unwrap();
        let (line_at, _) = world.line("partial");
        assert!(line_at - began < Duration::from_secs(12), "the output came only at the end");
        let detail = exit_detail(&result);
        assert_eq!((&detail["timedOut"], &detail["exitCode"]), (&json!(true), &json!(124)), "{detail}");
        assert_eq!(detail["killedAfterGrace"], true, "{detail}");
        assert!(detail["durationMs"].as_u64().unwrap() < 12_000, "{detail}");
        assert_eq!(answers(&result), ["partial"]);
        let score = serde_json::to_value(&result.scores[0]).unwrap();
        assert_eq!(score["pass"], true, "{score}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_leaves_running_is_gone_before_grading() {
    in_world("what_the_agent_leaves_running", async |world| {
        let command = "sleep 300 & echo done";
        let grader = json!([{"id": "command", "config": {"cmd": "! cat /proc/[0-9]*/comm | grep -q sleep"}}]);
        let began = Instant::now();
        let result = world
            .run(image_job(
                REDIS,
                command,
                json!({"evalCase": {"graders": grader}}),
            ))
            .await
            .unwrap();
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "an open pipe held the case up"
        );
        assert_eq!(answers(&result), ["done"]);
        assert_eq!(exit_detail(&result)["exitCode"], 0);
        assert_eq!(serde_json::to_value(&result.scores[0]).unwrap()["pass"], true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_are_the_shells() {
    in_world("exit_codes_are_the_shells", async |world| {
        for (command, code) in [
            ("exit 7", 7),
            ("no-such-program", 127),
            ("/etc/passwd", 126),
            ("kill -9 $$", 137),
        ] {
            let result = world.run(image_job(REDIS, command, json!({}))).await.unwrap();
            assert_eq!(exit_detail(&result)["exitCode"], code, "{command}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_removes_the_container() {
    in_world("cancel_removes_the_container", async |world| {
        let job = image_job(POSTGRES, "echo up; sleep 300", json!({}));
        let run = async {
            let outcome = world.run(job).await;
            (outcome, Instant::now())
        };
        let cancel = async {
            world.until_line("up").await;
            assert_eq!(world.ours().await.len(), 1);
            world.cancel.cancel();
            Instant::now()
        };
        let ((outcome, ended), cancelled) = tokio::join!(run, cancel);
        assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
        assert!(
            ended - cancelled < Duration::from_secs(15),
            "{:?}",
            ended - cancelled
        );
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_case_leaves_no_container() {
    in_world("a_dropped_case", async |world| {
        let job = image_job(REDIS, "echo up; sleep 300", json!({}));
        tokio::select! {
            _ = world.run(job) => panic!("it sleeps"),
            () = world.until_line("up") => {}
        }
        assert_eq!(world.containers.settle().await, Vec::new());
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_is_the_cases_fault() {
    in_world("an_image_that_is_not_there", async |world| {
        let job = image_job("127.0.0.1:1/no/such:1", "true", json!({}));
        let fault = world.run(job).await.unwrap_err();
        assert!(fault.message.contains("127.0.0.1:1/no/such:1"), "{fault}");
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn without_a_daemon_an_image_is_refused() {
    let fault = world::without_docker(image_job(REDIS, "true", json!({})))
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::BadRequest);
    assert!(
        fault.message.contains("evalCase.image") && fault.message.contains("docker"),
        "{fault}"
    );
}
