//! The shapes that a window gets. TypeScript is generated from them (`ui/src/host/generated`); a test keeps the two the
//! same. Times are RFC 3339 texts, spans are seconds, and absent values are `null`.

mod held;
mod runs;
mod shell;
mod upkeep;

use serde::{Deserialize, Serialize};

pub use self::shell::{AutostartState, InvitationView, NoticesState, UpdateState, UpdateView};
use crate::problem::Problem;
pub use held::{
    AskView, ConsentAnswer, ConsentKind, ConsentView, CpuMeans, CpuShareView, SettingKind, SettingValue,
    SettingView, WaitingReason, WaitingView,
};
pub use runs::{
    BatchDetail, BatchView, CompareView, FileKind, FileProblem, FrameView, PreviewCase, PreviewView,
    RunState, RunView, RunsView, SubmittedView,
};
pub use upkeep::{CheckGroup, CheckMark, CheckView, CleanView, DiskCategory, DiskView, KeptView};

/// Everything a window or a tray shows, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct AppSnapshot {
    /// The number of the last event that is contained here.
    pub seq: u64,
    /// The app's own version.
    pub version: String,
    /// Where this is.
    pub machine: MachineView,
    /// The whole in one word.
    pub state: AppState,
    /// What stands behind the word, in a sentence without its full stop; empty where the word says it all.
    pub state_text: String,
    /// A code for what stands behind the word, such as `dns`, `revoked` or `keyring_locked`; `null` where there is none.
    pub cause: Option<String>,
    /// When a hub last answered one of the runners.
    pub last_answer_at: Option<String>,
    /// A time, or `resume` while paused until somebody resumes; `null` when not paused.
    pub paused_until: Option<String>,
    /// The paired runners, in the order of pairing.
    pub runners: Vec<RunnerView>,
    /// What may run here.
    pub capabilities: Vec<CapabilityView>,
    /// The jobs that run now, oldest first.
    pub active: Vec<JobView>,
    /// What ended since midnight.
    pub today: TodayView,
    /// Whether tokens can be kept in the system's keyring.
    pub keyring: KeyringState,
    /// Whether something on this desktop shows tray icons.
    pub tray_host: bool,
    /// Why no new job is taken, where this machine's own terms say so.
    pub waiting: Option<WaitingView>,
    /// Whether the system is kept from sleeping now, because a job runs.
    pub awake: bool,
    /// The jobs that wait for consent, oldest first.
    pub asks: Vec<AskView>,
    /// Why a hub gives this machine no jobs; `null` when none says so.
    pub hub_pause: Option<String>,
    /// How much of the CPUs jobs may take now.
    pub cpu_share: CpuShareView,
    /// What is wrong with the settings file; what was in force before stays so.
    pub settings_fault: Option<Failure>,
    /// Whether the app starts at login.
    pub autostart: AutostartState,
    /// Whether notifications reach the person.
    pub notices: NoticesState,
    /// A newer version; `null` where none is known.
    pub update: Option<UpdateView>,
    /// A pairing link that waits for the person; `null` where there is none.
    pub deep_link: Option<InvitationView>,
}

impl AppSnapshot {
    /// A machine of which nothing is known yet: unpaired, and nothing is wrong with it.
    #[must_use]
    pub fn blank() -> Self {
        Self {
            seq: 0,
            version: String::new(),
            machine: MachineView::default(),
            state: AppState::Unpaired,
            state_text: String::new(),
            cause: None,
            last_answer_at: None,
            paused_until: None,
            runners: Vec::new(),
            capabilities: Vec::new(),
            active: Vec::new(),
            today: TodayView::default(),
            keyring: KeyringState::Ok,
            tray_host: true,
            waiting: None,
            awake: false,
            asks: Vec::new(),
            hub_pause: None,
            cpu_share: CpuShareView {
                percent: 100,
                in_use: false,
                means: CpuMeans::Unlimited,
                text: String::new(),
            },
            settings_fault: None,
            autostart: AutostartState::Off,
            notices: NoticesState::Ok,
            update: None,
            deep_link: None,
        }
    }
}

/// The machine in a person's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct MachineView {
    /// Host name.
    pub name: String,
    /// Operating system with its version, where it announces one.
    pub system: String,
    /// Processor architecture.
    pub arch: String,
    /// Logical CPUs that this process may use.
    pub cpus: usize,
    /// Where the embedded hub's database and what lasts is kept.
    pub data_folder: String,
    /// The person's own settings.
    pub settings_file: String,
}

/// The whole in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum AppState {
    /// No runner is paired here.
    Unpaired,
    /// The hub answers, and there is nothing to do.
    Idle,
    /// At least one job runs.
    Running,
    /// No new jobs are taken, as the person or the hub wishes.
    Paused,
    /// No new jobs are taken for now, by this machine's own terms (see [`AppSnapshot::waiting`]).
    Waiting,
    /// No hub answers.
    Offline,
    /// Something needs the person.
    Attention,
    /// No hub has answered yet.
    Starting,
}

