//! What a window and a tray do to this machine, and what they see of it.
//!
//! A [`Control`] keeps the paired runners and the embedded hub running, remembers what the person chose (paused until
//! when, which capabilities are off), and shows it all as one [`AppSnapshot`] with numbered [`AppEvent`]s. Job logs are
//! not among the events: each has its own [`LogReader`].
//!
//! Invariants:
//! - the registrations decide who works here, also when another program changes them;
//! - a pairing that fails halfway leaves nothing in the keyring, the registrations or the hub;
//! - an unpairing needs no server;
//! - a wish to pause is kept over restarts and ends by the clock on the wall;
//! - whatever grows with the work (logs, history, events) is bounded.

pub mod calls;
mod choices;
mod clock;
mod consent;
mod desk;
mod detail;
mod frames;
mod history;
mod hold;
mod invitation;
mod link;
mod logs;
mod machine;
mod pair;
mod room;
mod runs;
mod save;
mod signin;
mod steer;
mod terms;
mod upkeep;
mod view;
mod work;

use std::sync::Arc;
use std::time::Duration;

use everdict_exec::HostEnv;
use jiff::Timestamp;
use secrecy::SecretString;
use tokio::sync::broadcast;

use crate::autostart::Autostart;
use crate::containers::{ContainerOptions, Containers};
use crate::notices::QuietHours;
use crate::paths::Paths;
use crate::problem::{Problem, Result};
use crate::secrets::EnvSecrets;
use crate::settings::Settings;
use choices::ChoicesFile;
use desk::{Desk, Frame};
use history::History;
use room::{Crew, Room};

pub(crate) use clock::local as local_time;
pub use clock::{epoch_seconds, minute_of_day, time_of_day};
pub use frames::FrameReader;
pub use logs::LogReader;
pub use pair::TokenPlace;
pub use view::{
    AppEvent, AppSnapshot, AppState, AskView, AutostartState, CapabilityState, CapabilityView, ChangesView,
    ConsentAnswer, ConsentKind, ConsentView, CpuMeans, CpuShareView, Failure, InvitationView, JobDetail,
    JobOutcome, JobView, KeyringState, LogBatch, LogLine, MachineView, NoticesState, RunnerView, ScoreStatus,
    ScoreView, SettingKind, SettingValue, SettingView, StepKind, TodayView, TraceStep, TraceView,
    UpdateState, UpdateView, WaitingReason, WaitingView,
};
pub use view::{
    BatchDetail, BatchView, CompareView, FileKind, FileProblem, FrameView, PreviewCase, PreviewView,
    RunState, RunView, RunsView, SubmittedView,
};
pub use view::{CheckGroup, CheckMark, CheckView, CleanView, DiskCategory, DiskView, KeptView};

/// How soon a pairing made elsewhere, the end of a pause and a new capability show. Each round costs a small file and
/// some look-ups.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Events that a window may lag behind; one that lags more gets a new snapshot.
const EVENT_BACKLOG: usize = 256;

/// The case that shows whether everything works here.
const SAMPLE: &str = include_str!("control/sample.json");

/// What a control is started with.
#[derive(Debug)]
pub struct ControlOptions {
    /// What this program is called, as another that wants the same profile is told.
    pub program: &'static str,
    /// Where everything lies.
    pub paths: Paths,
    /// What the person set.
    pub settings: Settings,
    /// The environment as captured at start.
    pub env: Arc<HostEnv>,
    /// The secrets that it brought.
    pub secrets: EnvSecrets,
    /// How containers are run.
    pub containers: ContainerOptions,
    /// The version that rosters show.
    pub version: String,
    /// Whether something on this desktop shows tray icons.
    pub tray_host: bool,
    /// The switch for start at login; `None` for a face of the app that has none.
    pub autostart: Option<Autostart>,
}

/// How to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Running jobs finish and report first.
    AfterJobs,
    /// Running jobs are stopped, and their hubs are told.
    Now,
}

/// See the module. Dropping it stops everything hard; end it with [`Control::leave`].
pub struct Control {
    room: Arc<Room>,
}

