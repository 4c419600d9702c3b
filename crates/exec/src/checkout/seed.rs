use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, FailureStage, Fault, RepoSource, SecretText};
use tokio_util::sync::CancellationToken;

use super::fetch::{self, Fetch};
use super::git::{self, Git};
use super::{Baseline, baseline_index, copy, copy_index};
use crate::{CaptureLimits, ChildEnv, ExitStatus, Launch, OutputSink, contained_in, run};

/// Setup installs dependencies as a rule; the existing runner allows ten minutes for one command.
const SETUP_TIMEOUT: Duration = Duration::from_secs(600);

/// An installer leaves locks behind when killed; TERM lets it remove them.
const SETUP_GRACE: Duration = Duration::from_secs(5);

/// How much of a failing setup command's output goes into the fault.
const SETUP_TAIL_CHARS: usize = 2000;

/// Setup output is for the live log; only its end is needed here.
const SETUP_CAPTURE: CaptureLimits = CaptureLimits {
    head: 0,
    tail: 64 << 10,
};

/// A tree to make.
#[derive(Debug, Clone, Copy)]
pub struct SeedRequest<'a> {
    /// Where the files come from.
    pub source: &'a RepoSource,
    /// Where they go: an existing, empty directory.
    pub dir: &'a Path,
    /// Shell lines to run in it, in order.
    pub setup: &'a [String],
    /// A bearer token for the git server.
    pub token: Option<&'a SecretText>,
    /// What git and the setup commands get to see.
    pub env: &'a ChildEnv,
}

/// Fills a directory from its source, runs the setup commands, and records what the tree looks like then.
///
/// # Errors
/// Each step that fails is a fault that names the step and the end of what was printed: `BAD_REQUEST` for a source that
/// can't be right (no such ref, a path that leads out), `UPSTREAM_MISCONFIGURED` for missing access, `UPSTREAM_ERROR`
/// for a server that doesn't answer, `DRIVER_PROVISION_FAILED` for anything on this machine and for a setup command
/// that exits with another code than 0, `CANCELLED`. The directory is then in an undefined state.
pub async fn seed(
    request: SeedRequest<'_>,
    sink: Option<Arc<dyn OutputSink>>,
    cancel: &CancellationToken,
) -> Result<Baseline, Fault> {
    let git = Git::new(request.dir, request.env, ErrorCode::DriverProvisionFailed, cancel);
    let committed = match request.source {
        RepoSource::Files { files } => {
            write_files(request.dir, files)?;
            commit_all(&git, request.dir).await?;
            true
        }
        RepoSource::Git {
            git: url, git_ref, ..
        } => {
            clone(&git, request, url, git_ref).await?;
            true
        }
        RepoSource::Path { path } => copy_path(&git, request, path, sink.clone()).await?,
    };
    for (at, command) in request.setup.iter().enumerate() {
        set_up(request, at, command, sink.clone(), cancel).await?;
    }
    let head = git.head().await?;
    let head = head.ok_or_else(|| provision("read the seed commit: there is none"))?;
    let index = baseline_index(request.dir);
    keep_index(request.dir, &index).map_err(|error| provision("keep the seed's index").caused_by(error))?;
    // Only a tree that equals its commit may be compared with the commit itself.
    let tree = if committed && request.setup.is_empty() {
        head.clone()
    } else {
        write_tree(&git, &index).await?
    };
    Ok(Baseline { head, tree, index })
}

/// Records anew what a seeded tree looks like, after setup that ran elsewhere has changed it.
///
/// # Errors
/// `DRIVER_PROVISION_FAILED` when git can't take the tree in, `CANCELLED`.
pub async fn rebase(
    dir: &Path,
    baseline: &Baseline,
    env: &ChildEnv,
    cancel: &CancellationToken,
) -> Result<Baseline, Fault> {
    let git = Git::new(dir, env, ErrorCode::DriverProvisionFailed, cancel);
    let tree = write_tree(&git, &baseline.index).await?;
    Ok(Baseline {
        tree,
        ..baseline.clone()
    })
}

fn provision(step: &str) -> Fault {
    Fault::new(ErrorCode::DriverProvisionFailed, format!("failed to {step}"))
}

fn write_files(dir: &Path, files: &BTreeMap<String, String>) -> Result<(), Fault> {
    for (name, content) in files {
        if Path::new(name)
            .components()
            .any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
        {
            return Err(Fault::bad_request(format!(
                "failed to write `{name}`: a source must not bring a .git of its own"
            )));
        }
        let path = contained_in(dir, name)?;
        let parent = path.parent().unwrap_or(dir);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, content));
        written.map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
                    Fault::bad_request(format!(
                        "failed to write `{name}`: another file of the source is in its way"
                    ))
                }
                _ => provision(&format!("write `{name}`")),
            }
            .caused_by(error)
        })?;
    }
    Ok(())
}