/// One paired runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct RunnerView {
    /// The id that the hub gave.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// The hub's address.
    pub hub: String,
    /// What a run targets to land here.
    pub target: String,
    /// What it does.
    pub state: AppState,
    /// As in [`AppSnapshot`].
    pub state_text: String,
    /// As in [`AppSnapshot`].
    pub cause: Option<String>,
    /// When its hub last answered.
    pub last_answer_at: Option<String>,
    /// Jobs that run now.
    pub active: usize,
    /// Jobs that it runs at the same time.
    pub slots: usize,
    /// Whether its hub is the one in this process.
    pub embedded: bool,
}

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct CapabilityView {
    /// Its name in the protocol.
    pub name: String,
    /// Whether the person lets it be offered.
    pub on: bool,
    /// Whether it is.
    pub state: CapabilityState,
    /// What the probe saw, in one line.
    pub reason: String,
    /// What would make it available.
    pub fix: Option<String>,
}

/// Whether a capability is offered to the hubs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum CapabilityState {
    /// It is there and offered.
    Found,
    /// It is there and the person switched it off.
    OffByYou,
    /// It isn't there.
    NotFound,
    /// It is there and can't be offered now.
    NotOffered,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    /// The lease's job.
    pub id: String,
    /// The case.
    pub case_id: String,
    /// `id@version`.
    pub harness: String,
    /// In whose workspace, in the hub's words.
    pub workspace: String,
    /// When it was leased.
    pub started_at: String,
    /// When its report was settled; `null` while it runs.
    pub ended_at: Option<String>,
    /// What it came to; `null` while it runs.
    pub outcome: Option<JobOutcome>,
    /// The label of the runner.
    pub runner: String,
    /// Model tokens in and out, where the trace tells.
    pub tokens: Option<u64>,
    /// What the models cost, where the trace tells.
    pub cost_usd: Option<f64>,
}

/// What a job came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum JobOutcome {
    /// Judged and good.
    Passed,
    /// Judged and not good.
    Failed,
    /// Stopped at its deadline.
    TimedOut,
    /// Nothing judged it.
    Unmeasured,
    /// The surroundings failed; not counted.
    Infra,
    /// Stopped by the person or the hub.
    Cancelled,
    /// The lease was lost or given back; another runner may have it.
    HandedBack,
}

/// What ended since midnight, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TodayView {
    /// Passed.
    pub passed: u32,
    /// Failed.
    pub failed: u32,
    /// Timed out.
    pub timed_out: u32,
    /// Infra.
    pub infra: u32,
    /// Unmeasured.
    pub unmeasured: u32,
    /// Seconds that jobs ran, all together.
    pub seconds: u64,
}

/// Whether tokens can be kept in the system's keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum KeyringState {
    /// It answers.
    Ok,
    /// This machine offers none.
    Unavailable,
    /// It waits for its password.
    Locked,
    /// The system said no.
    Denied,
}

/// What changed. On a gap in `seq` a window asks for a new snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum AppEvent {
    /// The whole changed.
    Snapshot {
        /// One more than that of the event before.
        seq: u64,
        /// The state with this change in it.
        snapshot: Box<AppSnapshot>,
    },
    /// A job began or ended.
    Job {
        /// One more than that of the event before.
        seq: u64,
        /// The job as it is now.
        job: JobView,
    },
}

/// Some lines of a job's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LogBatch {
    /// The number of the first line here, or of the next one where there is none.
    pub first_seq: u64,
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// How many lines before these are gone; absent when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub gap: Option<u64>,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// Grows by one per line of the job, lines that are gone included.
    pub seq: u64,
    /// When it was seen here.
    pub at: String,
    /// Who wrote it: `agent`, `runner`, `browser`, or the name of a container.
    pub stream: String,
    /// The line without its end.
    pub text: String,
}

/// A job with what it left so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct JobDetail {
    /// The job.
    pub job: JobView,
    /// Why it came to its outcome, where that isn't plain from the scores.
    pub failure: Option<Failure>,
    /// What the graders said.
    pub scores: Vec<ScoreView>,
    /// How the working tree changed, where there was one.
    pub changes: Option<ChangesView>,
    /// What happened, where it is known.
    pub trace: Option<TraceView>,
    /// The result as JSON for reading; only of the latest jobs, and only while the app runs.
    pub raw: Option<String>,
}

/// One score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ScoreView {
    /// Which grader.
    pub grader: String,
    /// Which metric.
    pub metric: String,
    /// Whether there is a value.
    pub status: ScoreStatus,
    /// The value, when there is one.
    pub value: Option<f64>,
    /// Passed, failed, or not a question of passing.
    pub pass: Option<bool>,
    /// A word for the value, where the grader gives one.
    pub label: Option<String>,
    /// The grader's reason, or why there is no value.
    pub reason: Option<String>,
}

/// Whether a score has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum ScoreStatus {
    /// It has.
    Measured,
    /// The grader couldn't tell.
    Unmeasured,
    /// The grader gave something that is no score.
    Invalid,
}

