//! The token in a real Secret Service, on a session bus of the test's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::going::hub;
use crate::support::{Home, Ran};

const DEADLINE: Duration = Duration::from_secs(20);

/// Killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bus and an unlocked keyring on it; `None` where the machine has no such programs.
fn session(dir: &Path) -> Option<(String, Daemon, Daemon)> {
    let address = format!("unix:path={}/bus", dir.display());
    let mut bus = program("dbus-daemon", dir)
        .args(["--session", "--nofork", "--print-address"])
        .arg(format!("--address={address}"))
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(bus.stdout.take()?).read_line(&mut line).ok()?;
    let bus = Daemon(bus);
    let mut keyring = program("gnome-keyring-daemon", dir)
        .args(["--unlock", "--components=secrets", "--foreground"])
        .env("DBUS_SESSION_BUS_ADDRESS", &address)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    keyring.stdin.take()?.write_all(b"password").ok()?;
    Some((address, bus, Daemon(keyring)))
}

fn program(name: &str, home: &Path) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test brings up the session's daemons itself"
    )]
    let mut command = Command::new(name);
    command
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("XDG_DATA_HOME", home.join("share"))
        .stderr(Stdio::null());
    command
}

fn in_session(home: &Home, address: &str, args: &[&str], key: Option<&str>) -> Ran {
    let mut command = home.command(args);
    command.env("DBUS_SESSION_BUS_ADDRESS", address);
    if let Some(key) = key {
        command.env("EVERDICT_API_KEY", key);
    }
    Ran::from(command.output().expect("the binary starts"))
}

fn holds_token(dir: &Path) -> bool {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let path = entry.path();
            if path.is_dir() {
                holds_token(&path)
            } else {
                let bytes = std::fs::read(&path).unwrap_or_default();
                bytes.windows(4).any(|window| window == b"rnr_")
            }
        })
}

#[test]
fn the_token_is_in_the_secret_service_and_nowhere_on_disk() {
    let bus_dir = tempfile::tempdir().expect("temporary folder");
    let Some((address, _bus, _keyring)) = session(bus_dir.path()) else {
        crate::support::skip(
            "the_token_is_in_the_secret_service_and_nowhere_on_disk",
            "needs dbus-daemon and gnome-keyring-daemon",
        );
        return;
    };
    let home = Home::new();
    let hub = hub(&home);
    let end = Instant::now() + DEADLINE;
    let pair = ["pair", "--hub", &hub.url, "--label", "lab", "--json"];
    let paired = loop {
        let ran = in_session(&home, &address, &pair, Some(&hub.key));
        // The daemon needs a moment to take its name on the bus.
        if ran.code == 0 || Instant::now() > end {
            break ran.exits(0).json();
        }
    };
    assert_eq!(paired["runner"]["store"], "keyring");
    let status = in_session(&home, &address, &["status", "--json"], None)
        .exits(0)
        .json();
    assert_eq!(status["runners"][0]["error"], serde_json::Value::Null);
    assert!(!holds_token(&home.path().join("state")) && !holds_token(bus_dir.path()));
    in_session(&home, &address, &["unpair"], None).exits(0);
    in_session(&home, &address, &["start"], None).exits(3);
}
