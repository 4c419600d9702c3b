use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};
use tokio_util::sync::CancellationToken;

use crate::{CaptureLimits, Captured, ChildEnv, ExitStatus, Launch, OutputSink, run};

/// How long one git call may take. A full fetch of a large repository over a home line stays below it.
const GIT_TIMEOUT: Duration = Duration::from_secs(1800);

/// Git removes its lock files on TERM; that takes no longer.
const GIT_GRACE: Duration = Duration::from_secs(3);

/// Git's answers are names and hashes; lists of changed files are the longest.
const GIT_CAPTURE: CaptureLimits = CaptureLimits {
    head: 8 << 20,
    tail: 64 << 10,
};

/// How much of git's complaint goes into a fault.
const COMPLAINT_CHARS: usize = 2000;

/// A fixed date makes the commit of equal files the same on every machine, so that a diff names the same base.
const SEED_DATE: &str = "2020-01-01T00:00:00Z";

/// Settings that must not come from the repository: it is the agent's to change.
const SETTINGS: [(&str, &str); 13] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.quotePath", "true"),
    ("commit.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("safe.directory", "*"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("advice.addEmbeddedRepo", "false"),
];

/// Who the seed commit is by, and whom an agent commits as when it brings no name of its own.
const NAME: &str = "everdict";
const EMAIL: &str = "everdict@local";

/// Git in one working tree.
pub(super) struct Git<'a> {
    dir: &'a Path,
    env: ChildEnv,
    code: ErrorCode,
    cancel: &'a CancellationToken,
}

/// What a git call that failed says.
pub(super) struct Failed {
    /// The end of git's standard error.
    pub(super) complaint: String,
    status: ExitStatus,
}

