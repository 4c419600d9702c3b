//! The watchdog: this program once more, with nothing to do but to wait for the end of its runner.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everdict_exec::Companion;
use everdict_topology::watchdog::{COMMAND, WatchEnd, Watchdog, WatchdogArgs};

/// A watchdog that was sent home has nothing to wait for; on a busy machine it still takes a moment to go.
const GO_HOME_LIMIT: Duration = Duration::from_secs(2);

/// Tells how the last watch ended, for whoever looks for the reason of a leftover.
const LOG_FILE: &str = "watchdog.log";

/// The program that this process runs, also when its file has been replaced since.
pub(super) fn this_program() -> Option<PathBuf> {
    let named = std::env::current_exe().ok().filter(|path| path.is_file());
    let kept = || Some(PathBuf::from("/proc/self/exe")).filter(|path| path.exists());
    named.or_else(kept)
}

/// A watchdog that watches over this process.
pub(super) struct Watch {
    companion: Arc<Mutex<Companion>>,
    /// Only ever taken out: it can't be shared between threads as it is.
    watchdog: Mutex<Watchdog>,
}

/// The watchdog's pipe, which the room keeps an eye on.
struct Pipe(Arc<Mutex<Companion>>);

fn lock(companion: &Mutex<Companion>) -> MutexGuard<'_, Companion> {
    companion.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.0).flush()
    }
}

impl Watch {
    /// Starts `program` as the watchdog of this process.
    pub(super) fn start(program: &Path, args: &WatchdogArgs) -> io::Result<Self> {
        let mut started = None;
        let watchdog = Watchdog::start(args, |argv| {
            let companion = Arc::new(Mutex::new(Companion::start(program, argv)?));
            started = Some(Arc::clone(&companion));
            Ok(Box::new(Pipe(companion)))
        })?;
        let companion = started.expect("BUG: a watchdog that started has a process");
        Ok(Self {
            companion,
            watchdog: Mutex::new(watchdog),
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        lock(&self.companion).is_alive()
    }

    /// Sends it home: nothing is left to remove.
    pub(super) async fn stand_down(self) {
        let watchdog = self.watchdog.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = watchdog.stand_down() {
            tracing::debug!(%error, "the watchdog was gone already");
        }
        let Ok(companion) = Arc::try_unwrap(self.companion) else {
            return;
        };
        let mut companion = companion.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !companion.ended(GO_HOME_LIMIT).await {
            tracing::warn!("the watchdog takes its time to go");
        }
    }
}

/// Is the watchdog, if that is what `argv` (without the program) asks for. To be called first of all in `main`: no
/// thread, no secret and no signal handler of the runner has any business in it.
#[must_use]
pub fn watchdog_main(argv: &[OsString]) -> Option<ExitCode> {
    let (first, rest) = argv.split_first()?;
    if first != OsStr::new(COMMAND) {
        return None;
    }
    let rest: Option<Vec<String>> = rest.iter().map(|arg| arg.to_str().map(str::to_owned)).collect();
    // Not for people: whoever types it gets no more than an exit code.
    let Some(args) = rest.and_then(|rest| WatchdogArgs::parse(&rest)) else {
        return Some(ExitCode::from(2));
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Some(ExitCode::FAILURE);
    };
    let end = runtime.block_on(watch(&args));
    if end != WatchEnd::StoodDown {
        let _ = std::fs::write(
            args.state_dir.join(LOG_FILE),
            format!("{}: {end:?}\n", args.owner.pid),
        );
    }
    Some(match end {
        WatchEnd::StoodDown | WatchEnd::RunnerAlive | WatchEnd::Swept { left: 0, .. } => ExitCode::SUCCESS,
        WatchEnd::Swept { .. } | WatchEnd::Failed(_) => ExitCode::FAILURE,
    })
}

async fn watch(args: &WatchdogArgs) -> WatchEnd {
    // Without a thread of its own for it, where the system can tell when the pipe has something to say.
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        if let Ok(pipe) = stdin.and_then(tokio::net::unix::pipe::Receiver::from_owned_fd) {
            return everdict_topology::watchdog::main(args, pipe).await;
        }
    }
    everdict_topology::watchdog::main(args, tokio::io::stdin()).await
}