async fn commit_all(git: &Git<'_>, dir: &Path) -> Result<(), Fault> {
    git::init(dir, None).map_err(|error| provision("make a repository").caused_by(error))?;
    git.run("add the seed's files", &["add", "--all"]).await?;
    let commit = [
        "commit",
        "--quiet",
        "--no-verify",
        "--allow-empty",
        "--message",
        "seed",
    ];
    git.run("commit the seed", &commit).await?;
    Ok(())
}

async fn clone(git: &Git<'_>, request: SeedRequest<'_>, url: &str, git_ref: &str) -> Result<(), Fault> {
    let origin = fetch::public(url);
    git::init(request.dir, Some(&origin)).map_err(|error| provision("make a repository").caused_by(error))?;
    let token = request.token.map(SecretText::expose);
    let with_token = token.map(|token| git.with_token(token));
    Fetch {
        git: with_token.as_ref().unwrap_or(git),
        local: git,
        url,
        git_ref,
        token,
    }
    .run()
    .await
}

/// Returns whether the tree equals a commit.
async fn copy_path(
    git: &Git<'_>,
    request: SeedRequest<'_>,
    path: &str,
    sink: Option<Arc<dyn OutputSink>>,
) -> Result<bool, Fault> {
    let (from, to) = (Path::new(path).to_owned(), request.dir.to_owned());
    let copied = tokio::task::spawn_blocking(move || copy::copy_tree(&from, &to)).await;
    let skipped = copied.map_err(|error| provision("copy the source").caused_by(error))??;
    if let Some(sink) = sink {
        for entry in skipped {
            sink.line(crate::Stream::Stderr, &format!("left out of the copy: {entry}"));
        }
    }
    if request.dir.join(".git").is_dir() {
        // A tree set by the source's own configuration would be the member's: the agent's git must not go there.
        let unset = ["config", "--local", "--unset-all", "core.worktree"];
        let _nothing_to_unset_is_fine = git.attempt("detach the copy from its source", &unset).await?;
        if git.head().await?.is_some() {
            return Ok(false);
        }
        git.run("add the seed's files", &["add", "--all"]).await?;
        git.run(
            "commit the seed",
            &[
                "commit",
                "--quiet",
                "--no-verify",
                "--allow-empty",
                "--message",
                "seed",
            ],
        )
        .await?;
        return Ok(true);
    }
    commit_all(git, request.dir).await?;
    Ok(true)
}

async fn set_up(
    request: SeedRequest<'_>,
    at: usize,
    command: &str,
    sink: Option<Arc<dyn OutputSink>>,
    cancel: &CancellationToken,
) -> Result<(), Fault> {
    let launch = Launch {
        timeout: Some(SETUP_TIMEOUT),
        grace: SETUP_GRACE,
        capture: SETUP_CAPTURE,
        ..Launch::shell(command, request.dir, request.env.clone())
    };
    let step = format!(
        "set up the tree (command {} of {}, `{command}`)",
        at + 1,
        request.setup.len()
    );
    let exit = run(launch, sink, cancel)
        .await
        .map_err(|error| provision(&step).caused_by(error))?;
    let how = match exit.status {
        ExitStatus::Exited(0) => return Ok(()),
        ExitStatus::Cancelled => return Err(Fault::cancelled(format!("cancelled while trying to {step}"))),
        ExitStatus::Exited(code) => format!("exited with {code}"),
        ExitStatus::Signaled(signal) => format!("was ended by signal {signal}"),
        ExitStatus::TimedOut => format!("took longer than {} s", SETUP_TIMEOUT.as_secs()),
    };
    let mut tail = exit.stderr.tail(SETUP_TAIL_CHARS);
    if tail.trim().is_empty() {
        tail = exit.stdout.tail(SETUP_TAIL_CHARS);
    }
    let tail = tail.trim();
    let words = if tail.is_empty() {
        how
    } else {
        format!("{how}: {tail}")
    };
    Err(provision(&format!("{step}: {words}"))
        .with_log_tail(tail)
        .at_stage(FailureStage::Install))
}

/// Keeps the tree's index, if there is one: a commit without files has none.
fn keep_index(dir: &Path, to: &Path) -> io::Result<()> {
    match copy_index(&dir.join(".git").join("index"), to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        copied => copied,
    }
}

/// Records the tree as it is in `index` and as an object.
async fn write_tree(git: &Git<'_>, index: &Path) -> Result<String, Fault> {
    let git = git.with_index(index);
    git.run("record the tree after setup", &["add", "--all"]).await?;
    git.answer("record the tree after setup", &["write-tree"]).await
}
