//! What the tests of this crate share: a scratch directory, launches in it, and a look at the process table.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everdict_exec::{ChildEnv, Exit, HostEnv, Launch, OutputSink, Scratch, Stream, run};
use tokio_util::sync::CancellationToken;

/// Far beyond what any wait here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct World {
    pub root: tempfile::TempDir,
    pub scratch: Scratch,
    pub env: ChildEnv,
}

impl World {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(root.path()).unwrap();
        let env = ChildEnv::for_scratch(&HostEnv::capture(), &scratch);
        Self { root, scratch, env }
    }

    pub fn work(&self) -> &Path {
        self.scratch.work()
    }

    pub fn shell(&self, line: &str) -> Launch {
        Launch {
            grace: Duration::from_secs(1),
            ..Launch::shell(line, self.work(), self.env.clone())
        }
    }

    pub async fn sh(&self, line: &str) -> Exit {
        run(self.shell(line), None, &CancellationToken::new())
            .await
            .unwrap()
    }

    /// Waits for a file of the working directory to hold a whole line, and gives out what is in it.
    pub async fn file(&self, name: &str) -> String {
        let path = self.work().join(name);
        let read = || {
            std::fs::read_to_string(&path)
                .ok()
                .filter(|text| text.ends_with('\n'))
        };
        eventually(&format!("{name} is written"), || read().is_some()).await;
        read().unwrap().trim().to_owned()
    }
}

/// Polls until `condition` holds.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Living processes whose command line holds `word`. Tests pick odd sleep times, so that a word is theirs alone.
pub fn processes_with(word: &str) -> Vec<i32> {
    processes_where(|line| line.contains(word))
}

/// Living processes that are nothing but `sleep <time>`.
pub fn sleepers(time: &str) -> Vec<i32> {
    processes_where(|line| line.trim_end() == format!("sleep {time}"))
}

fn processes_where(wanted: impl Fn(&str) -> bool) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            wanted(&String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}

/// A sleep time nobody else uses.
pub fn odd_sleep() -> String {
    let random = uuid::Uuid::new_v4().as_u128();
    format!("{}.{}", 600 + random % 50, random % 1_000_000_007)
}

/// Collects lines.
#[derive(Default)]
pub struct Lines(Mutex<Vec<(Stream, String)>>);

impl Lines {
    pub fn of(&self, stream: Stream) -> Vec<String> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|(from, _)| *from == stream)
            .map(|(_, line)| line.clone())
            .collect()
    }
}

impl OutputSink for Lines {
    fn line(&self, stream: Stream, line: &str) {
        self.0.lock().unwrap().push((stream, line.to_owned()));
    }
}

pub fn lines() -> Arc<Lines> {
    Arc::default()
}
