//! What is known at one moment, and what a window sees of it: no I/O but the history's file, no async.

use everdict_contracts::Capability;
use everdict_runner_core::capabilities::{CapabilityStatus, Offer};
use everdict_runner_core::{ActiveJob, JobSummary, OfflineCause, RunnerSnapshot, RunnerState};
use jiff::Timestamp;

use super::choices::Choices;
use super::history::History;
use super::hold::Hold;
use super::invitation::Invitation;
use super::terms::Held;
use super::view::{
    AppEvent, AppSnapshot, AppState, AskView, AutostartState, CapabilityState, CapabilityView, Failure,
    InvitationView, JobDetail, JobOutcome, JobView, KeyringState, MachineView, NoticesState, RunnerView,
    TodayView, UpdateView,
};
use super::work::{Ending, WorkKey, is_cancel, judge_failure};
use crate::registrations::Registration;
use everdict_contracts::Verdict;
use everdict_runner_core::attempt::Outcome;

/// What doesn't change while the app runs, or only from outside.
pub(super) struct Frame {
    pub(super) version: String,
    pub(super) machine: MachineView,
    pub(super) tray_host: bool,
    pub(super) keyring: KeyringState,
}

/// What the app is as a program of this desktop.
#[derive(Default)]
pub(super) struct Shell {
    pub(super) autostart: AutostartState,
    pub(super) notices: NoticesState,
    pub(super) update: Option<UpdateView>,
    pub(super) link: Option<OpenedLink>,
}

/// A pairing link that waits for the person.
#[derive(Debug)]
pub(super) struct OpenedLink {
    pub(super) view: InvitationView,
    /// `None` when the link can't be used.
    pub(super) invitation: Option<Invitation>,
}

/// A paired runner as it stands.
pub(super) struct Seat {
    pub(super) registration: Registration,
    pub(super) embedded: bool,
    pub(super) slots: usize,
    pub(super) runner: SeatState,
}

pub(super) enum SeatState {
    /// Not looked at yet.
    Waiting,
    /// It can't be started: why.
    Stuck(Failure),
    /// It runs, or ended by itself.
    Started(RunnerSnapshot),
}

/// A job that runs, with what links it to its case.
pub(super) struct Live {
    pub(super) job: JobView,
    pub(super) key: WorkKey,
}

/// See the module.
pub(super) struct Desk {
    pub(super) frame: Frame,
    pub(super) shell: Shell,
    pub(super) choices: Choices,
    pub(super) held: Held,
    pub(super) asks: Vec<AskView>,
    pub(super) seats: Vec<Seat>,
    /// Why the whole can't be as it should, before any single runner.
    pub(super) trouble: Option<Failure>,
    pub(super) capabilities: Vec<CapabilityStatus>,
    pub(super) live: Vec<Live>,
    pub(super) history: History,
    seq: u64,
    shown: Option<AppSnapshot>,
}

impl Desk {
    pub(super) fn new(frame: Frame, choices: Choices, history: History) -> Self {
        Self {
            frame,
            shell: Shell::default(),
            choices,
            held: Held::default(),
            asks: Vec::new(),
            seats: Vec::new(),
            trouble: None,
            capabilities: Vec::new(),
            live: Vec::new(),
            history,
            seq: 0,
            shown: None,
        }
    }

    /// The state at `now`, with the number of the last event.
    pub(super) fn snapshot(&mut self, now: Timestamp) -> AppSnapshot {
        let today = self.history.today(now);
        self.compose(now, today)
    }

    /// The event that tells of the changes since the last one; `None` when there are none.
    pub(super) fn changes(&mut self, now: Timestamp) -> Option<AppEvent> {
        let mut snapshot = self.snapshot(now);
        let known = self.shown.as_mut().is_some_and(|shown| {
            shown.seq = snapshot.seq;
            *shown == snapshot
        });
        if known {
            return None;
        }
        self.seq += 1;
        snapshot.seq = self.seq;
        self.shown = Some(snapshot.clone());
        Some(AppEvent::Snapshot {
            seq: self.seq,
            snapshot: Box::new(snapshot),
        })
    }

