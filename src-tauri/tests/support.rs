//! A private desktop for each test, and a panel that shows its tray icons.
#![expect(
    clippy::disallowed_methods,
    reason = "these tests start the programs of a desktop and the app itself"
)]

mod desktop;
mod notices;
mod panel;
mod team;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

pub use desktop::Desktop;
pub use notices::Notices;
pub use panel::Panel;
pub use team::TeamHub;

/// What the window manager lists.
pub const WINDOW_TITLE: &str = "Everdict Runner";

/// A cold start of the web view on two busy cores takes some seconds; a hang is told from that by a wide margin.
const DEADLINE: Duration = Duration::from_secs(40);

/// Asks again until `holds`; fails with `what` after the deadline.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
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
