//! Who this process is, and whether another one is still alive: what proves that an object has lost its owner.

use std::path::Path;

use crate::labels::Owner;

/// What is known about the process that made an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Alive,
    /// It has ended for certain: the machine has been started anew since, or nothing with that number and start runs.
    Dead,
    /// Can't be told on this system.
    Unknown,
}

/// Returns the owner that this process is.
pub fn this_owner(install: impl Into<String>, runner: impl Into<String>) -> Owner {
    let pid = std::process::id();
    Owner {
        install: install.into(),
        runner: runner.into(),
        pid,
        start: start_of(pid).unwrap_or_else(|| UNKNOWN.to_owned()),
        boot: boot_id(),
    }
}

/// Stands for a fact that this system doesn't tell; equal to nothing.
const UNKNOWN: &str = "unknown";

/// Tells whether the process that `owner` names is still alive.
pub fn life_of(owner: &Owner) -> Life {
    let boot = boot_id();
    if boot == UNKNOWN || owner.boot == UNKNOWN || owner.start == UNKNOWN {
        return Life::Unknown;
    }
    let (owner_kernel, owner_space) = split_boot(&owner.boot);
    let (kernel, space) = split_boot(&boot);
    if owner_kernel != kernel {
        return Life::Dead;
    }
    if owner_space != space {
        // A runner in a container with processes of its own: its numbers mean nothing here.
        return Life::Unknown;
    }
    match start_of(owner.pid) {
        Some(start) if start == owner.start => Life::Alive,
        _ => Life::Dead,
    }
}

/// Identifies the running kernel and the set of processes that is seen from here: in another container the same number
/// means another process.
fn boot_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let space: String = space
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    if boot.trim().is_empty() {
        UNKNOWN.to_owned()
    } else {
        format!("{}.{space}", boot.trim())
    }
}

fn split_boot(boot: &str) -> (&str, &str) {
    boot.split_once('.').unwrap_or((boot, ""))
}

/// When a process started, in clock ticks since boot; `None` when there is none, or it is a zombie.
fn start_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    parse_stat(&stat)
}

/// Reads the start time out of a `stat` line. The name in it may hold spaces and parentheses.
fn parse_stat(stat: &str) -> Option<String> {
    /// Fields after the name: state is the first, start time the 20th.
    const START: usize = 19;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.clone().next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(START).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Life, life_of, parse_stat, this_owner};

    #[test]
    fn a_start_time_is_read_past_any_name_and_a_zombie_has_none() {
        let line =
            |state: &str| format!("7 (a) b (c) {state} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20");
        assert_eq!(parse_stat(&line("S")).as_deref(), Some("4711"));
        assert_eq!(parse_stat(&line("Z")), None);
        assert_eq!(parse_stat(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_alive_and_its_later_namesake_is_another() {
        let me = this_owner("i", "r");
        assert_eq!(life_of(&me), Life::Alive);
        let mut later = me.clone();
        later.start = "1".to_owned();
        assert_eq!(life_of(&later), Life::Dead);
        let mut earlier_boot = me.clone();
        earlier_boot.boot = "another".to_owned();
        assert_eq!(life_of(&earlier_boot), Life::Dead);
        let mut elsewhere = me.clone();
        elsewhere.boot.push('0');
        assert_eq!(life_of(&elsewhere), Life::Unknown);
        let mut unknown = me;
        unknown.boot = "unknown".to_owned();
        assert_eq!(life_of(&unknown), Life::Unknown);
    }
}