    /// Takes in a job that began; `None` when it is known.
    pub(super) fn begin(&mut self, active: &ActiveJob, seat: &Registration) -> Option<AppEvent> {
        let id = active.job_id.to_string();
        if self.live.iter().any(|live| live.job.id == id) {
            return None;
        }
        let job = JobView {
            id,
            case_id: active.case_id.to_string(),
            harness: active.harness.clone(),
            workspace: seat.workspace.clone(),
            started_at: active.started.to_string(),
            ended_at: None,
            outcome: None,
            runner: seat.label.clone(),
            tokens: None,
            cost_usd: None,
        };
        let key = WorkKey {
            run: active.run_id.as_ref().map(ToString::to_string),
            case_id: job.case_id.clone(),
            harness: job.harness.clone(),
        };
        self.live.push(Live {
            job: job.clone(),
            key,
        });
        Some(self.job_event(job))
    }

    /// Takes in a job that ended; `None` when it never began.
    pub(super) fn end(&mut self, id: &str, end: End<'_>, now: Timestamp) -> Option<AppEvent> {
        let index = self.live.iter().position(|live| live.job.id == id)?;
        let Live { mut job, .. } = self.live.remove(index);
        job.ended_at = Some(now.to_string());
        job.outcome = Some(end.outcome());
        let failure = end.failure();
        let parts = end.ending.map(|ending| ending.parts).unwrap_or_default();
        job.tokens = parts.tokens();
        job.cost_usd = parts.cost_usd();
        let detail = JobDetail {
            job: job.clone(),
            failure,
            scores: parts.scores,
            changes: parts.changes,
            trace: parts.trace,
            raw: parts.raw,
        };
        if let Err(problem) = self.history.add(detail) {
            tracing::warn!(problem = %problem.chain(), "a job is missing in the history after a restart");
        }
        Some(self.job_event(job))
    }

    fn job_event(&mut self, job: JobView) -> AppEvent {
        self.seq += 1;
        AppEvent::Job { seq: self.seq, job }
    }

    fn compose(&self, now: Timestamp, today: TodayView) -> AppSnapshot {
        let hold = self.choices.hold.at(now);
        let held = hold.holds(now);
        let waiting = self.held.waiting.as_ref().map(|waiting| waiting.text.as_str());
        let runners: Vec<RunnerView> = self.seats.iter().map(|seat| seat.view(held, waiting)).collect();
        let Word { state, text, cause } = self.state(&runners, held);
        AppSnapshot {
            seq: self.seq,
            version: self.frame.version.clone(),
            machine: self.frame.machine.clone(),
            state,
            state_text: text,
            cause,
            last_answer_at: runners
                .iter()
                .filter_map(|runner| runner.last_answer_at.clone())
                .max(),
            paused_until: hold.text(),
            runners,
            capabilities: self
                .capabilities
                .iter()
                .map(|found| capability(found, &self.choices))
                .collect(),
            active: self.live.iter().map(|live| live.job.clone()).collect(),
            today,
            keyring: self.frame.keyring,
            tray_host: self.frame.tray_host,
            waiting: self.held.waiting.clone(),
            awake: self.held.awake,
            asks: self.asks.clone(),
            hub_pause: self.seats.iter().find_map(Seat::hub_pause),
            cpu_share: self.held.cpu_share.clone(),
            settings_fault: self.held.settings_fault.clone(),
            autostart: self.shell.autostart,
            notices: self.shell.notices,
            update: self.shell.update.clone(),
            deep_link: self.shell.link.as_ref().map(|link| link.view.clone()),
        }
    }

