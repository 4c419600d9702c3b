//! What a window sees of this machine's own terms: what holds jobs back, what is asked, what is set.

use serde::{Deserialize, Serialize};

/// Why no new job is taken now, though nobody paused anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct WaitingView {
    /// The strongest reason.
    pub reason: WaitingReason,
    /// All of them in words, without a full stop, such as `on battery`.
    pub text: String,
    /// Since when nothing is taken.
    pub since: String,
}

/// What holds jobs back, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum WaitingReason {
    /// The disk is fuller than the settings allow.
    Disk,
    /// The machine runs on its battery.
    Battery,
    /// The network is paid by volume.
    Metered,
    /// It is not within the working hours.
    Hours,
    /// Somebody uses the machine.
    InUse,
}

/// A job that waits for the person's consent. It is given back when nobody answers in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct AskView {
    /// What an answer names.
    pub id: String,
    /// The hub that sent it.
    pub hub: String,
    /// The workspace it is for.
    pub workspace: String,
    /// `id@version`.
    pub harness: String,
    /// What kind of thing would run.
    pub kind: ConsentKind,
    /// The case.
    pub case_id: String,
    /// When the job is given back.
    pub expires_at: String,
}

/// A kind of thing that a job runs on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum ConsentKind {
    /// A command of the hub's, as a program of this user.
    Command,
    /// An agent that this product knows, as a program of this user.
    Process,
    /// Services in containers.
    Service,
    /// A command or an agent, inside a container of the case's own image.
    Image,
}

/// An answer that the person gave for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ConsentView {
    /// What a revocation names.
    pub id: String,
    /// The hub.
    pub hub: String,
    /// The workspace.
    pub workspace: String,
    /// The kind of thing.
    pub kind: ConsentKind,
    /// The answer.
    pub answer: ConsentAnswer,
    /// When it was given.
    pub at: String,
}

/// An answer to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum ConsentAnswer {
    /// This job; the next one asks again.
    Once,
    /// This and every later one.
    Always,
    /// Neither this one nor any later one.
    Never,
}

/// How much of the CPUs jobs may take now, and by which means that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct CpuShareView {
    /// Percent of all CPUs that may be used.
    pub percent: u8,
    /// Whether that is the share for a machine in use.
    pub in_use: bool,
    /// How it is kept for programs.
    pub means: CpuMeans,
    /// What that means exactly, in a sentence without its full stop.
    pub text: String,
}

/// How a share of the CPUs is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum CpuMeans {
    /// There is nothing to keep: all of them may be used.
    Unlimited,
    /// The kernel limits the time of all programs of a job together (cgroup v2).
    Quota,
    /// Programs of a job may use some of the CPUs only.
    Affinity,
    /// Nothing that this system offers can keep it.
    None,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SettingView {
    /// `table.key` of the settings file.
    pub key: String,
    /// The table.
    pub group: String,
    /// What its value is.
    pub kind: SettingKind,
    /// The value in force.
    pub value: SettingValue,
    /// The value when nothing is set.
    pub default: SettingValue,
    /// Whether a change takes effect only when the app starts next.
    pub at_start: bool,
    /// The values that there are; of a list, the ones it may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub choices: Option<Vec<String>>,
    /// The least.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub min: Option<u64>,
    /// The most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub max: Option<u64>,
    /// What a number counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, ts(optional))]
    pub unit: Option<String>,
    /// What it means, from the documented defaults.
    pub help: String,
}

/// What the value of a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// A whole number.
    Number,
    /// On or off.
    Switch,
    /// Text.
    Text,
    /// One of [`SettingView::choices`].
    Choice,
    /// Several texts.
    List,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(untagged)]
pub enum SettingValue {
    /// A whole number.
    Number(u64),
    /// On or off.
    Switch(bool),
    /// Text, also of a choice.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}
