//! Repositories: how they come, and what is seen of them afterwards.

use std::path::Path;

use everdict_exec::{ChildEnv, Launch, run};
use serde_json::json;

use super::*;

/// Runs a shell line in a directory of the test.
async fn sh(dir: &Path, line: &str) -> String {
    let host = HostEnv::from_pairs([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let mut env = ChildEnv::for_job(&host, dir);
    for role in ["AUTHOR", "COMMITTER"] {
        env.set(format!("GIT_{role}_NAME"), "t")
            .set(format!("GIT_{role}_EMAIL"), "t@example.invalid");
    }
    env.set("TMPDIR", dir);
    let exit = run(Launch::shell(line, dir, env), None, &CancellationToken::new())
        .await
        .unwrap();
    assert!(exit.success(), "{line}: {}", exit.stderr.text());
    exit.stdout.text().trim().to_owned()
}

/// A repository with two commits; returns the first one's id.
async fn origin(dir: &Path) -> String {
    let line = "git init -q -b main . && echo one > a.txt && git add -A && git commit -q -m one && git rev-parse HEAD && \
                echo two > a.txt && git commit -q -a -m two";
    sh(dir, line).await
}

#[tokio::test]
async fn a_git_source_is_checked_out_at_its_ref() {
    let world = World::new();
    let dir = TempDir::new().unwrap();
    let first = origin(dir.path()).await;
    let url = format!("file://{}", dir.path().display());
    let source = json!({ "kind": "repo", "source": { "git": url, "ref": first } });
    let result = world
        .run(command_job(
            "cat a.txt; echo three > a.txt",
            json!({ "evalCase": { "env": source } }),
        ))
        .await
        .unwrap();
    assert_eq!(answers(&result), ["one"]);
    let snapshot = serde_json::to_value(&result.snapshot).unwrap();
    assert_eq!(snapshot["changedFiles"], json!(["a.txt"]));
    assert!(
        snapshot["diff"].as_str().unwrap().contains("-one\n+three"),
        "{snapshot}"
    );
}

#[tokio::test]
async fn failed_clone_is_never_scored() {
    let world = World::new();
    let mark = world.dir.path().join("ran");
    for (git, git_ref) in [("file:///no/such/repository", "main"), ("", "no-such-ref")] {
        let dir = TempDir::new().unwrap();
        origin(dir.path()).await;
        let git = if git.is_empty() {
            format!("file://{}", dir.path().display())
        } else {
            git.to_owned()
        };
        let source = json!({ "kind": "repo", "source": { "git": git, "ref": git_ref } });
        let change = json!({ "evalCase": { "env": source, "graders": [{ "id": "steps" }] } });
        let outcome = world
            .run(command_job(&format!("touch {}", mark.display()), change))
            .await;
        let fault = outcome.expect_err("a case without its repository has no result");
        assert!(!mark.exists(), "the agent ran without its repository");
        assert!(!fault.message.is_empty());
    }
}

#[tokio::test]
async fn a_path_source_is_a_copy() {
    let world = World::new();
    let dir = TempDir::new().unwrap();
    origin(dir.path()).await;
    let source = json!({ "kind": "repo", "source": { "path": dir.path() } });
    let change = json!({ "evalCase": { "env": source } });
    let result = world
        .run(command_job(
            "echo changed > a.txt; git add -A; git commit -q -m agent",
            change,
        ))
        .await
        .unwrap();
    let snapshot = serde_json::to_value(&result.snapshot).unwrap();
    assert_eq!(
        snapshot["changedFiles"],
        json!(["a.txt"]),
        "what the agent committed counts too"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("a.txt")).unwrap(),
        "two\n"
    );
    assert_eq!(
        sh(dir.path(), "git status --porcelain; git log --oneline | wc -l").await,
        "2"
    );
}

#[tokio::test]
async fn the_snapshot_has_the_agents_changes_and_not_the_setup() {
    let env = json!({ "kind": "repo", "source": { "files": { "a.txt": "hi\n" } }, "setup": ["echo s > setup.txt"] });
    let command = "echo more >> a.txt; printf '\\000\\001' > bin.dat; rm -f setup.txt.bak";
    let result = World::new()
        .run(command_job(command, json!({ "evalCase": { "env": env } })))
        .await
        .unwrap();
    let snapshot = serde_json::to_value(&result.snapshot).unwrap();
    assert_eq!(snapshot["changedFiles"], json!(["a.txt", "bin.dat"]));
    assert!(
        snapshot["diff"].as_str().unwrap().contains("GIT binary patch"),
        "{snapshot}"
    );
    assert_eq!(snapshot["headSha"].as_str().unwrap().len(), 40);
}

#[tokio::test]
async fn a_failing_environment_setup_is_never_scored() {
    let env = json!({ "kind": "repo", "source": { "files": {} }, "setup": ["echo no network >&2; exit 9"] });
    let fault = World::new()
        .run(command_job("true", json!({ "evalCase": { "env": env } })))
        .await
        .unwrap_err();
    assert!(fault.message.contains("no network"), "{fault}");
}

#[tokio::test]
async fn inline_files_stay_inside() {
    let world = World::new();
    let fault = world
        .run(command_job(
            "true",
            json!({ "evalCase": { "env": repo(json!({ "../../x": "" })) } }),
        ))
        .await
        .unwrap_err();
    assert!(fault.message.contains("../../x"), "{fault}");
    assert!(!world.dir.path().join("x").exists());
}
