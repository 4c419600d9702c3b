//! A program that is handed something over belongs to the person.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everdict_exec::{ChildEnv, HostEnv, Launch, hand_over, run};
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(20);

fn script(dir: &Path, text: &str) -> PathBuf {
    let file = dir.join("opener");
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn host() -> HostEnv {
    let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
    HostEnv::from_pairs([
        ("PATH", path.as_str()),
        ("EVERDICT_API_KEY", "ak_x"),
        ("BROWSER", "b"),
    ])
}

#[tokio::test]
async fn what_it_leaves_behind_outlives_it_and_the_clean_up_of_a_launch() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let program = script(
        dir.path(),
        &format!("sleep 300 & echo $! > {}", pid_file.display()),
    );
    let ended = hand_over(&host(), &program, ["x"], LONG).await.unwrap();
    assert!(ended.is_some_and(|status| status.success()));
    let pid: i32 = std::fs::read_to_string(&pid_file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let alive = || Path::new(&format!("/proc/{pid}")).exists();
    let launch = Launch::shell("true", dir.path(), ChildEnv::for_probe(&host()));
    run(launch, None, &CancellationToken::new()).await.unwrap();
    let lives = !cfg!(target_os = "linux") || alive();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    assert!(lives, "a browser would have been killed");
}

#[tokio::test]
async fn it_sees_the_person_s_environment_without_ours_and_its_failure_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let program = script(
        dir.path(),
        r#"test "$1" = a && test "$BROWSER" = b && test -z "$EVERDICT_API_KEY" && exit 3"#,
    );
    let ended = hand_over(&host(), &program, ["a"], LONG).await.unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(3));
    let missing = hand_over(&host(), &dir.path().join("none"), ["a"], LONG).await;
    assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn one_that_stays_in_the_foreground_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let program = script(
        dir.path(),
        &format!("echo $$ > {}; exec sleep 300", pid_file.display()),
    );
    let ended = hand_over(&host(), &program, ["x"], Duration::from_millis(300))
        .await
        .unwrap();
    assert!(ended.is_none());
    let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
    if let Some(pid) = text.trim().parse().ok().and_then(rustix::process::Pid::from_raw) {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}