impl Control {
    /// Starts keeping the paired runners. Must be called within a tokio runtime. Returns at once: who is paired is
    /// known by then, everything else shows in the snapshot.
    ///
    /// Where another program takes jobs for the same profile no job is taken here until that one has ended; the snapshot
    /// says so.
    ///
    /// # Errors
    /// A problem about this machine when the folders can't be used.
    pub fn start(options: ControlOptions) -> Result<Self> {
        everdict_runner_core::session::install_crypto();
        options.paths.prepare()?;
        let now = Timestamp::now();
        let state_dir = options.paths.state_dir();
        let frame = Frame {
            version: options.version.clone(),
            machine: machine::read(&options.paths),
            tray_host: options.tray_host,
            // Until the first look, and rather wrong in this way than in the other: nothing is asked of it before.
            keyring: KeyringState::Ok,
        };
        let choices = ChoicesFile::in_dir(state_dir).load();
        let desk = Desk::new(frame, choices, History::load(state_dir, now));
        let containers = Containers::start(options.containers.clone(), Arc::clone(&options.env))?;
        let room = Arc::new(Room::new(
            options,
            containers,
            desk,
            broadcast::Sender::new(EVENT_BACKLOG),
        ));
        room.seat_known();
        if let Err(problem) = room.claim_profile() {
            room.change(|desk| desk.trouble = Some(Failure::from(problem)));
        }
        room.look_at_capabilities();
        room.refresh_autostart();
        room.tasks.spawn(terms::keep(Arc::clone(&room)));
        room.tasks.spawn(keep(Arc::clone(&room)));
        Ok(Self { room })
    }

    /// Says whether this is the program that takes jobs for the profile.
    ///
    /// # Errors
    /// `already_running`, with the name of the other.
    pub fn is_alone(&self) -> Result<()> {
        self.room.claim_profile()
    }

    /// Returns the state at this moment.
    #[must_use]
    pub fn snapshot(&self) -> AppSnapshot {
        self.room.desk().snapshot(Timestamp::now())
    }

    /// Follows the state: first the whole, then every change.
    #[must_use]
    pub fn watch(&self) -> AppWatch {
        AppWatch {
            events: self.room.subscribe(),
            room: Arc::clone(&self.room),
            seen: None,
        }
    }

    /// Starts the embedded hub and pairs with it.
    ///
    /// # Errors
    /// Input when it is paired already or the label is no good, else about this machine, with a code for each state of
    /// the keyring. Nothing is left behind.
    pub async fn pair_this_computer(&self, label: &str, place: TokenPlace) -> Result<()> {
        self.room.pair_this_computer(label, place).await
    }

    /// Pairs by what the person pasted: a runner token, an attach command or a pairing link. `hub` may be empty when the
    /// text names one.
    ///
    /// # Errors
    /// As [`crate::Pairing::with_token`]. Nothing is left behind.
    pub async fn pair_with_token(&self, hub: &str, text: &str, label: &str, place: TokenPlace) -> Result<()> {
        self.room.pair_with_token(hub, text, label, place).await
    }

    /// Makes a runner at a hub with a member's key, which is not kept.
    ///
    /// # Errors
    /// As [`crate::Pairing::with_api_key`]. Nothing is left behind.
    pub async fn pair_with_api_key(
        &self,
        hub: &str,
        key: SecretString,
        label: &str,
        place: TokenPlace,
    ) -> Result<()> {
        self.room.pair_with_api_key(hub, key, label, place).await
    }

    /// Shows a pairing link that was opened from outside, or why it can't be used, in place of one that waits.
    /// Nothing is asked of a hub, and nothing is kept.
    pub fn open_link(&self, text: &str) {
        let link = link::read(text);
        self.room.change(|desk| desk.shell.link = Some(link));
    }

    /// Pairs by the link that waits, under the name that the person gave.
    ///
    /// # Errors
    /// Input when no usable link waits; else as [`Control::pair_with_token`]. The link waits on then.
    pub async fn accept_link(&self, label: &str, place: TokenPlace) -> Result<()> {
        self.room.accept_link(label, place).await
    }

    /// Forgets the link that waits; without one that is fine.
    pub fn dismiss_link(&self) {
        self.room.change(|desk| desk.shell.link = None);
    }

    /// Makes the desktop start the app at login, or no longer.
    ///
    /// # Errors
    /// About this machine when it has no such switch or it can't be turned.
    pub fn set_autostart(&self, on: bool) -> Result<()> {
        let Some(autostart) = &self.room.options.autostart else {
            return Err(
                Problem::machine("this system has no start at login that the app could switch")
                    .fix("use the settings of your desktop")
                    .coded("autostart_unavailable"),
            );
        };
        let done = autostart.set(on);
        self.room.look_at_autostart();
        done
    }

