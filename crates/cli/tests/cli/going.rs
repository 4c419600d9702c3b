//! Commands that go on, and a hub with its key.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Home, Ran};

/// Generous: the machine may build other things meanwhile.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A command that goes on and prints NDJSON; killed on drop.
pub struct Going {
    pub child: Child,
    pub lines: BufReader<ChildStdout>,
}

impl Going {
    pub fn start(home: &Home, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = home.command(args);
        command
            .arg("--json")
            .envs(env.iter().copied())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    /// Reads on until an event for which `wanted` holds.
    pub fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("a line");
            assert!(read > 0, "it ended before the event came");
            let event: Value = serde_json::from_str(&line).expect("NDJSON");
            if wanted(&event) {
                return event;
            }
        }
    }

    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a pid fits");
        // SAFETY: plain kill(2) on an own child that was not waited for.
        unsafe { libc::kill(pid, signal) };
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("own child") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("still there after {DEADLINE:?}");
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A hub process with its first key.
pub struct Hub {
    pub going: Going,
    pub url: String,
    pub key: String,
}

/// Starts a hub on a free port in `home`.
pub fn hub(home: &Home) -> Hub {
    let mut going = Going::start(home, &["hub", "--listen", "127.0.0.1:0"], &[]);
    let event = going.until(|event| event["event"] == "listening");
    let text = |name: &str| event[name].as_str().expect("a string").to_owned();
    Hub {
        url: text("url"),
        key: text("apiKey"),
        going,
    }
}

pub fn with_key(home: &Home, hub: &Hub, args: &[&str]) -> Ran {
    let mut command = home.command(args);
    command
        .env("EVERDICT_API_KEY", &hub.key)
        .env("EVERDICT_API_URL", &hub.url);
    Ran::from(command.output().expect("the binary starts"))
}

pub fn run_body(id: &str, command: &str, expect: &str) -> String {
    json!({
        "expect": expect,
        "harnessSpec": {"kind": "command", "id": "h", "version": "1", "command": command},
        "case": {"id": id, "env": {"kind": "prompt"}, "task": "t", "expected": "42",
                 "graders": [{"id": "answer-match", "config": {"mode": "contains"}}], "timeoutSec": 60},
    })
    .to_string()
}

pub fn pair(home: &Home, hub: &Hub) {
    let args = ["pair", "--token-store", "file", "--label", "lab", "--json"];
    let paired = with_key(home, hub, &args).exits(0).json();
    assert_eq!(paired["token"], Value::Null, "a kept token is not shown");
}
