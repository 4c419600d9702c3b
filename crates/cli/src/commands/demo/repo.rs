//! The demo's git repository: two real commits, and a test that fails.

use std::path::Path;
use std::time::Duration;

use everdict_app::{Problem, Result};
use everdict_exec::{ChildEnv, HostEnv, Launch, run};
use tokio_util::sync::CancellationToken;

const ADD: &str = "# Prints the sum of two numbers.\necho $(( $1 - $2 ))\n";
const TEST: &str = "got=$(sh add.sh 2 3)\n\
    if [ \"$got\" = 5 ]; then echo \"ok: 2 + 3 is $got\"; else echo \"not ok: 2 + 3 is $got\"; exit 1; fi\n";

/// Each git command here works on two small files.
const GIT_LIMIT: Duration = Duration::from_secs(20);

/// Makes the repository and returns its `file://` address.
pub(super) async fn create(env: &HostEnv, dir: &Path) -> Result<String> {
    std::fs::create_dir(dir).map_err(|error| unwritable(dir, error))?;
    git(env, dir, &["init", "--quiet", "--initial-branch=main"]).await?;
    for (file, text, message) in [
        ("add.sh", ADD, "add: print the sum of two numbers"),
        ("test.sh", TEST, "test: say what add.sh must do"),
    ] {
        let path = dir.join(file);
        std::fs::write(&path, text).map_err(|error| unwritable(&path, error))?;
        git(env, dir, &["add", file]).await?;
        git(env, dir, &["commit", "--quiet", "--message", message]).await?;
    }
    Ok(format!("file://{}", dir.display()))
}

async fn git(env: &HostEnv, dir: &Path, args: &[&str]) -> Result<()> {
    let identity = [
        "git",
        "-c",
        "user.name=Everdict demo",
        "-c",
        "user.email=demo@everdict.invalid",
        "-c",
        "commit.gpgsign=false",
    ];
    let launch = Launch {
        timeout: Some(GIT_LIMIT),
        ..Launch::argv(
            identity.iter().chain(args).copied(),
            dir,
            ChildEnv::for_job(env, dir),
        )
    };
    let exit = run(launch, None, &CancellationToken::new())
        .await
        .map_err(|error| {
            Problem::machine("can't run git")
                .fix("install git (Debian and Ubuntu: apt install git)")
                .because(error)
        })?;
    if exit.success() {
        return Ok(());
    }
    Err(Problem::machine(format!(
        "git {} failed: {}",
        args.join(" "),
        exit.stderr.text().trim()
    ))
    .fix("git 2.28 or newer is needed"))
}

fn unwritable(path: &Path, error: std::io::Error) -> Problem {
    Problem::machine(format!("can't write {}", path.display()))
        .fix("set TMPDIR to a folder that can be written")
        .because(error)
}
