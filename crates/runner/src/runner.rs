//! Starting, watching and stopping a runner.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::Capability;
use everdict_exec::Redactor;
use secrecy::ExposeSecret as _;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::board::{Board, RunnerEvent, RunnerSnapshot, RunnerState};
use crate::capabilities::{CapabilityReport, Inputs};
use crate::config::{MAX_CONCURRENT, RunnerConfig};
use crate::executor::{Executor, case_executor};
use crate::hub::Hub;
use crate::journal::Journal;
use crate::lease_loop::work;
use crate::replay::replay;
use crate::report::Place;
use crate::session::{HubSession, SessionConfigError};

/// A worker that panicked is a fault of ours; it is started again, but not in a hot loop.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// Starts runners.
#[derive(Debug)]
pub struct Runner;

/// A started runner. Dropping it stops the runner hard: running cases are cancelled in the background.
#[derive(Debug)]
pub struct RunnerHandle {
    board: Board,
    stop: Stop,
    try_now: watch::Sender<u64>,
    switched_off: watch::Sender<BTreeSet<Capability>>,
    gate: watch::Sender<Gate>,
    woken: watch::Sender<u64>,
    hub: Hub,
    tasks: TaskTracker,
    _hard_stop: DropGuard,
}

/// The two wishes to stop; the stronger includes the weaker.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// No new jobs.
    pub(crate) drain: CancellationToken,
    /// Stop the running jobs too.
    pub(crate) cancel: CancellationToken,
}

/// Who may take new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    held: bool,
    slots: usize,
}

impl Gate {
    fn new(held: bool, slots: usize) -> Self {
        Self {
            held,
            slots: slots.clamp(1, MAX_CONCURRENT),
        }
    }

    /// Whether the worker of this number takes jobs.
    pub(crate) fn lets(self, worker: usize) -> bool {
        !self.held && worker < self.slots
    }
}

/// What every part of one runner shares.
pub(crate) struct Core {
    pub(crate) config: RunnerConfig,
    pub(crate) hub: Hub,
    pub(crate) board: Board,
    pub(crate) executor: Executor,
    pub(crate) place: Place,
    /// What outlives this process.
    pub(crate) journal: Journal,
    /// Knows the token.
    pub(crate) mask: Arc<Redactor>,
    pub(crate) stop: Stop,
    /// Grows with each wish to end a back-off.
    pub(crate) try_now: watch::Sender<u64>,
    pub(crate) gate: watch::Sender<Gate>,
    /// Grows each time the machine wakes from a sleep.
    pub(crate) woken: watch::Sender<u64>,
    /// Everything that may outlive one attempt by a moment.
    pub(crate) tasks: TaskTracker,
}

impl Runner {
    /// Starts a runner that runs cases as the product does. Must be called within a tokio runtime, after
    /// [`crate::session::install_crypto`].
    ///
    /// Returns at once; connecting, and everything that goes wrong with it, shows in the snapshot.
    ///
    /// # Errors
    /// A URL or token that no session can be built from.
    pub fn start(config: RunnerConfig) -> Result<RunnerHandle, SessionConfigError> {
        Self::start_with(config, case_executor())
    }

    /// [`Runner::start`] with another way to run a case.
    ///
    /// # Errors
    /// As [`Runner::start`].
    pub fn start_with(config: RunnerConfig, executor: Executor) -> Result<RunnerHandle, SessionConfigError> {
        let session = HubSession::new(&config.api_url, &config.token, &config.version)?;
        let board = Board::new(CapabilityReport::default());
        let drain = CancellationToken::new();
        let stop = Stop {
            cancel: CancellationToken::new(),
            drain,
        };
        let tasks = TaskTracker::new();
        let (switched_off, switches) = watch::channel(config.switched_off.clone());
        let gate = Gate::new(config.held, config.max_concurrent);
        let hub = Hub::new(session, board.clone());
        let mask = Arc::new(Redactor::new([config.token.expose_secret()]));
        let core = Arc::new(Core {
            mask,
            journal: Journal::new(
                config.state_dir.as_deref(),
                &config.api_url,
                config.token.expose_secret(),
            ),
            hub: hub.clone(),
            place: Place {
                hostname: config.hostname.clone(),
            },
            config,
            board: board.clone(),
            executor,
            stop: stop.clone(),
            try_now: watch::Sender::new(0),
            gate: watch::Sender::new(gate),
            woken: watch::Sender::new(0),
            tasks: tasks.clone(),
        });
        let handle = RunnerHandle {
            board,
            try_now: core.try_now.clone(),
            switched_off,
            gate: core.gate.clone(),
            woken: core.woken.clone(),
            hub,
            tasks: tasks.clone(),
            _hard_stop: stop.cancel.clone().drop_guard(),
            stop,
        };
        tasks.spawn(supervise(core, switches));
        Ok(handle)
    }
}

impl RunnerHandle {
    /// The state, now and on every change.
    #[must_use]
    pub fn snapshot(&self) -> watch::Receiver<RunnerSnapshot> {
        self.board.subscribe()
    }

