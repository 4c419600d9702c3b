//! Notifications on a session bus of the test's own: with something that shows them, with something that refuses, and with
//! nothing.
//!
//! The bus is found by the environment of the process, so each case runs in a process of its own: this program, started
//! again for one of the ignored tests.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use everdict_app::control::NoticesState;
use everdict_app::notices::Post;
use everdict_exec::HostEnv;
use zbus::zvariant::OwnedValue;

/// Killed on drop.
struct Bus(Child, String);

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test brings up a bus, and itself on it"
)]
fn program(name: &str) -> Command {
    Command::new(name)
}

/// A bus that starts nothing by itself; `None` where the machine has no such program.
fn bus(home: &Path) -> Option<Bus> {
    let config = home.join("bus.conf");
    let text = format!(
        "<busconfig><type>session</type><listen>unix:path={}/bus</listen><auth>EXTERNAL</auth>\
         <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/>\
         <allow own=\"*\"/></policy></busconfig>",
        home.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut bus = program("dbus-daemon")
        .arg(format!("--config-file={}", config.display()))
        .args(["--nofork", "--nopidfile", "--print-address=1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(bus.stdout.take()?).read_line(&mut line).ok()?;
    Some(Bus(bus, line.trim().to_owned()))
}

/// Runs one of the ignored tests on the bus.
fn on_the_bus(bus: &Bus, test: &str) {
    let this = std::env::current_exe().unwrap();
    let ran = program(this.to_str().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .env("DBUS_SESSION_BUS_ADDRESS", &bus.1)
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
    let line = format!("SKIPPED {test}: needs dbus-daemon");
    eprintln!("{line}");
    if let Some(log) = HostEnv::capture().get("EVERDICT_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut file| writeln!(file, "{line}")).unwrap();
    }
}

type Shown = Arc<Mutex<Vec<(String, String, String)>>>;

/// What a desktop has for notifications.
struct Daemon {
    shown: Shown,
    refuses: bool,
}

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Daemon {
    #[expect(clippy::too_many_arguments, reason = "the interface has so many")]
    fn notify(
        &self,
        app: &str,
        _replaces: u32,
        _icon: &str,
        summary: &str,
        body: &str,
        _actions: Vec<String>,
        _hints: std::collections::HashMap<String, OwnedValue>,
        _expires: i32,
    ) -> zbus::fdo::Result<u32> {
        if self.refuses {
            return Err(zbus::fdo::Error::AccessDenied("not for this app".to_owned()));
        }
        let mut shown = self.shown.lock().unwrap();
        shown.push((app.to_owned(), summary.to_owned(), body.to_owned()));
        Ok(u32::try_from(shown.len()).unwrap())
    }

    fn get_server_information(&self) -> (String, String, String, String) {
        let text = str::to_owned;
        (text("test"), text("test"), text("1"), text("1.2"))
    }
}

async fn serve(address: &str, refuses: bool) -> (zbus::Connection, Shown) {
    let shown = Shown::default();
    let daemon = Daemon {
        shown: Arc::clone(&shown),
        refuses,
    };
    let serving = zbus::connection::Builder::address(address)
        .unwrap()
        .serve_at("/org/freedesktop/Notifications", daemon)
        .unwrap()
        .name("org.freedesktop.Notifications")
        .unwrap()
        .build()
        .await
        .unwrap();
    (serving, shown)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_arrives_as_plain_text_under_the_app_s_name() {
    let home = tempfile::tempdir().unwrap();
    let Some(bus) = bus(home.path()) else {
        return skip("a_notification_arrives_as_plain_text_under_the_app_s_name");
    };
    let (_serving, shown) = serve(&bus.1, false).await;
    tokio::task::block_in_place(|| on_the_bus(&bus, "where_they_are_shown"));
    let shown = shown.lock().unwrap().clone();
    let text = str::to_owned;
    assert_eq!(
        shown,
        [(
            text("Everdict Runner"),
            text("3 jobs done"),
            text("2 passed, 1 bfailed/b")
        )]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_desktop_that_refuses_is_told_from_one_that_shows_nothing() {
    let home = tempfile::tempdir().unwrap();
    let Some(bus) = bus(home.path()) else {
        return skip("a_desktop_that_refuses_is_told_from_one_that_shows_nothing");
    };
    tokio::task::block_in_place(|| on_the_bus(&bus, "where_nothing_shows_them"));
    let (_serving, shown) = serve(&bus.1, true).await;
    tokio::task::block_in_place(|| on_the_bus(&bus, "where_they_are_refused"));
    assert!(shown.lock().unwrap().is_empty());
}

#[tokio::test]
#[ignore = "started by another test, on a bus of its own"]
async fn where_they_are_shown() {
    assert_eq!(Post.ask().await, NoticesState::Ok);
    let shown = Post.show("3 jobs done", "2 passed, 1 <b>failed</b>\u{1b}").await;
    assert_eq!(shown, NoticesState::Ok);
}

#[tokio::test]
#[ignore = "started by another test, on a bus of its own"]
async fn where_nothing_shows_them() {
    assert_eq!(Post.ask().await, NoticesState::Unavailable);
    assert_eq!(Post.show("a", "b").await, NoticesState::Unavailable);
}

#[tokio::test]
#[ignore = "started by another test, on a bus of its own"]
async fn where_they_are_refused() {
    assert_eq!(
        Post.ask().await,
        NoticesState::Ok,
        "refusing shows with the first one only"
    );
    assert_eq!(Post.show("a", "b").await, NoticesState::Denied);
}
