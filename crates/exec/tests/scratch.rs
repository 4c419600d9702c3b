//! Scratch directories go with all that is in them, and nothing else goes with them.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(unix)]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use everdict_exec::{Scratch, find_stale, sweep_stale};
use support::World;

const MARKER: &str = ".everdict-scratch";

#[test]
fn only_this_user_can_enter() {
    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(&root.path().join("new/root")).unwrap();
    for dir in [scratch.path(), scratch.work(), scratch.home(), scratch.tmp()] {
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700, "{}", dir.display());
    }
    assert_eq!(
        scratch.contained("work/a.txt").unwrap(),
        scratch.work().join("a.txt")
    );
    assert!(scratch.contained("../other").is_err());
}

#[tokio::test]
async fn removal_follows_no_links() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("keep"), "mine").unwrap();
    symlink(outside.path(), world.work().join("dir")).unwrap();
    symlink(outside.path().join("keep"), world.work().join("file")).unwrap();
    symlink("/nonexistent", world.work().join("dangling")).unwrap();
    let path = world.scratch.path().to_owned();
    world.scratch.remove().await.unwrap();
    assert!(!path.exists());
    assert_eq!(fs::read_to_string(outside.path().join("keep")).unwrap(), "mine");
}

#[tokio::test]
async fn read_only_trees_long_and_deep_paths_are_removed() {
    let world = World::new();
    let read_only = world.work().join("ro/inner");
    fs::create_dir_all(&read_only).unwrap();
    fs::write(read_only.join("file"), "x").unwrap();
    for dir in [&read_only, &world.work().join("ro")] {
        fs::set_permissions(dir, Permissions::from_mode(0o500)).unwrap();
    }
    let closed = world.work().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    // Longer than any path the system takes, and deeper than the descriptors a process may hold.
    let line = "i=0; while [ $i -lt 400 ]; do mkdir deep-directory && cd -P deep-directory || exit 1; i=$((i+1)); done; touch end";
    let exit = world.sh(line).await;
    assert!(exit.success(), "{}", exit.stderr.text());
    fs::write(world.work().join("n".repeat(250)), "x").unwrap();
    let path = world.scratch.path().to_owned();
    assert_eq!(world.scratch.remove().await, Ok(()));
    assert!(!path.exists());
}

#[test]
fn a_dropped_scratch_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(root.path()).unwrap();
    fs::write(scratch.work().join("x"), "x").unwrap();
    drop(scratch);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

