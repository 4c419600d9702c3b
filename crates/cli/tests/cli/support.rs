//! Runs the binary in a home of its own, with nothing of the caller's environment but PATH.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A home that goes away with the test.
pub struct Home {
    dir: tempfile::TempDir,
}

/// What a command left.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("temporary folder"),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
        std::fs::write(&path, text).expect("file");
        path
    }

    /// A command of the binary; nothing of this process' environment but PATH reaches it.
    pub fn command(&self, args: &[&str]) -> Command {
        #[expect(
            clippy::disallowed_methods,
            reason = "the binary under test is started from outside"
        )]
        let mut command = Command::new(env!("CARGO_BIN_EXE_everdict-runner"));
        #[expect(
            clippy::disallowed_methods,
            reason = "the test needs the tools of the machine"
        )]
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .args(args)
            .env_clear()
            .env("PATH", path)
            .env("EVERDICT_HOME", self.path())
            // A proxy that nobody listens at: loopback is reached without it.
            .env("HTTP_PROXY", "http://127.0.0.1:9")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().expect("the binary starts"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Asserts the exit code; shows everything when it differs.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    /// Parses stdout as exactly one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// Reports a test that can't run here: listed at the end of `make test`.
pub fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    eprint!("{line}");
    #[expect(
        clippy::disallowed_methods,
        reason = "the test script names the file in the environment"
    )]
    let list = std::env::var_os("EVERDICT_SKIP_LOG");
    if let Some(path) = list {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        if let Ok(mut file) = file {
            let _ = file.write_all(line.as_bytes());
        }
    }
}