    /// Every step from now on. The channel is bounded: a receiver that lags learns how many it missed.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<RunnerEvent> {
        self.board.events()
    }

    /// Takes no new jobs. Idle polls are cut at once; running jobs finish and report.
    pub fn drain(&self) {
        self.board.draining();
        self.stop.drain.cancel();
    }

    /// Stops now: the running trees are killed and the hub is told that the cases were cancelled.
    pub fn cancel(&self) {
        self.drain();
        self.stop.cancel.cancel();
    }

    /// Ends a back-off: the network changed, or the member asks for a try.
    pub fn try_now(&self) {
        self.try_now.send_modify(|wishes| *wishes += 1);
    }

    /// While held no new job is taken; a waiting poll is cut at once, and running jobs go on and report.
    pub fn hold(&self, held: bool) {
        self.change_gate(|gate| Gate { held, ..gate });
    }

    /// Works on so many jobs at once, within the bounds of [`RunnerConfig::max_concurrent`]. What runs beyond the new number
    /// goes on to its end.
    pub fn resize(&self, slots: usize) {
        self.change_gate(|gate| Gate::new(gate.held, slots));
    }

    fn change_gate(&self, change: impl FnOnce(Gate) -> Gate) {
        self.gate.send_if_modified(|gate| {
            let new = change(*gate);
            std::mem::replace(gate, new) != new
        });
    }

    /// The machine was asleep: connections from before may be dead without saying so. Waiting polls are dropped and made
    /// anew on a new session, leases are renewed at once, and a back-off ends.
    pub fn woke(&self) {
        self.hub.start_over();
        self.woken.send_modify(|times| *times += 1);
        self.try_now();
    }

    /// Offers every capability of this machine except these, from the next lease on.
    pub fn switch_off(&self, capabilities: BTreeSet<Capability>) {
        self.switched_off.send_replace(capabilities);
    }

    /// Waits until the runner has stopped, after [`RunnerHandle::drain`] or [`RunnerHandle::cancel`]. Cancel safe.
    pub async fn join(&self) {
        let mut snapshot = self.board.subscribe();
        // An error means that every sender is gone, and the runner with it.
        let _ = snapshot
            .wait_for(|snapshot| snapshot.state == RunnerState::Stopped)
            .await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The whole life of a runner: probe, work, leave.
async fn supervise(core: Arc<Core>, switches: watch::Receiver<BTreeSet<Capability>>) {
    let mut inputs = Inputs {
        host: Arc::clone(&core.config.host_env),
        switched_off: switches,
        containers: core.config.containers.clone(),
    };
    core.board.capabilities(inputs.first().await);
    let done = CancellationToken::new();
    let board = core.board.clone();
    core.tasks
        .spawn(inputs.keep_looking(move |report| board.capabilities(report), done.clone()));
    // A dropped handle asks for the hard stop only, and that includes the drain.
    let link_stops = async {
        core.stop.cancel.cancelled().await;
        core.stop.drain.cancel();
    };
    let all_work = async {
        run_workers(&core).await;
        core.stop.cancel.cancel();
    };
    tokio::join!(all_work, link_stops, sweep(&core), replay(&core));
    done.cancel();
    core.hub.close().await;
    core.board.stopped();
}

/// Removes what a killed runner left behind, beside the first jobs: nothing of a living process is touched.
async fn sweep(core: &Core) {
    let root = core.config.work_root.clone();
    let swept = tokio::task::spawn_blocking(move || everdict_exec::sweep_stale(&root)).await;
    if let Ok(swept) = swept
        && swept != everdict_exec::SweepReport::default()
    {
        tracing::info!(
            removed = swept.removed.len(),
            unverified = swept.unverified.len(),
            leftovers = swept.leftovers.len(),
            "swept stale scratch directories"
        );
    }
}

/// Runs as many workers as there are slots, until all have drained. One beyond the number of slots waits; it is not
/// dismissed, because it may be at work.
async fn run_workers(core: &Arc<Core>) {
    let mut workers = JoinSet::new();
    let mut gate = core.gate.subscribe();
    loop {
        let slots = gate.borrow_and_update().slots;
        while workers.len() < slots && !core.stop.drain.is_cancelled() {
            let number = workers.len();
            workers.spawn(tend(Arc::clone(core), number));
        }
        tokio::select! {
            // A worker ends only because the runner drains, and so do the others.
            ended = workers.join_next() => if ended.is_none() {
                return;
            },
            Ok(()) = gate.changed() => {}
        }
    }
}

/// Runs one worker. One that panicked is started again.
async fn tend(core: Arc<Core>, number: usize) {
    loop {
        let mut worker = JoinSet::new();
        worker.spawn(work(Arc::clone(&core), number));
        let ended = worker.join_next().await;
        if !matches!(ended, Some(Err(_))) || core.stop.drain.is_cancelled() {
            return;
        }
        tracing::error!("a worker panicked and is started again");
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}
