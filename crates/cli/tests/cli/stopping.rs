//! Signals while work is going on.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::going::{DEADLINE, Going, Hub, hub, pair, run_body, with_key};
use crate::support::Home;

/// Starts a runner on a case that goes on, and returns it with the process id of the case's shell.
fn busy(home: &Home, hub: &Hub, prefix: &str) -> (Going, String) {
    pair(home, hub);
    let mut runner = Going::start(home, &["start"], &[]);
    let alive = home.path().join("alive");
    let command = format!("{prefix} echo $$ > '{}'; sleep 300", alive.display());
    let file = home.file("slow.json", &run_body("slow", &command, "infra"));
    with_key(home, hub, &["submit", file.to_str().expect("UTF-8")]).exits(0);
    runner.until(|event| event["event"] == "jobStarted");
    let end = Instant::now() + DEADLINE;
    loop {
        match std::fs::read_to_string(&alive) {
            Ok(text) if text.ends_with('\n') => return (runner, text.trim().to_owned()),
            _ => assert!(Instant::now() < end, "the command has started"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid).exists()
}

fn scratch_dirs(home: &Home) -> usize {
    std::fs::read_dir(home.path().join("cache/work")).map_or(0, Iterator::count)
}

#[test]
fn terminate_cancels_what_still_runs_at_its_deadline() {
    let home = Home::new();
    home.file("config/settings.toml", "[runner]\nterm_deadline_s = 1\n");
    let hub = hub(&home);
    let (mut runner, pid) = busy(&home, &hub, "");
    runner.signal(libc::SIGTERM);
    runner.until(|event| event["event"] == "draining");
    runner.until(|event| event["event"] == "cancelling");
    assert_eq!(runner.exit_code(), Some(130));
    assert!(!is_alive(&pid), "process {pid} is gone");
    assert_eq!(scratch_dirs(&home), 0);
}

#[test]
fn a_third_interrupt_leaves_at_once_and_the_next_start_sweeps_up() {
    let home = Home::new();
    let hub = hub(&home);
    let (mut runner, pid) = busy(&home, &hub, "trap '' TERM;");
    for event in ["draining", "cancelling", "stopped"] {
        runner.signal(libc::SIGINT);
        runner.until(|seen| seen["event"] == event);
    }
    assert_eq!(runner.exit_code(), Some(130));
    let _runner = Going::start(&home, &["start"], &[]);
    let end = Instant::now() + DEADLINE;
    while is_alive(&pid) || scratch_dirs(&home) > 0 {
        assert!(Instant::now() < end, "process {pid} and its folder are gone");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_second_interrupt_cancels_what_runs_and_leaves_nothing() {
    let home = Home::new();
    let hub = hub(&home);
    let (mut runner, pid) = busy(&home, &hub, "");
    runner.signal(libc::SIGINT);
    runner.until(|event| event["event"] == "draining");
    runner.signal(libc::SIGINT);
    assert_eq!(runner.exit_code(), Some(130));
    assert!(
        !std::path::Path::new("/proc").join(&pid).exists(),
        "process {pid} is gone"
    );
    let work = home.path().join("cache/work");
    assert_eq!(
        std::fs::read_dir(work).map_or(0, Iterator::count),
        0,
        "no scratch directory is left"
    );
}

#[test]
fn a_second_program_on_the_profile_is_refused_with_the_name_of_the_first() {
    let home = Home::new();
    let hub = hub(&home);
    pair(&home, &hub);
    let mut first = Going::start(&home, &["start"], &[]);
    first.until(|event| event["event"] == "state");
    let holder = format!("everdict-runner start (process {})", first.child.id());
    for second in [&["start"][..], &["ui"]] {
        let refused = home.run(second).exits(6);
        assert!(refused.err.contains(&holder), "{second:?}: {}", refused.err);
    }
    first.signal(libc::SIGINT);
    assert_eq!(first.exit_code(), Some(0));
    let mut next = Going::start(&home, &["start"], &[]);
    next.until(|event| event["event"] == "state");
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let home = Home::new();
    let tmp = home.path().join("tmp");
    std::fs::create_dir(&tmp).expect("folder");
    let mut command = home.command(&["demo"]);
    command.env("TMPDIR", &tmp).stdout(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut demo = Going { child, lines };
    let mut line = String::new();
    while !line.contains("going to sleep") {
        line.clear();
        assert!(
            demo.lines.read_line(&mut line).expect("a line") > 0,
            "the last case has started"
        );
    }
    demo.signal(libc::SIGINT);
    assert_eq!(demo.exit_code(), Some(130));
    assert_eq!(std::fs::read_dir(&tmp).expect("folder").count(), 0);
}
