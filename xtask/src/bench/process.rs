//! A child process that is measured from outside, through /proc, and ended by id.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ToolResult;

/// How long a child gets to drain after SIGTERM before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Linux reports process times in ticks of 1/100 s on every architecture (USER_HZ).
const MS_PER_TICK: f64 = 10.0;

/// A running binary under measurement.
pub(super) struct Measured {
    child: Child,
    name: &'static str,
}

impl Measured {
    pub(super) fn start(name: &'static str, command: &mut Command) -> ToolResult<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("could not start {name}: {error}"))?;
        Ok(Self { child, name })
    }

    /// CPU time of the process itself, all threads that ever ran, without its children, in milliseconds.
    pub(super) fn cpu_ms(&self) -> ToolResult<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The command name may hold spaces and brackets: fields are counted from behind it.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut times = fields
            .split_whitespace()
            .skip(11)
            .map(|ticks| ticks.parse::<f64>().unwrap_or(0.0));
        let ticks = times.next().unwrap_or(0.0) + times.next().unwrap_or(0.0);
        Ok(ticks * MS_PER_TICK)
    }

    /// A memory field of /proc/<pid>/status (`VmRSS`, `VmHWM`), in megabytes.
    pub(super) fn memory_mb(&self, field: &str) -> ToolResult<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with(field));
        let kb = line
            .and_then(|line| line.split_whitespace().nth(1))
            .and_then(|kb| kb.parse::<f64>().ok());
        kb.map(|kb| kb / 1024.0)
            .ok_or_else(|| format!("{}: no {field} in /proc", self.name).into())
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let deadline = Instant::now() + STOP_GRACE;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!(
            "{} did not stop on SIGTERM within {STOP_GRACE:?}: killing it",
            self.name
        );
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
