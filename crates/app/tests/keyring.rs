//! Pairing with the keyring of a session of the test's own: a real Secret Service, or none at all.
//!
//! The keyring is found by the environment of the process, so each case runs in a process of its own: this program, started
//! again for one of the ignored tests.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_app::control::{AppState, Control, ControlOptions, KeyringState, Leave, TokenPlace};
use everdict_app::{ContainerOptions, EnvSecrets, Paths, Registrations, Settings};
use everdict_exec::HostEnv;

/// The daemon takes its name on the bus within a second; a hang is told from that by a wide margin.
const DEADLINE: Duration = Duration::from_secs(20);

/// Killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(name: &str, home: &Path) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test brings up the session's daemons, and itself in that session"
    )]
    let mut command = Command::new(name);
    command
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("XDG_DATA_HOME", home.join("share"))
        .env("DBUS_SESSION_BUS_ADDRESS", address(home));
    command
}

fn address(home: &Path) -> String {
    format!("unix:path={}/bus", home.display())
}

/// A bus that starts nothing by itself; `None` where the machine has no such program.
fn bus(home: &Path) -> Option<Daemon> {
    let config = home.join("bus.conf");
    let text = format!(
        "<busconfig><type>session</type><listen>{}</listen><auth>EXTERNAL</auth><policy context=\"default\">\
         <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>",
        address(home)
    );
    std::fs::write(&config, text).unwrap();
    let mut bus = program("dbus-daemon", home)
        .arg(format!("--config-file={}", config.display()))
        .args(["--nofork", "--nopidfile", "--print-address=1"])
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(bus.stdout.take()?).read_line(&mut line).ok()?;
    Some(Daemon(bus))
}

fn keyring(home: &Path) -> Option<Daemon> {
    let mut keyring = program("gnome-keyring-daemon", home)
        .args(["--unlock", "--components=secrets", "--foreground"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    keyring.stdin.take()?.write_all(b"password").ok()?;
    Some(Daemon(keyring))
}

/// Runs one of the ignored tests in the session of `home`.
fn in_session(home: &Path, test: &str) {
    let this = std::env::current_exe().unwrap();
    let ran = program(this.to_str().unwrap(), home)
        .args(["--ignored", "--exact", "--nocapture", test])
        .env("EVERDICT_TEST_HOME", home.join("everdict"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let trouble = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{said}{trouble}"
    );
}

fn skip(test: &str) {
    let line = format!("SKIPPED {test}: needs dbus-daemon and gnome-keyring-daemon");
    eprintln!("{line}");
    if let Some(log) = HostEnv::capture().get("EVERDICT_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut file| writeln!(file, "{line}")).unwrap();
    }
}

#[test]
fn the_token_goes_into_the_keyring_and_nowhere_else_and_leaves_with_the_pairing() {
    let home = tempfile::tempdir().unwrap();
    let Some((_bus, _keyring)) = bus(home.path()).and_then(|bus| Some((bus, keyring(home.path())?))) else {
        skip("the_token_goes_into_the_keyring_and_nowhere_else_and_leaves_with_the_pairing");
        return;
    };
    in_session(home.path(), "with_a_keyring");
}

#[test]
fn without_a_keyring_a_pairing_says_so_and_a_file_is_used_only_when_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let Some(_bus) = bus(home.path()) else {
        skip("without_a_keyring_a_pairing_says_so_and_a_file_is_used_only_when_asked_for");
        return;
    };
    in_session(home.path(), "without_a_keyring");
}

fn test_home() -> std::path::PathBuf {
    HostEnv::capture()
        .get("EVERDICT_TEST_HOME")
        .expect("started by its sibling")
        .into()
}

fn start(home: &Path) -> Control {
    let paths = Paths::under(home);
    let text =
        "[hub]\nlisten = \"127.0.0.1:0\"\n[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n";
    let settings = Settings::parse("settings.toml", text).unwrap();
    let mut containers = ContainerOptions::new(&paths, &settings, "test");
    containers.watchdog = None;
    let env = Arc::new(HostEnv::default());
    Control::start(ControlOptions {
        program: "a test",
        containers,
        secrets: EnvSecrets::default(),
        env,
        paths,
        settings,
        version: "0.0.0-test".to_owned(),
        tray_host: false,
        autostart: None,
    })
    .unwrap()
}

async fn until(control: &Control, wanted: AppState) {
    let end = Instant::now() + DEADLINE;
    while control.snapshot().state != wanted {
        assert!(Instant::now() < end, "{:#?}", control.snapshot());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn holds_secret(dir: &Path) -> bool {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let path = entry.path();
            if path.is_dir() {
                return holds_secret(&path);
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            bytes.windows(4).any(|part| part == b"rnr_") || bytes.windows(3).any(|part| part == b"ak_")
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a session of its own; a sibling starts it"]
async fn with_a_keyring() {
    let home = test_home();
    let control = start(&home);
    let end = Instant::now() + DEADLINE;
    loop {
        match control.pair_this_computer("bench", TokenPlace::Settings).await {
            Ok(()) => break,
            // The daemon needs a moment to take its name on the bus; a failed pairing leaves nothing in the way.
            Err(problem) if problem.code().starts_with("keyring_") && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(problem) => panic!("{}: {}", problem.code(), problem.chain()),
        }
    }
    until(&control, AppState::Idle).await;
    assert_eq!(control.snapshot().keyring, KeyringState::Ok);
    assert!(!holds_secret(&home), "a secret is on disk");
    let runner = control.snapshot().runners[0].id.clone();
    control.leave(Leave::Now).await;
    drop(control);
    // A restart finds the token in the keyring.
    let control = start(&home);
    until(&control, AppState::Idle).await;
    control.submit_sample().await.unwrap();
    control.unpair(&runner).await.unwrap();
    assert_eq!(control.snapshot().state, AppState::Unpaired);
    let again = control.unpair(&runner).await.unwrap_err();
    assert_eq!(again.code(), "runner_unknown");
    control.leave(Leave::Now).await;
    assert!(!holds_secret(&home));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a session of its own; a sibling starts it"]
async fn without_a_keyring() {
    let home = test_home();
    let control = start(&home);
    let problem = control
        .pair_this_computer("bench", TokenPlace::Settings)
        .await
        .unwrap_err();
    assert_eq!(problem.code(), "keyring_unavailable", "{}", problem.chain());
    assert!(problem.next_step().is_some());
    assert_eq!(control.snapshot().keyring, KeyringState::Unavailable);
    let paths = Paths::under(&home);
    assert_eq!(Registrations::at(paths.registrations_file()).list().unwrap(), []);
    assert!(!paths.hub_dir().exists() && !holds_secret(&home));
    control
        .pair_this_computer("bench", TokenPlace::File)
        .await
        .unwrap();
    until(&control, AppState::Idle).await;
    control.leave(Leave::Now).await;
}
