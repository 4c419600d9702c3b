//! A private desktop for each test, and a panel that shows its tray icons.
#![expect(
    clippy::disallowed_methods,
    reason = "these tests start the programs of a desktop and the app itself"
)]
#![allow(dead_code, unused_imports, reason = "each test program uses its part of this")]

mod desktop;
mod notices;
mod panel;
mod session;
mod team;
mod webdriver;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

pub use desktop::{App, Desktop};
pub use notices::Notices;
pub use panel::Panel;
pub use session::{Keyring, Notifications};
pub use team::TeamHub;
pub use webdriver::Page;

/// What the window manager lists.
pub const WINDOW_TITLE: &str = "Everdict Runner";

/// A cold start of the web view on two busy cores takes some seconds; a hang is told from that by a wide margin.
const DEADLINE: Duration = Duration::from_secs(40);

/// Asks again until `holds`; fails with `what` after the deadline.
pub fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    wait_for(what, DEADLINE, holds);
}

/// As [`wait_until`], for what takes longer by design.
pub fn wait_for(what: &str, deadline: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program under test: the one that cargo built with the tests, or the one that a measurement names.
pub fn app_program() -> std::path::PathBuf {
    std::env::var_os("EVERDICT_APP_UNDER_TEST")
        .map_or_else(|| env!("CARGO_BIN_EXE_everdict-desktop").into(), Into::into)
}

/// Where a measurement wants its figures; `None` where there is none.
pub fn figures_file() -> Option<std::path::PathBuf> {
    std::env::var_os("EVERDICT_FIGURES").map(Into::into)
}

/// Runs the app with nothing but `vars` in its environment.
pub fn app_with_only(vars: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everdict-desktop"))
        .env_clear()
        .envs(vars.iter().copied())
        .output()
        .expect("the app starts")
}

/// Tells whether a process still is, one that nobody has waited for aside.
pub fn is_alive(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with('Z'))
    })
}