    /// The whole: what needs the person comes first, then what they asked for, then what is going on.
    fn state(&self, runners: &[RunnerView], held: bool) -> Word {
        if let Some(trouble) = &self.trouble {
            return Word::of_failure(trouble);
        }
        if runners.is_empty() {
            return Word::alone(AppState::Unpaired);
        }
        let first = |state| runners.iter().find(|runner| runner.state == state);
        if let Some(runner) = first(AppState::Attention) {
            return Word::of_runner(runner);
        }
        if let Some(fault) = &self.held.settings_fault {
            return Word::new(AppState::Attention, "settings", fault.message.clone());
        }
        if let Some(ask) = self.asks.first() {
            let text = format!("approve first job from \"{}\"", ask.workspace);
            return Word::new(AppState::Attention, "consent", text);
        }
        // Whoever wants to finish first is not paused before that.
        let finishing = self.choices.hold == Hold::AfterJobs && !self.live.is_empty();
        if finishing {
            return Word::new(AppState::Running, "finishing", "pauses after the running jobs");
        }
        if held {
            return Word::alone(AppState::Paused);
        }
        // One runner that works says more than another that is paused by its hub.
        let by_weight = [
            AppState::Running,
            AppState::Waiting,
            AppState::Idle,
            AppState::Paused,
            AppState::Offline,
        ];
        by_weight
            .into_iter()
            .find_map(first)
            .map_or(Word::alone(AppState::Starting), Word::of_runner)
    }
}

/// A state with what stands behind it.
struct Word {
    state: AppState,
    text: String,
    cause: Option<String>,
}

impl Word {
    fn alone(state: AppState) -> Self {
        Self {
            state,
            text: String::new(),
            cause: None,
        }
    }

    fn new(state: AppState, cause: &str, text: impl Into<String>) -> Self {
        Self {
            state,
            text: text.into(),
            cause: Some(cause.to_owned()),
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        Self::new(AppState::Attention, &failure.code, failure.message.clone())
    }

    fn of_runner(runner: &RunnerView) -> Self {
        Self {
            state: runner.state,
            text: runner.state_text.clone(),
            cause: runner.cause.clone(),
        }
    }
}

/// How a job ended, from both sides.
pub(super) struct End<'a> {
    /// The runner's word; `None` when it was missed.
    pub(super) summary: Option<&'a JobSummary>,
    /// The executor's word; `None` when it never came to anything.
    pub(super) ending: Option<Ending>,
}

impl End<'_> {
    fn outcome(&self) -> JobOutcome {
        match self.summary.map(|summary| summary.outcome) {
            Some(Outcome::Cancelled) => return JobOutcome::Cancelled,
            Some(Outcome::LeaseLost) => return JobOutcome::HandedBack,
            _ => {}
        }
        let told = self.summary.and_then(|summary| summary.failure.as_ref());
        let failure = self
            .ending
            .as_ref()
            .and_then(|ending| ending.failure.as_ref())
            .or(told);
        if failure.is_some_and(is_cancel) {
            return JobOutcome::Cancelled;
        }
        if self.ending.as_ref().is_some_and(|ending| ending.handed_back) {
            return JobOutcome::HandedBack;
        }
        let judged = self.ending.as_ref().map(|ending| ending.judged.verdict);
        match judged.or_else(|| failure.map(|failure| judge_failure(failure).verdict)) {
            Some(Verdict::Pass) => JobOutcome::Passed,
            Some(Verdict::Fail) => JobOutcome::Failed,
            Some(Verdict::Timeout) => JobOutcome::TimedOut,
            Some(Verdict::Unmeasured) => JobOutcome::Unmeasured,
            Some(Verdict::Infra) => JobOutcome::Infra,
            None => JobOutcome::HandedBack,
        }
    }

    fn failure(&self) -> Option<Failure> {
        let told = self.summary.and_then(|summary| summary.failure.as_ref());
        let failure = self
            .ending
            .as_ref()
            .and_then(|ending| ending.failure.as_ref())
            .or(told);
        if let Some(failure) = failure {
            return Some(Failure {
                code: failure.code.clone(),
                message: failure.message.clone(),
                fix: None,
            });
        }
        let judged = &self.ending.as_ref()?.judged;
        judged.reason.as_ref().map(|reason| Failure {
            code: judged.verdict.as_str().to_owned(),
            message: reason.clone(),
            fix: None,
        })
    }
}

impl Seat {
    /// Why its hub gives it no jobs, if it says so.
    fn hub_pause(&self) -> Option<String> {
        match &self.runner {
            SeatState::Started(runner) => runner.hub_pause.clone(),
            SeatState::Waiting | SeatState::Stuck(_) => None,
        }
    }

