use crate::support::{Home, Ran};

const SENTENCE: &str = "--pair <rnr_…> (or EVERDICT_RUNNER_TOKEN) is required";

#[test]
fn a_missing_or_misshapen_token_ends_with_1_and_the_known_sentence() {
    let home = Home::new();
    for args in [
        &[][..],
        &["runner"],
        &["--pair", "ak_nope"],
        &["runner", "--pair", "rnr_"],
    ] {
        let ran = home.run(args).exits(1);
        assert!(ran.err.contains(SENTENCE), "{args:?}: {}", ran.err);
    }
    let ran = Ran::from(
        home.command(&["runner"])
            .env("EVERDICT_RUNNER_TOKEN", "nonsense")
            .output()
            .expect("starts"),
    );
    assert!(ran.exits(1).err.contains(SENTENCE));
}

#[test]
fn a_bad_address_is_named_and_nothing_is_written() {
    let home = Home::new();
    let ran = home
        .run(&["--pair", "rnr_abc", "--api-url", "hub.example:8787"])
        .exits(2);
    assert!(
        ran.err
            .contains("\"hub.example:8787\" is not the address of a hub"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("next: use http://hub.example:8787"),
        "{}",
        ran.err
    );
    assert_eq!(std::fs::read_dir(home.path()).expect("home").count(), 0);
}

#[test]
fn flags_of_the_foreground_form_don_t_mix_with_commands() {
    Home::new().run(&["--max-concurrent", "2", "status"]).exits(2);
    Home::new().run(&["--max-concurrent", "0"]).exits(2);
    Home::new().run(&["--wait-ms", "60001"]).exits(2);
}

/// Starts the foreground form at a port where nobody listens, and looks at it from outside.
#[cfg(target_os = "linux")]
#[test]
fn a_token_is_not_to_be_seen_in_proc() {
    use std::io::BufRead as _;
    let home = Home::new();
    let mut command = home.command(&["--pair", "rnr_fromArgv123", "--api-url", "http://127.0.0.1:1"]);
    command
        .env("EVERDICT_RUNNER_TOKEN", "rnr_fromEnv456")
        .env("EVERDICT_API_KEY", "ak_fromEnv789")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("starts");
    // Its first line comes after the secrets were wiped.
    let mut first = String::new();
    std::io::BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut first)
        .expect("a line");
    let proc = std::path::PathBuf::from(format!("/proc/{}", child.id()));
    let seen = ["environ", "cmdline"].map(|name| std::fs::read(proc.join(name)).expect("own child"));
    child.kill().expect("own child");
    child.wait().expect("own child");
    for bytes in seen {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("rnr_") && !text.contains("ak_from"), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn one_interrupt_ends_an_idle_runner_at_once() {
    use std::io::BufRead as _;
    use std::time::{Duration, Instant};
    let home = Home::new();
    let mut command = home.command(&["runner", "--api-url", "http://127.0.0.1:1"]);
    command
        .env("EVERDICT_RUNNER_TOKEN", "rnr_abc")
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut first = String::new();
    std::io::BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut first)
        .expect("a line");
    let pid = i32::try_from(child.id()).expect("a pid fits");
    // SAFETY: plain kill(2) on an own child that was not waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let deadline = Instant::now() + Duration::from_secs(10);
    let status = loop {
        if let Some(status) = child.try_wait().expect("own child") {
            break status;
        }
        assert!(Instant::now() < deadline, "still there 10 s after SIGINT");
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(0));
}