/// How a working tree changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ChangesView {
    /// Files that changed.
    pub files: Vec<String>,
    /// A unified diff.
    pub diff: String,
    /// Whether the diff is longer than what is kept.
    pub truncated: bool,
}

/// What happened, in numbers and in steps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TraceView {
    /// All events.
    pub events: usize,
    /// Calls of a model.
    pub llm_calls: usize,
    /// Tools asked for.
    pub tool_calls: usize,
    /// Errors.
    pub errors: usize,
    /// Tokens that models read, where the trace tells.
    pub input_tokens: Option<u64>,
    /// Tokens that models wrote, where the trace tells.
    pub output_tokens: Option<u64>,
    /// What the models cost, where the trace tells.
    pub cost_usd: Option<f64>,
    /// The first events, in order.
    pub steps: Vec<TraceStep>,
    /// Events that are not among the steps.
    pub left_out: usize,
}

/// One event of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct TraceStep {
    /// Milliseconds since the first event.
    pub at: f64,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<f64>,
    /// What it is.
    pub kind: StepKind,
    /// Of which model, tool or part.
    pub name: String,
    /// What it says, cut to a few lines.
    pub text: Option<String>,
}

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// A call of a model.
    Llm,
    /// A tool asked for, or its answer.
    Tool,
    /// Something said.
    Message,
    /// Something went wrong.
    Error,
    /// Anything else.
    Other,
}

/// A failure as a window gets it; it decides by `code`, never by the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The class, such as `input`, `refused` or `keyring_locked`.
    pub code: String,
    /// What failed and why.
    pub message: String,
    /// The next step.
    pub fix: Option<String>,
}

impl From<&Problem> for Failure {
    fn from(problem: &Problem) -> Self {
        Self {
            code: problem.code().to_owned(),
            message: problem.chain(),
            fix: problem.next_step().map(str::to_owned),
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::from(&problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ts_rs::TS;

    const HEAD: &str = "// biome-ignore-all lint: generated\n// biome-ignore-all format: generated\n\
        // Made from crates/app/src/control/view.rs by its test; EVERDICT_BLESS=1 writes it anew.\n";

    fn declared<T: TS>(config: &ts_rs::Config) -> String {
        format!("\nexport {}\n", T::decl(config))
    }

    fn upkeep_and_runs(config: &ts_rs::Config) -> String {
        [
            declared::<CheckView>(config),
            declared::<CheckGroup>(config),
            declared::<CheckMark>(config),
            declared::<DiskView>(config),
            declared::<DiskCategory>(config),
            declared::<CleanView>(config),
            declared::<KeptView>(config),
            declared::<RunsView>(config),
            declared::<RunView>(config),
            declared::<RunState>(config),
            declared::<PreviewView>(config),
            declared::<FileKind>(config),
            declared::<PreviewCase>(config),
            declared::<FileProblem>(config),
            declared::<SubmittedView>(config),
            declared::<BatchView>(config),
            declared::<BatchDetail>(config),
            declared::<CompareView>(config),
            declared::<FrameView>(config),
        ]
        .concat()
    }

    #[test]
    fn the_window_s_types_are_those_of_the_engine() {
        let config = &ts_rs::Config::new().with_large_int("number");
        let text = [
            HEAD.to_owned(),
            declared::<AppSnapshot>(config),
            declared::<MachineView>(config),
            declared::<AppState>(config),
            declared::<RunnerView>(config),
            declared::<CapabilityView>(config),
            declared::<CapabilityState>(config),
            declared::<JobView>(config),
            declared::<JobOutcome>(config),
            declared::<TodayView>(config),
            declared::<KeyringState>(config),
            declared::<AppEvent>(config),
            declared::<LogBatch>(config),
            declared::<LogLine>(config),
            declared::<JobDetail>(config),
            declared::<ScoreView>(config),
            declared::<ScoreStatus>(config),
            declared::<ChangesView>(config),
            declared::<TraceView>(config),
            declared::<TraceStep>(config),
            declared::<StepKind>(config),
            declared::<Failure>(config),
            declared::<WaitingView>(config),
            declared::<WaitingReason>(config),
            declared::<AskView>(config),
            declared::<ConsentKind>(config),
            declared::<ConsentView>(config),
            declared::<ConsentAnswer>(config),
            declared::<CpuShareView>(config),
            declared::<CpuMeans>(config),
            declared::<SettingView>(config),
            declared::<SettingKind>(config),
            declared::<SettingValue>(config),
            upkeep_and_runs(config),
            declared::<AutostartState>(config),
            declared::<NoticesState>(config),
            declared::<UpdateView>(config),
            declared::<UpdateState>(config),
            declared::<InvitationView>(config),
        ]
        .concat();
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui/src/host/generated/contract.ts");
        if everdict_exec::HostEnv::capture().get("EVERDICT_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text, "run this test with EVERDICT_BLESS=1");
    }
}