fn make(root: &Path, name: &str, marker: Option<&str>) {
    fs::create_dir_all(root.join(name).join("work")).unwrap();
    if let Some(marker) = marker {
        fs::write(root.join(name).join(MARKER), marker).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn only_scratches_of_dead_owners_are_swept() {
    let root = tempfile::tempdir().unwrap();
    let alive = Scratch::create(root.path()).unwrap();
    let marker = fs::read_to_string(alive.path().join(MARKER)).unwrap();
    let started = marker.lines().find(|line| line.starts_with("started=")).unwrap();
    // Same number, another start: the process that owned it is gone.
    make(
        root.path(),
        "everdict-reused",
        Some(&marker.replace(started, "started=1")),
    );
    make(
        root.path(),
        "everdict-other-boot",
        Some(&marker.replace("boot=", "boot=0")),
    );
    make(root.path(), "everdict-no-marker", None);
    make(
        root.path(),
        "everdict-nonsense",
        Some("pid=-1\nstarted=x\nboot=\n"),
    );
    make(
        root.path(),
        "somebody-elses",
        Some(&marker.replace(started, "started=1")),
    );
    let away = tempfile::tempdir().unwrap();
    make(away.path(), "target", Some(&marker.replace(started, "started=1")));
    symlink(away.path().join("target"), root.path().join("everdict-link")).unwrap();

    let (stale, _) = find_stale(root.path());
    let report = sweep_stale(root.path());
    assert_eq!(stale, report.removed, "what is listed is what goes");
    let names = |paths: &[std::path::PathBuf]| {
        let mut names: Vec<_> = paths
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&report.removed), ["everdict-other-boot", "everdict-reused"]);
    assert_eq!(
        names(&report.unverified),
        ["everdict-link", "everdict-no-marker", "everdict-nonsense"]
    );
    assert_eq!(report.leftovers, []);
    for kept in [
        "everdict-no-marker",
        "everdict-nonsense",
        "everdict-link",
        "somebody-elses",
    ] {
        assert!(root.path().join(kept).exists(), "{kept} was removed");
    }
    assert!(alive.path().exists() && away.path().join("target").exists());
    assert_eq!(
        sweep_stale(&root.path().join("missing")),
        everdict_exec::SweepReport::default()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_runner_left_running_goes_before_its_scratch() {
    use std::os::unix::process::CommandExt as _;

    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(root.path()).unwrap();
    let marker = fs::read_to_string(scratch.path().join(MARKER)).unwrap();
    let value = |name: &str| {
        marker
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .to_owned()
    };
    // As this process would be after its end: same number, another start.
    let mark = || uuid::Uuid::new_v4().simple().to_string();
    let (dead, alive) = (mark(), mark());
    let stale = marker
        .replace(&value("started="), "1")
        .replace(&value("instance="), &dead);
    make(root.path(), "everdict-stale", Some(&stale));
    #[expect(clippy::disallowed_methods, reason = "stands for a child of another process")]
    let sleeper = |mark: &str| {
        let mut command = std::process::Command::new("sleep");
        command
            .arg("600")
            .env("EVERDICT_LAUNCH_ID", format!("{mark}.7"))
            .process_group(0)
            .spawn()
            .unwrap()
    };
    let (mut left, mut other) = (sleeper(&dead), sleeper(&alive));
    // A spawn returns while the system still sets up the new program: its environment can be read a moment later.
    for (child, mark) in [(&left, &dead), (&other, &alive)] {
        let environ = format!("/proc/{}/environ", child.id());
        let end = std::time::Instant::now() + support::PATIENCE;
        while !fs::read(&environ).is_ok_and(|text| String::from_utf8_lossy(&text).contains(mark.as_str())) {
            assert!(std::time::Instant::now() < end, "{environ} never showed its mark");
            std::thread::yield_now();
        }
    }

    let report = sweep_stale(root.path());
    assert_eq!(
        report
            .killed
            .iter()
            .map(|process| process.pid)
            .collect::<Vec<_>>(),
        [i32::try_from(left.id()).unwrap()]
    );
    assert_eq!(report.removed, [root.path().join("everdict-stale")]);
    assert!(!left.wait().unwrap().success());
    assert!(
        other.try_wait().unwrap().is_none(),
        "a process of somebody else was killed"
    );
    other.kill().unwrap();
    other.wait().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_noted_group_goes_with_what_shed_its_mark_and_a_reused_number_is_nobodys() {
    use std::os::unix::process::CommandExt as _;

    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(root.path()).unwrap();
    let marker = fs::read_to_string(scratch.path().join(MARKER)).unwrap();
    let started = marker.lines().find(|line| line.starts_with("started=")).unwrap();
    make(
        root.path(),
        "everdict-stale",
        Some(&marker.replace(started, "started=1")),
    );
    #[expect(clippy::disallowed_methods, reason = "stands for a child of another process")]
    let group = |line: &str| {
        let mut command = std::process::Command::new("/bin/sh");
        command
            .args(["-c", line])
            .env_clear()
            .process_group(0)
            .spawn()
            .unwrap()
    };
    let time = support::odd_sleep();
    let mut ours = group(&format!("sleep {time} & sleep {time}; :"));
    let mut other = group("sleep 600; :");
    let start_of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1.to_owned();
        after_name.split_whitespace().nth(19).unwrap().to_owned()
    };
    let end = std::time::Instant::now() + support::PATIENCE;
    while support::sleepers(&time).len() < 2 {
        assert!(std::time::Instant::now() < end, "the group never came up");
        std::thread::yield_now();
    }
    // The second as if its number had been another's when it was noted.
    let notes = format!(
        "{} {}\n{} 1\nnonsense\n",
        ours.id(),
        start_of(ours.id()),
        other.id()
    );
    fs::write(root.path().join("everdict-stale/.everdict-groups"), notes).unwrap();

    let report = sweep_stale(root.path());
    assert_eq!(report.killed.len(), 3, "{:?}", report.killed);
    assert_eq!(support::sleepers(&time), Vec::<i32>::new());
    assert!(!ours.wait().unwrap().success());
    assert!(
        other.try_wait().unwrap().is_none(),
        "somebody else's group was killed"
    );
    end_group(&other);
    other.wait().unwrap();
}

/// Ends a group of this test's own.
#[cfg(target_os = "linux")]
fn end_group(leader: &std::process::Child) {
    let group = rustix::process::Pid::from_raw(i32::try_from(leader.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
}