impl<'a> Git<'a> {
    /// `code` is what a failing call is reported as.
    pub(super) fn new(dir: &'a Path, env: &ChildEnv, code: ErrorCode, cancel: &'a CancellationToken) -> Self {
        let mut env = env.clone();
        for (name, value) in [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "/bin/false"),
            ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
            ("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_AUTHOR_NAME", NAME),
            ("GIT_AUTHOR_EMAIL", EMAIL),
            ("GIT_AUTHOR_DATE", SEED_DATE),
            ("GIT_COMMITTER_NAME", NAME),
            ("GIT_COMMITTER_EMAIL", EMAIL),
            ("GIT_COMMITTER_DATE", SEED_DATE),
            // Messages are read here, so they must not be translated.
            ("LC_ALL", "C"),
        ] {
            env.set(name, value);
        }
        // Named, so that git never looks for a repository further up, nor where the repository's own settings point.
        env.set("GIT_DIR", dir.join(".git")).set("GIT_WORK_TREE", dir);
        for name in [
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "LANGUAGE",
        ] {
            env.unset(name);
        }
        let git = Self {
            dir,
            env,
            code,
            cancel,
        };
        git.with_settings(&[])
    }

    /// This git with a token for the next calls, handed over in the environment only.
    pub(super) fn with_token(&self, token: &str) -> Self {
        let header = format!("Authorization: Bearer {token}");
        self.copy().with_settings(&[("http.extraheader", &header)])
    }

    /// This git with another index than the tree's own.
    pub(super) fn with_index(&self, index: &Path) -> Self {
        let mut git = self.copy();
        git.env.set("GIT_INDEX_FILE", index);
        git
    }

    /// Runs git; a code other than 0 is a fault that names the step.
    pub(super) async fn run(&self, step: &str, args: &[&str]) -> Result<Captured, Fault> {
        self.attempt(step, args)
            .await?
            .map_err(|failed| self.fault(step, &failed))
    }

    /// [`Git::run`] for a short answer.
    pub(super) async fn answer(&self, step: &str, args: &[&str]) -> Result<String, Fault> {
        Ok(self.run(step, args).await?.text().trim().to_owned())
    }

    /// Runs git where a code other than 0 is an answer too.
    pub(super) async fn attempt(&self, step: &str, args: &[&str]) -> Result<Result<Captured, Failed>, Fault> {
        let (status, stdout, stderr) = self.launch(step, args, GIT_CAPTURE, None).await?;
        if status == ExitStatus::Exited(0) {
            return Ok(Ok(stdout));
        }
        Ok(Err(Failed {
            complaint: stderr.tail(COMPLAINT_CHARS).trim().to_owned(),
            status,
        }))
    }

    /// Runs git, and gives out both streams whatever its code. Being stopped is a fault.
    pub(super) async fn launch(
        &self,
        step: &str,
        args: &[&str],
        capture: CaptureLimits,
        sink: Option<Arc<dyn OutputSink>>,
    ) -> Result<(ExitStatus, Captured, Captured), Fault> {
        let argv = std::iter::once("git")
            .chain(args.iter().copied())
            .map(OsString::from);
        let launch = Launch {
            timeout: Some(GIT_TIMEOUT),
            grace: GIT_GRACE,
            capture,
            ..Launch::argv(argv, self.dir, self.env.clone())
        };
        let exit = run(launch, sink, self.cancel).await.map_err(|error| {
            Fault::new(self.code, format!("failed to {step}: could not {error}")).caused_by(error)
        })?;
        match exit.status {
            ExitStatus::Cancelled => Err(Fault::cancelled(format!("cancelled while trying to {step}"))),
            ExitStatus::TimedOut => {
                let limit = GIT_TIMEOUT.as_secs();
                Err(Fault::new(
                    self.code,
                    format!("failed to {step}: git took longer than {limit} s"),
                ))
            }
            status => Ok((status, exit.stdout, exit.stderr)),
        }
    }

    fn fault(&self, step: &str, failed: &Failed) -> Fault {
        self.fault_of(self.code, step, failed)
    }

    /// The fault of a call that failed.
    pub(super) fn fault_of(&self, code: ErrorCode, step: &str, failed: &Failed) -> Fault {
        let how = match failed.status {
            ExitStatus::Exited(exit) => format!("git exited with {exit}"),
            other => format!("git ended with {other:?}"),
        };
        let words = if failed.complaint.is_empty() {
            how
        } else {
            format!("{how}: {}", failed.complaint)
        };
        Fault::new(code, format!("failed to {step}: {words}")).with_log_tail(failed.complaint.clone())
    }

    /// The commit that is checked out, read from files where they say it. `None` before the first commit.
    pub(super) async fn head(&self) -> Result<Option<String>, Fault> {
        if let Some(id) = head_from_files(&self.dir.join(".git")) {
            return Ok(Some(id));
        }
        let args = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let answer = self.attempt("read the checked out commit", &args).await?;
        Ok(answer.ok().map(|out| out.text().trim().to_owned()))
    }

    fn copy(&self) -> Self {
        Self {
            dir: self.dir,
            env: self.env.clone(),
            code: self.code,
            cancel: self.cancel,
        }
    }

    /// Puts `first` and the fixed settings into the environment, which outranks the repository's own configuration.
    fn with_settings(mut self, first: &[(&str, &str)]) -> Self {
        let all = first.iter().chain(&SETTINGS);
        let mut count = 0;
        for (key, value) in all {
            self.env.set(format!("GIT_CONFIG_KEY_{count}"), *key);
            self.env.set(format!("GIT_CONFIG_VALUE_{count}"), *value);
            count += 1;
        }
        self.env.set("GIT_CONFIG_COUNT", count.to_string());
        self
    }
}

/// Makes an empty repository without a process: the few files git asks for, and nothing from templates.
pub(super) fn init(dir: &Path, origin: Option<&str>) -> std::io::Result<()> {
    let git_dir = dir.join(".git");
    fs::create_dir_all(git_dir.join("objects"))?;
    fs::create_dir_all(git_dir.join("refs").join("heads"))?;
    let mut config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n".to_owned();
    if cfg!(target_os = "macos") {
        config.push_str("\tignorecase = true\n\tprecomposeunicode = true\n");
    }
    // An agent that commits needs a name, and the scratch HOME has none to offer.
    config.push_str(&format!("[user]\n\tname = {NAME}\n\temail = {EMAIL}\n"));
    if let Some(url) = origin {
        let url = url.replace('\\', "\\\\").replace('"', "\\\"");
        config.push_str(&format!(
            "[remote \"origin\"]\n\turl = \"{url}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        ));
    }
    fs::write(git_dir.join("config"), config)?;
    // Last, because it is what makes the directory a repository.
    fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n")
}

fn head_from_files(git_dir: &Path) -> Option<String> {
    let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let id = match head.trim().strip_prefix("ref: ") {
        Some(name) if name.starts_with("refs/") && !name.contains("..") => {
            fs::read_to_string(git_dir.join(name)).ok()?
        }
        Some(_) => return None,
        None => head,
    };
    let id = id.trim();
    let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}