    /// Says whether notifications reach the person, as whoever sends them found out.
    pub fn set_notices(&self, state: NoticesState) {
        self.room.change(|desk| desk.shell.notices = state);
    }

    /// Shows what is known of a newer version, as whoever looks for one found out.
    pub fn set_update(&self, update: Option<UpdateView>) {
        self.room.change(|desk| desk.shell.update = update);
    }

    /// Pairs a runner of the embedded hub anew, in place of one that the hub refuses.
    ///
    /// # Errors
    /// Input when there is no such runner or it is another hub's (`not_own_hub`), else as
    /// [`Control::pair_this_computer`].
    pub async fn pair_again(&self, runner_id: &str) -> Result<()> {
        self.room.pair_again(runner_id).await
    }

    /// Stops a runner and forgets it, whatever its hub says.
    ///
    /// # Errors
    /// Input when there is no such runner; a problem about this machine when something of it stays.
    pub async fn unpair(&self, runner_id: &str) -> Result<()> {
        self.room.unpair(runner_id).await
    }

    /// Submits the sample case to the embedded hub; returns the id of the run.
    ///
    /// # Errors
    /// Not paired when there is no embedded hub, else the hub's fault.
    pub async fn submit_sample(&self) -> Result<String> {
        let client = self.room.own_hub().await?;
        let body = serde_json::from_str(SAMPLE).expect("BUG: the sample is JSON");
        Ok(client.submit(&body).await?.id.to_string())
    }

    /// Lists jobs: those that run, then those that ended, newest first.
    #[must_use]
    pub fn jobs(&self, limit: usize) -> Vec<JobView> {
        let desk = self.room.desk();
        let live = desk.live.iter().map(|live| &live.job);
        live.chain(desk.history.jobs()).take(limit).cloned().collect()
    }

    /// Returns what a job left so far.
    ///
    /// # Errors
    /// Input when the job is not known here.
    pub fn job_result(&self, id: &str) -> Result<JobDetail> {
        let desk = self.room.desk();
        if let Some(live) = desk.live.iter().find(|live| live.job.id == id) {
            return Ok(JobDetail {
                job: live.job.clone(),
                failure: None,
                scores: Vec::new(),
                changes: None,
                trace: None,
                raw: None,
            });
        }
        desk.history.find(id).cloned().ok_or_else(unknown_job)
    }

    /// Follows the log of a job.
    ///
    /// # Errors
    /// Input when the job, or its log, is not known here (any more).
    pub fn follow_log(&self, id: &str) -> Result<LogReader> {
        self.room.logs.follow(id).ok_or_else(|| {
            Problem::input("the log of this job is not kept here any more")
                .fix("the hub keeps logs longer: look at the run there")
                .coded("log_gone")
        })
    }

    /// Follows what the browser of a running job shows.
    ///
    /// # Errors
    /// Input when no such job runs.
    pub fn follow_frames(&self, id: &str) -> Result<FrameReader> {
        let desk = self.room.desk();
        let live = desk.live.iter().find(|live| live.job.id == id);
        live.and_then(|live| self.room.works.follow_frames(&live.key))
            .ok_or_else(unknown_job)
    }

    /// Lists every setting with the value in force and its documentation.
    #[must_use]
    pub fn settings(&self) -> Vec<SettingView> {
        let file = self.room.options.paths.settings_file();
        Settings::views(&std::fs::read_to_string(file).unwrap_or_default())
    }

    /// Writes a setting into the person's file, comments kept, or takes it out of it; in force at once where that is
    /// possible ([`SettingView::at_start`]).
    ///
    /// # Errors
    /// Input when there is no such setting, its value is not allowed, or the file is nonsense; about this machine when
    /// it can't be written. Nothing is changed then.
    pub async fn save_setting(&self, key: &str, value: Option<&SettingValue>) -> Result<Vec<SettingView>> {
        let settings = crate::settings::save(&self.room.options.paths.settings_file(), key, value)?;
        self.room.apply_settings(settings).await;
        self.room.nudge.notify_one();
        Ok(self.settings())
    }

    /// When the person wants to be told nothing; `None` when they don't want to be told anything at all.
    #[must_use]
    pub fn notifications(&self) -> Option<QuietHours> {
        let settings = self.room.settings();
        settings.notifications.then_some(settings.quiet_hours)
    }

