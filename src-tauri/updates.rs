//! Putting a newer version in the place of this one, and the watch over its first starts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use everdict_app::Paths;
use everdict_app::control::Control;
use everdict_app::update::{Guarded, Start, Trial, UpdateOptions, Updater};
use everdict_exec::HostEnv;
use tauri::AppHandle;

use crate::shell;

/// The argument by which the program before starts as the guard of the new one.
const GUARD: &str = "--guard-update";

/// A version that has run for so long is well.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// A program that takes over this process.
pub struct Next {
    program: PathBuf,
    args: Vec<OsString>,
}

impl Next {
    fn hidden(program: PathBuf) -> Self {
        Self {
            program,
            args: vec!["--hidden".into()],
        }
    }

    /// Becomes that program; returns only when it can't be started.
    #[cfg(unix)]
    pub fn take_over(&self) -> std::io::Error {
        use std::os::unix::process::CommandExt as _;

        #[expect(
            clippy::disallowed_methods,
            reason = "no child: this process becomes the other program, with its environment"
        )]
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).exec()
    }

    /// Starts that program; this one ends then.
    #[cfg(not(unix))]
    pub fn take_over(&self) -> std::io::Error {
        #[expect(
            clippy::disallowed_methods,
            reason = "no job: the other program outlives this process, with its environment"
        )]
        let started = std::process::Command::new(&self.program).args(&self.args).spawn();
        match started {
            Ok(_) => std::io::Error::other("started beside this one"),
            Err(error) => error,
        }
    }
}

/// Runs as the guard of a new version, when `args` ask for it.
pub fn guard_main(args: &[OsString]) -> Option<ExitCode> {
    if args != [OsString::from(GUARD)] {
        return None;
    }
    let paths = match Paths::from_env(&HostEnv::capture()) {
        Ok(paths) => paths,
        Err(problem) => {
            eprintln!("everdict-desktop: {}", problem.chain());
            return Some(ExitCode::FAILURE);
        }
    };
    let hidden = Next::hidden(PathBuf::new()).args;
    match Trial::in_dir(paths.state_dir()).guard(&hidden) {
        Guarded::Over => Some(ExitCode::SUCCESS),
        Guarded::RolledBack(program) => {
            let error = Next::hidden(program).take_over();
            eprintln!("everdict-desktop: can't start the version before: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}

/// Counts this start where a new version is on trial; one that failed too often makes way here.
pub fn count_start(state_dir: &Path) {
    if let Start::RolledBack(program) = Trial::in_dir(state_dir).begin() {
        let error = Next::hidden(program).take_over();
        tracing::warn!(%error, "the version before is in place and starts the next time");
    }
}

/// Says that this version is well, once it has run for a while.
pub async fn outlive_the_trial(trial: Trial) {
    tokio::time::sleep(WELL_AFTER).await;
    trial.passed();
}

/// Looks for newer versions to the end of the app, and makes way for one.
pub async fn keep_looking(app: AppHandle, control: Arc<Control>, options: UpdateOptions) {
    let (program, trial) = (options.program.clone(), Trial::in_dir(&options.state_dir));
    let updater = match Updater::new(options) {
        Ok(updater) => updater,
        Err(problem) => {
            tracing::warn!(problem = %problem.chain(), "no newer versions are looked for");
            return;
        }
    };
    let put_in_place = |version: everdict_app::update::Version, staged: PathBuf| match trial.put_in_place(
        &program,
        &staged,
        &version.to_string(),
    ) {
        Ok(previous) => shell::leave_for(
            &app,
            Next {
                program: previous,
                args: vec![GUARD.into()],
            },
        ),
        Err(problem) => {
            tracing::warn!(problem = %problem.chain(), "the newer version is not put in place");
        }
    };
    updater.keep_looking(control, put_in_place).await;
}
