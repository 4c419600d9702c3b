//! What the parts of a control share, and the crew of runners that it keeps.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everdict_contracts::Capability;
use everdict_runner_core::attempt::Outcome;
use everdict_runner_core::capabilities::{ContainerOffer, probe};
use everdict_runner_core::{Runner, RunnerEvent, RunnerHandle, RunnerSnapshot};
use jiff::Timestamp;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ControlOptions;
use super::choices::{Choices, ChoicesFile};
use super::consent::Consents;
use super::desk::{Desk, End, Seat, SeatState};
use super::logs::LogBook;
use super::runs::OwnHub;
use super::view::{AppEvent, AutostartState, Failure, KeyringState};
use super::work::Works;
use crate::autostart::Autostart;
use crate::containers::Containers;
use crate::engine::{self, RunnerPlan};
use crate::hub_host::HubHost;
use crate::problem::{Problem, Result};
use crate::profile_lock::ProfileLock;
use crate::registrations::{Registration, Registrations};
use crate::secrets::{SecretFault, StoreKind};
use crate::settings::Settings;

/// A runner that is taken away gets this long to tell its hub about a job that it stopped.
const LEAVE_LIMIT: Duration = Duration::from_secs(15);

/// See the module.
pub(super) struct Room {
    pub(super) options: ControlOptions,
    pub(super) registrations: Registrations,
    pub(super) containers: Containers,
    pub(super) logs: LogBook,
    pub(super) works: Works,
    /// Held by whoever changes who works here.
    pub(super) crew: tokio::sync::Mutex<Crew>,
    /// Locked over a change and its writing, so that the file never ends with the older of two.
    pub(super) choices: Mutex<ChoicesFile>,
    pub(super) own_hub: OwnHub,
    pub(super) switched_off: watch::Sender<BTreeSet<Capability>>,
    /// Ends the sign-in that goes on; there is one at most.
    pub(super) sign_in: Mutex<CancellationToken>,
    /// What is in force now.
    pub(super) settings: Mutex<Arc<Settings>>,
    pub(super) consents: Consents,
    /// Something changed that the terms look at.
    pub(super) nudge: Notify,
    /// `None` while another program has the profile, and after the end.
    profile: Mutex<Option<ProfileLock>>,
    desk: Mutex<Desk>,
    events: broadcast::Sender<AppEvent>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// Who works here. In the order of pairing.
#[derive(Default)]
pub(super) struct Crew {
    pub(super) hub: Option<HubHost>,
    pub(super) members: Vec<Member>,
}

pub(super) struct Member {
    pub(super) registration: Registration,
    /// `None` while it can't be started.
    pub(super) handle: Option<RunnerHandle>,
}

impl Room {
    pub(super) fn new(
        options: ControlOptions,
        containers: Containers,
        desk: Desk,
        events: broadcast::Sender<AppEvent>,
    ) -> Self {
        Self {
            registrations: Registrations::at(options.paths.registrations_file()),
            choices: Mutex::new(ChoicesFile::in_dir(options.paths.state_dir())),
            switched_off: watch::Sender::new(desk.choices.switched_off.clone()),
            sign_in: Mutex::default(),
            settings: Mutex::new(Arc::new(options.settings.clone())),
            consents: Consents::load(options.paths.state_dir()),
            nudge: Notify::new(),
            options,
            containers,
            logs: LogBook::default(),
            works: Works::default(),
            own_hub: OwnHub::default(),
            crew: tokio::sync::Mutex::default(),
            profile: Mutex::default(),
            desk: Mutex::new(desk),
            events,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    pub(super) fn desk(&self) -> std::sync::MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<AppEvent> {
        self.events.subscribe()
    }

    /// Changes the desk and tells the windows, in one step: events leave in the order of their numbers.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Desk) -> T) -> T {
        let mut desk = self.desk();
        let changed = change(&mut desk);
        self.tell(desk.changes(Timestamp::now()));
        changed
    }

    /// Nobody watching is fine.
    fn tell(&self, event: Option<AppEvent>) {
        if let Some(event) = event {
            let _ = self.events.send(event);
        }
    }

    /// Changes what the person chose, for this process in any case and for the next if it can be written.
    pub(super) fn choose(&self, choose: impl FnOnce(&mut Choices)) -> Result<()> {
        let file = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        let choices = self.change(|desk| {
            choose(&mut desk.choices);
            desk.choices.clone()
        });
        file.save(&choices)
    }

    /// Makes this the one program that takes jobs for the profile, if it isn't yet.
    pub(super) fn claim_profile(&self) -> Result<()> {
        let mut profile = self.profile.lock().unwrap_or_else(PoisonError::into_inner);
        if profile.is_none() {
            *profile = Some(ProfileLock::take(&self.options.paths, self.options.program)?);
        }
        Ok(())
    }

    /// Lets another program take jobs for the profile.
    pub(super) fn yield_profile(&self) {
        *self.profile.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Waits for a choice that is being written.
    pub(super) fn settle_choices(&self) {
        drop(self.choices.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn is_embedded(&self, registration: &Registration) -> bool {
        let hub = self.desk().choices.hub;
        hub.is_some_and(|address| format!("http://{address}") == registration.hub_url)
    }

    /// Looks whether the keyring can be used; asks it for nothing.
    pub(super) async fn look_at_keyring(&self) {
        let state = match self.open_store(StoreKind::Keyring).check().await {
            Ok(()) => KeyringState::Ok,
            Err(SecretFault::Locked(_)) => KeyringState::Locked,
            Err(SecretFault::Denied(_)) => KeyringState::Denied,
            Err(_) => KeyringState::Unavailable,
        };
        self.change(|desk| desk.frame.keyring = state);
    }

    /// An update may have moved the program that the desktop starts.
    pub(super) fn refresh_autostart(&self) {
        if let Some(Err(problem)) = self.options.autostart.as_ref().map(Autostart::refresh) {
            tracing::warn!(problem = %problem.chain(), "start at login names the program of an older version");
        }
        self.look_at_autostart();
    }

    /// Reads back from the desktop whether it starts the app at login.
    pub(super) fn look_at_autostart(&self) {
        let state = match &self.options.autostart {
            None => AutostartState::Unavailable,
            Some(autostart) if autostart.is_on() => AutostartState::On,
            Some(_) => AutostartState::Off,
        };
        self.change(|desk| desk.shell.autostart = state);
    }

    pub(super) fn look_at_capabilities(&self) {
        let offer: ContainerOffer = self.containers.offer().borrow().clone();
        let off = self.switched_off.borrow().clone();
        let found = probe(&self.options.env, &offer, &off).entries;
        self.change(|desk| desk.capabilities = found);
    }

    /// Shows who is paired before any of them is started.
    pub(super) fn seat_known(&self) {
        match self.registrations.list() {
            Ok(known) => {
                let slots = self.settings().max_concurrent;
                self.change(|desk| seat(desk, &known, slots));
            }
            Err(problem) => self.change(|desk| desk.trouble = Some(Failure::from(problem))),
        }
    }

    /// Forgets a pause that is over.
    pub(super) fn end_pause(&self) {
        let now = Timestamp::now();
        let over = {
            let hold = self.desk().choices.hold;
            hold != hold.at(now)
        };
        if over && let Err(problem) = self.choose(|choices| choices.hold = choices.hold.at(now)) {
            tracing::warn!(problem = %problem.chain(), "the end of the pause is not kept");
        }
    }

    /// Starts the embedded hub of an earlier pairing.
    pub(super) async fn start_hub(&self, crew: &mut Crew) {
        let chosen = self.desk().choices.hub;
        let Some(listen) = chosen.filter(|_| crew.hub.is_none()) else {
            return;
        };
        if self.claim_profile().is_err() {
            return;
        }
        let trouble = match HubHost::start(&self.hub_options(listen)).await {
            Ok(hub) => {
                crew.hub = Some(hub);
                None
            }
            Err(problem) => Some(Failure::from(problem)),
        };
        self.change(|desk| desk.trouble = trouble);
    }

    /// Makes the crew what the registrations say: starts who is new, dismisses who is gone. Idempotent.
    pub(super) async fn reconcile(self: &Arc<Self>, crew: &mut Crew) {
        if let Err(problem) = self.claim_profile() {
            self.change(|desk| desk.trouble = Some(Failure::from(problem)));
            return;
        }
        let known = match self.registrations.list() {
            Ok(known) => known,
            Err(problem) => {
                self.change(|desk| desk.trouble = Some(Failure::from(problem)));
                return;
            }
        };
        let gone: Vec<Registration> = crew
            .members
            .iter()
            .map(|member| member.registration.clone())
            .filter(|member| !known.contains(member))
            .collect();
        for registration in gone {
            self.dismiss(crew, &registration).await;
        }
        let slots = self.settings().max_concurrent;
        let has_hub = crew.hub.is_some() || self.desk().choices.hub.is_none();
        self.change(|desk| {
            if has_hub {
                desk.trouble = None;
            }
            seat(desk, &known, slots);
        });
        for registration in known {
            let index = crew
                .members
                .iter()
                .position(|member| member.registration == registration);
            match index {
                Some(index) if crew.members[index].handle.is_some() => {}
                // A keyring that said no is asked again only when the person wants it: it may prompt.
                Some(_) if registration.store == StoreKind::Keyring => {}
                Some(index) => crew.members[index].handle = self.hire(&registration).await,
                None => {
                    let handle = self.hire(&registration).await;
                    crew.members.push(Member { registration, handle });
                }
            }
        }
    }

    /// Lets go of those that could not be started, so that they are tried again.
    pub(super) fn forget_stuck(&self, crew: &mut Crew) {
        crew.members.retain(|member| member.handle.is_some());
    }

    async fn hire(self: &Arc<Self>, registration: &Registration) -> Option<RunnerHandle> {
        match self.start(registration).await {
            Ok(handle) => {
                self.show(
                    registration,
                    SeatState::Started(handle.snapshot().borrow().clone()),
                );
                self.tasks.spawn(watch_over(
                    Arc::clone(self),
                    registration.clone(),
                    handle.snapshot(),
                    handle.events(),
                ));
                Some(handle)
            }
            Err(problem) => {
                self.show(registration, SeatState::Stuck(Failure::from(problem)));
                None
            }
        }
    }

    async fn start(self: &Arc<Self>, registration: &Registration) -> Result<RunnerHandle> {
        let store = self.open_store(registration.store);
        let token = store
            .get(&registration.secret_name()?)
            .await
            .map_err(Problem::from)?;
        let settings = self.settings();
        let plan = RunnerPlan {
            label: registration.label.clone(),
            hub: registration.hub()?,
            token,
            version: self.options.version.clone(),
            max_concurrent: settings.max_concurrent,
            wait: settings.wait,
            heartbeat: settings.heartbeat,
            poll_interval: settings.poll_interval,
            work_root: self.work_root(),
            state_dir: self.options.paths.state_dir().to_owned(),
            switched_off: self.switched_off.borrow().clone(),
        };
        let mut config = engine::config(plan, &self.options.env);
        config.containers = Some(self.containers.offer());
        config.held = self.holds();
        let off = self.switched_off.subscribe();
        let allowed = move || !off.borrow().contains(&Capability::Docker);
        let running = engine::executor(self.containers.door(), allowed);
        let executor = self.works.tracked(self.consented(registration, running));
        Runner::start_with(config, executor).map_err(|error| {
            Problem::input(format!("can't start runner {}", registration.label))
                .fix("pair it again")
                .because(error)
        })
    }

    /// Stops a runner, with what it runs, and takes it off the desk.
    pub(super) async fn dismiss(&self, crew: &mut Crew, registration: &Registration) {
        let index = crew
            .members
            .iter()
            .position(|member| member.registration == *registration);
        if let Some(handle) = index.and_then(|index| crew.members.remove(index).handle) {
            handle.cancel();
            // What doesn't leave in time is dropped, which stops it hard.
            let _ = tokio::time::timeout(LEAVE_LIMIT, handle.join()).await;
        }
        self.change(|desk| desk.seats.retain(|seat| seat.registration != *registration));
    }

    fn show(&self, registration: &Registration, state: SeatState) {
        self.change(|desk| {
            if let Some(seat) = desk
                .seats
                .iter_mut()
                .find(|seat| seat.registration == *registration)
            {
                seat.runner = state;
            }
        });
    }

    /// Whether new jobs are held back, by the person's wish or by this machine's terms.
    fn holds(&self) -> bool {
        let desk = self.desk();
        desk.choices.hold.holds(Timestamp::now()) || desk.held.holds()
    }

    /// Where the scratch directories of cases are made.
    pub(super) fn work_root(&self) -> std::path::PathBuf {
        let chosen = self.options.settings.work_root.clone();
        chosen.unwrap_or_else(|| self.options.paths.work_root())
    }

    /// Tells every runner whether to take jobs, as the choices and the terms are at this moment.
    pub(super) fn apply_hold(&self, crew: &Crew) {
        let held = self.holds();
        for handle in crew.members.iter().filter_map(|member| member.handle.as_ref()) {
            handle.hold(held);
        }
    }
}

/// Gives each registration its seat, in order, and keeps what is known of those that have one.
fn seat(desk: &mut Desk, known: &[Registration], slots: usize) {
    let hub = desk.choices.hub.map(|address| format!("http://{address}"));
    let mut seats = std::mem::take(&mut desk.seats);
    for registration in known {
        let index = seats.iter().position(|seat| seat.registration == *registration);
        let runner = index.map_or(SeatState::Waiting, |index| seats.swap_remove(index).runner);
        desk.seats.push(Seat {
            embedded: hub.as_ref() == Some(&registration.hub_url),
            slots,
            registration: registration.clone(),
            runner,
        });
    }
}

/// Follows one runner to its end.
async fn watch_over(
    room: Arc<Room>,
    registration: Registration,
    mut runner: watch::Receiver<RunnerSnapshot>,
    mut events: broadcast::Receiver<RunnerEvent>,
) {
    loop {
        tokio::select! {
            changed = runner.changed() => {
                // The sender goes with the runner; the last state was seen by then.
                if changed.is_err() {
                    return;
                }
                let now = runner.borrow_and_update().clone();
                room.show(&registration, SeatState::Started(now));
            }
            event = events.recv() => match event {
                Ok(event) => room.step(&registration, &event),
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    let now = runner.borrow().clone();
                    room.catch_up(&registration, &now, missed);
                }
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}

impl Room {
    fn step(&self, registration: &Registration, event: &RunnerEvent) {
        match event {
            RunnerEvent::LogLine { job_id, part, line } => {
                self.logs.line(job_id.as_str(), part.as_deref(), line);
            }
            RunnerEvent::JobStarted(active) => {
                self.logs.begin(active.job_id.as_str());
                self.change(|desk| self.tell(desk.begin(active, registration)));
                self.nudge.notify_one();
            }
            RunnerEvent::JobFinished(summary) => {
                if summary.outcome == Outcome::LeaseLost {
                    tracing::warn!(job = %summary.job_id, "the lease of a job was lost");
                }
                self.finish(summary.job_id.as_str(), Some(summary));
            }
        }
    }

    fn finish(&self, job: &str, summary: Option<&everdict_runner_core::JobSummary>) {
        self.logs.end(job);
        self.change(|desk| {
            let live = desk.live.iter().find(|live| live.job.id == job);
            let ending = live.and_then(|live| self.works.take(&live.key));
            let end = End { summary, ending };
            self.tell(desk.end(job, end, Timestamp::now()));
        });
        self.nudge.notify_one();
    }

    /// After a burst that was too fast to follow: the snapshot says who runs, and the logs say what is missing.
    fn catch_up(&self, registration: &Registration, runner: &RunnerSnapshot, missed: u64) {
        for active in &runner.active {
            self.logs.begin(active.job_id.as_str());
            // Which job's lines they were is not known; each reader learns of the most it can be.
            self.logs.missed(active.job_id.as_str(), missed);
            self.change(|desk| self.tell(desk.begin(active, registration)));
        }
        let over: Vec<String> = self
            .desk()
            .live
            .iter()
            .filter(|live| live.job.runner == registration.label)
            .map(|live| live.job.id.clone())
            .filter(|id| !runner.active.iter().any(|active| active.job_id.as_str() == id))
            .collect();
        for job in over {
            self.finish(&job, None);
        }
    }
}