    /// Lists what the person allowed or refused for good.
    #[must_use]
    pub fn consents(&self) -> Vec<ConsentView> {
        self.room.consents.views()
    }

    /// Answers a job that waits for consent.
    ///
    /// # Errors
    /// Input when it is not asked any more; about this machine when an answer for good can't be kept: it holds for this
    /// run then.
    pub fn answer_ask(&self, id: &str, answer: ConsentAnswer) -> Result<()> {
        let answered = self.room.consents.answer(id, answer);
        self.room.show_asks();
        answered
    }

    /// Forgets what was allowed or refused; the next such job asks again.
    ///
    /// # Errors
    /// Input when there is no such consent; about this machine when that can't be kept.
    pub fn revoke_consent(&self, id: &str) -> Result<()> {
        self.room.consents.revoke(id)
    }

    /// Takes no more jobs and waits until everything here has ended. Cancel safe: what has begun goes on.
    pub async fn leave(&self, how: Leave) {
        self.room.stop.cancel();
        let mut crew = self.room.crew.lock().await;
        for handle in crew.members.iter().filter_map(|member| member.handle.as_ref()) {
            match how {
                Leave::AfterJobs => handle.drain(),
                Leave::Now => handle.cancel(),
            }
        }
        for handle in crew.members.iter().filter_map(|member| member.handle.as_ref()) {
            handle.join().await;
        }
        self.room.containers.close().await;
        if let Some(hub) = crew.hub.take()
            && let Err(problem) = hub.stop().await
        {
            tracing::warn!(problem = %problem.chain(), "the hub did not stop well");
        }
        self.room.settle_choices();
        self.room.yield_profile();
    }

    /// Stops the running jobs of a control that [`Control::leave`] waits for.
    pub fn hurry(&self) {
        self.room.works.stop_all();
    }
}

fn unknown_job() -> Problem {
    Problem::input("this job is not known here (any more)")
        .fix("look at the list of jobs again")
        .coded("job_unknown")
}

/// Keeps the crew as the registrations say and the pause as the clock says.
async fn keep(room: Arc<Room>) {
    {
        let mut crew = room.crew.lock().await;
        room.start_hub(&mut crew).await;
        room.reconcile(&mut crew).await;
    }
    room.look_at_keyring().await;
    let mut offer = room.containers.offer();
    let mut offers = true;
    loop {
        tokio::select! {
            biased;
            () = room.stop.cancelled() => return,
            changed = offer.changed(), if offers => offers = changed.is_ok(),
            () = tokio::time::sleep(LOOK_EVERY) => look(&room, &mut *room.crew.lock().await).await,
        }
        room.look_at_capabilities();
    }
}

async fn look(room: &Arc<Room>, crew: &mut Crew) {
    room.end_pause();
    room.look_at_autostart();
    room.apply_hold(crew);
    room.start_hub(crew).await;
    room.reconcile(crew).await;
}

/// One follower of the state.
pub struct AppWatch {
    events: broadcast::Receiver<AppEvent>,
    room: Arc<Room>,
    /// The number of the last event that was handed out.
    seen: Option<u64>,
}

impl AppWatch {
    /// Waits for the next event; the first, and the first after a lag, is the whole state. `None` once the control is
    /// gone. Cancel safe.
    pub async fn next(&mut self) -> Option<AppEvent> {
        loop {
            let Some(seen) = self.seen else {
                return Some(self.whole());
            };
            match self.events.recv().await {
                Ok(event) if seq(&event) <= seen => {}
                Ok(event) => {
                    self.seen = Some(seq(&event));
                    return Some(event);
                }
                Err(broadcast::error::RecvError::Lagged(_)) => self.seen = None,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// Makes the next event the whole state, in place of what came meanwhile.
    pub fn start_over(&mut self) {
        self.seen = None;
    }

    fn whole(&mut self) -> AppEvent {
        let snapshot = self.room.desk().snapshot(Timestamp::now());
        self.seen = Some(snapshot.seq);
        AppEvent::Snapshot {
            seq: snapshot.seq,
            snapshot: Box::new(snapshot),
        }
    }
}

fn seq(event: &AppEvent) -> u64 {
    match event {
        AppEvent::Snapshot { seq, .. } | AppEvent::Job { seq, .. } => *seq,
    }
}
