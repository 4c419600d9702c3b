//! A job sees only what it was given.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(unix)]

mod support;

use everdict_exec::{ChildEnv, HostEnv, Launch, probe, run};
use std::time::Duration;
use support::World;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn host_secrets_do_not_reach_the_child() {
    let world = World::new();
    let host = HostEnv::from_pairs([
        ("PATH", "/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("EVERDICT_RUNNER_TOKEN", "rnr_hush"),
        ("EVERDICT_API_URL", "http://hub"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
        ("GITHUB_TOKEN", "hush"),
        ("SSH_AUTH_SOCK", "/run/hush"),
        ("DOCKER_CONFIG", "/hush"),
        ("OPENAI_API_KEY", "hush"),
    ]);
    let mut env = ChildEnv::for_scratch(&host, &world.scratch);
    env.set("DECLARED", "yes");
    let launch = Launch::argv(["env"], world.work(), env);
    let exit = run(launch, None, &CancellationToken::new()).await.unwrap();
    let seen = exit.stdout.text();
    assert!(!seen.contains("hush"), "{seen}");
    let mut names: Vec<&str> = seen.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["DECLARED", "EVERDICT_LAUNCH_ID", "HOME", "LANG", "PATH", "TMPDIR"]
    );
}

#[tokio::test]
async fn home_and_tmp_are_in_the_scratch() {
    let world = World::new();
    let exit = world
        .sh("echo $HOME; echo $TMPDIR; touch $HOME/a $TMPDIR/b")
        .await;
    let expected = format!(
        "{}\n{}\n",
        world.scratch.home().display(),
        world.scratch.tmp().display()
    );
    assert_eq!(
        (exit.stdout.text(), exit.stderr.text()),
        (expected, String::new())
    );
}

#[tokio::test]
async fn a_probe_answers_and_is_bounded() {
    let host = HostEnv::capture();
    let answer = probe(
        &host,
        &["sh", "-c", "echo v1; echo w >&2; exit 2"],
        Duration::from_secs(10),
    )
    .await
    .unwrap();
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("v1\n", "w\n"));
    assert_eq!(answer.status, everdict_exec::ExitStatus::Exited(2));
    let slow = probe(&host, &["sleep", "600"], Duration::from_millis(50))
        .await
        .unwrap();
    assert_eq!(slow.status, everdict_exec::ExitStatus::TimedOut);
    assert!(
        probe(&host, &["no-such-program-here"], Duration::from_secs(1))
            .await
            .is_err()
    );
}