    fn view(&self, held: bool, waiting: Option<&str>) -> RunnerView {
        let Word { state, text, cause } = self.state(held, waiting);
        let (last_answer_at, active) = match &self.runner {
            SeatState::Started(runner) => (runner.last_answer.map(|at| at.to_string()), runner.active.len()),
            SeatState::Waiting | SeatState::Stuck(_) => (None, 0),
        };
        RunnerView {
            id: self.registration.runner_id.to_string(),
            label: self.registration.label.clone(),
            hub: self.registration.hub_url.clone(),
            target: format!("self:{}", self.registration.runner_id),
            state,
            state_text: text,
            cause,
            last_answer_at,
            active,
            slots: self.slots,
            embedded: self.embedded,
        }
    }

    fn state(&self, held: bool, waiting: Option<&str>) -> Word {
        let runner = match &self.runner {
            SeatState::Waiting => return Word::alone(AppState::Starting),
            SeatState::Stuck(failure) => return Word::of_failure(failure),
            SeatState::Started(runner) => runner,
        };
        match &runner.state {
            RunnerState::Revoked { .. } => {
                Word::new(AppState::Attention, "revoked", "access revoked; pair again")
            }
            RunnerState::Removed { .. } => Word::new(
                AppState::Attention,
                "removed",
                "removed by the hub; pair again, or unpair it here",
            ),
            RunnerState::UpdateRequired { .. } => Word::new(
                AppState::Attention,
                "update_required",
                "the hub needs a newer runner",
            ),
            // A held runner asks nothing, so it can't know that the hub is away.
            _ if held => Word::alone(AppState::Paused),
            RunnerState::Running => Word::alone(AppState::Running),
            _ if waiting.is_some() => Word::new(AppState::Waiting, "waiting", waiting.unwrap_or_default()),
            RunnerState::Connecting | RunnerState::Draining | RunnerState::Stopped => {
                Word::alone(AppState::Starting)
            }
            RunnerState::Idle => match &runner.hub_pause {
                Some(reason) => Word::new(AppState::Paused, "hub_pause", reason.clone()),
                None => Word::alone(AppState::Idle),
            },
            RunnerState::Offline { cause, detail } => {
                Word::new(AppState::Offline, offline(*cause), detail.clone())
            }
        }
    }
}

/// The code of each class of silence.
fn offline(cause: OfflineCause) -> &'static str {
    match cause {
        OfflineCause::Refused => "refused",
        OfflineCause::Dns => "dns",
        OfflineCause::Tls => "tls",
        OfflineCause::Timeout => "timeout",
        OfflineCause::Reset => "reset",
        OfflineCause::Http => "http",
        OfflineCause::NotAHub => "not_a_hub",
        OfflineCause::CallRefused => "call_refused",
        OfflineCause::Malformed => "malformed",
        OfflineCause::Network => "network",
    }
}

fn capability(found: &CapabilityStatus, choices: &Choices) -> CapabilityView {
    let state = match found.offer {
        Offer::Offered => CapabilityState::Found,
        Offer::SwitchedOff => CapabilityState::OffByYou,
        Offer::Absent => CapabilityState::NotFound,
        Offer::NotInThisBuild | Offer::HeldBack => CapabilityState::NotOffered,
    };
    CapabilityView {
        name: found.capability.as_str().to_owned(),
        on: !choices.switched_off.contains(&found.capability),
        state,
        reason: found.reason.clone(),
        fix: fix(found.capability, found.offer).map(str::to_owned),
    }
}

fn fix(capability: Capability, offer: Offer) -> Option<&'static str> {
    match (offer, capability) {
        (Offer::Absent, Capability::Git) => Some("install git; it is found by itself then"),
        (Offer::Absent, Capability::Docker | Capability::Browser) => {
            Some("start Docker or Podman; it is found by itself then")
        }
        (Offer::Absent, Capability::CodexLogin) => Some("sign in with the codex CLI on this machine"),
        (Offer::Absent, Capability::ClaudeLogin) => Some("sign in with the claude CLI on this machine"),
        (Offer::HeldBack, _) => Some("free some disk space"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
