//! The small process that outlives `kill -9` of a runner: it reads from a pipe that the runner holds, and when the pipe
//! closes without a farewell, it removes what the runner has left on the daemon.
//!
//! It is the runner's own program, started with the arguments of [`WatchdogArgs::to_argv`], in a session of its own so
//! that a signal to the runner's group doesn't hit both. Only lines come over the pipe; `bye` means that the runner has
//! cleaned up itself.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::time::{Instant, sleep, timeout};

use crate::engine::{Engine, EngineError};
use crate::labels::Owner;
use crate::lock::LockFolder;
use crate::process::{Life, life_of};
use crate::reaper::{Dead, sweep_dead};

/// The first argument of the process.
pub const COMMAND: &str = "__watchdog";

/// What the runner writes before it ends by itself.
const FAREWELL: &str = "bye";

/// How long a runner whose pipe has closed may take to die. A dying process closes its pipes within milliseconds of its
/// end; one that lives on after this looks after its own.
const DEATH_LIMIT: Duration = Duration::from_secs(5);

/// Between two looks whether it has died.
const DEATH_POLL: Duration = Duration::from_millis(20);

/// Between two rounds of the sweep: the daemon may still be carrying out the dead runner's last call.
const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// Rounds in a row that find nothing before the work counts as done.
const QUIET_ROUNDS: u32 = 3;

/// How long to look at least. A call that the runner had sent when it died is carried out all the same, and on a busy
/// machine a network takes seconds to appear.
const WATCH_AT_LEAST: Duration = Duration::from_secs(20);

/// For all of it, with a daemon that is slow or just coming back. What is left goes with the next start's sweep.
const SWEEP_LIMIT: Duration = Duration::from_secs(120);

/// What a watchdog has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchdogArgs {
    /// Address of the daemon.
    pub socket: String,
    /// Where the locks of the installation are.
    pub state_dir: PathBuf,
    /// The process to watch over.
    pub owner: Owner,
}

impl WatchdogArgs {
    /// Returns the arguments of the process, [`COMMAND`] first.
    pub fn to_argv(&self) -> Vec<String> {
        let owner = serde_json::to_string(&self.owner.labels()).expect("BUG: a map of text is JSON");
        vec![
            COMMAND.to_owned(),
            self.socket.clone(),
            self.state_dir.display().to_string(),
            owner,
        ]
    }

    /// Reads the arguments after [`COMMAND`]; `None` when they aren't those of a watchdog.
    pub fn parse(argv: &[String]) -> Option<Self> {
        let [socket, state_dir, owner] = argv else {
            return None;
        };
        let labels: HashMap<String, String> = serde_json::from_str(owner).ok()?;
        let owner = Owner::from_labels(&labels)?;
        Some(Self {
            socket: socket.clone(),
            state_dir: PathBuf::from(state_dir),
            owner,
        })
    }
}

/// The runner's end of the pipe. Dropping it without a farewell is what a crash looks like: the watchdog then waits for
/// the runner's death.
pub struct Watchdog {
    pipe: Box<dyn Write + Send>,
}

impl Watchdog {
    /// Starts the process through `spawn`, which gets its arguments and gives back its standard input. The process must
    /// lead a session of its own and inherit nothing else.
    ///
    /// # Errors
    /// Those of `spawn`.
    pub fn start(
        args: &WatchdogArgs,
        spawn: impl FnOnce(&[String]) -> io::Result<Box<dyn Write + Send>>,
    ) -> io::Result<Self> {
        Ok(Self {
            pipe: spawn(&args.to_argv())?,
        })
    }

    /// Sends the watchdog home: nothing is left to remove.
    ///
    /// # Errors
    /// When the watchdog is gone already.
    pub fn stand_down(mut self) -> io::Result<()> {
        writeln!(self.pipe, "{FAREWELL}")?;
        self.pipe.flush()
    }
}

/// How a watch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEnd {
    /// The runner said farewell.
    StoodDown,
    /// The pipe closed, and yet the runner lives.
    RunnerAlive,
    /// The runner died. So many objects were removed, and so many stay.
    Swept { removed: usize, left: usize },
    /// The runner died, and the daemon could not be asked.
    Failed(String),
}

/// Watches over a runner, and cleans up after it. The whole life of the watchdog's process.
pub async fn main(args: &WatchdogArgs, input: impl AsyncRead + Unpin) -> WatchEnd {
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line == FAREWELL {
            return WatchEnd::StoodDown;
        }
    }
    if !has_died(&args.owner, DEATH_LIMIT).await {
        return WatchEnd::RunnerAlive;
    }
    let mut last = WatchEnd::Failed("no time".to_owned());
    let _ = timeout(SWEEP_LIMIT, clean_up(args, &mut last)).await;
    last
}

async fn has_died(owner: &Owner, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while life_of(owner) == Life::Alive {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(DEATH_POLL).await;
    }
    true
}

/// Sweeps until nothing has shown up for a while.
async fn clean_up(args: &WatchdogArgs, last: &mut WatchEnd) {
    let (mut removed, mut quiet) = (0, 0);
    let begin = Instant::now();
    while quiet < QUIET_ROUNDS || begin.elapsed() < WATCH_AT_LEAST {
        match round(args).await {
            Ok((went, left)) => {
                removed += went;
                quiet = if went == 0 && left == 0 { quiet + 1 } else { 0 };
                *last = WatchEnd::Swept { removed, left };
            }
            Err(error) => *last = WatchEnd::Failed(error),
        }
        sleep(ROUND_PAUSE).await;
    }
}

async fn round(args: &WatchdogArgs) -> Result<(usize, usize), String> {
    let words = |error: EngineError| error.to_string();
    let engine = Engine::connect(&args.socket).await.map_err(words)?;
    let daemon = engine.info().await.map_err(words)?.id;
    let locks = LockFolder::open(&args.state_dir, &daemon).map_err(|error| error.to_string())?;
    let report = sweep_dead(&engine, &args.owner.install, &locks, Dead::Only(&args.owner)).await;
    match report.error {
        Some(error) => Err(words(error)),
        None => Ok((report.removed.len(), report.debts.len() + report.busy)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::{COMMAND, WatchEnd, WatchdogArgs, has_died, main};
    use crate::process::this_owner;

    fn args() -> WatchdogArgs {
        WatchdogArgs {
            socket: "unix:///nowhere".to_owned(),
            state_dir: PathBuf::from("state folder"),
            owner: this_owner("install", "runner \"x\""),
        }
    }

    #[test]
    fn arguments_are_read_back() {
        let argv = args().to_argv();
        assert_eq!(argv[0], COMMAND);
        assert_eq!(WatchdogArgs::parse(&argv[1..]), Some(args()));
        assert_eq!(WatchdogArgs::parse(&argv), None);
    }

    #[tokio::test]
    async fn a_farewell_sends_it_home() {
        assert_eq!(main(&args(), &b"hello\nbye\n"[..]).await, WatchEnd::StoodDown);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_runner_that_lives_on_is_not_dead() {
        let mut owner = args().owner;
        assert!(!has_died(&owner, Duration::from_millis(50)).await);
        owner.start = "1".to_owned();
        assert!(has_died(&owner, Duration::from_millis(50)).await);
    }
}
