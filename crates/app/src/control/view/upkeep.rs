//! The shapes of looking after this machine: checks, disk, clean-up.

use serde::Serialize;

/// One check of this machine or of the way to a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct CheckView {
    /// Stable name, such as `git` or `hub:127.0.0.1:8787`.
    pub id: String,
    /// What it belongs to.
    pub group: CheckGroup,
    /// How it came out.
    pub state: CheckMark,
    /// What was looked at.
    pub title: String,
    /// What was found.
    pub detail: String,
    /// What to do; `null` when there is nothing.
    pub fix: Option<String>,
}

/// What a check belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum CheckGroup {
    /// Folders, disk and programs.
    Machine,
    /// The container engine.
    Docker,
    /// Where tokens are kept.
    Secrets,
    /// The way to a hub.
    Hub,
    /// A paired runner.
    Runner,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum CheckMark {
    /// Nothing to do.
    Ok,
    /// Works, but something is missing or near its end.
    Warn,
    /// In the way of running cases.
    Fail,
    /// Not looked at, because the person switched it off.
    Off,
}

/// What of ours takes room on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct DiskView {
    /// Free bytes where cases work; `null` when it can't be measured.
    pub free: Option<u64>,
    /// Bytes below which no case with containers is taken; `null` for no such limit.
    pub floor: Option<u64>,
    /// What there is, by kind.
    pub categories: Vec<DiskCategory>,
}

/// One kind of what takes room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct DiskCategory {
    /// Stable name; what a clean-up is asked for by.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// Bytes of all of it.
    pub bytes: u64,
    /// How many pieces.
    pub items: usize,
    /// The pieces that a clean-up would remove.
    pub would_go: Vec<String>,
}

/// What a clean-up did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct CleanView {
    /// What went.
    pub removed: Vec<String>,
    /// What stays, and why.
    pub kept: Vec<KeptView>,
    /// Bytes that went with it.
    pub freed: u64,
}

/// What a clean-up left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct KeptView {
    /// Which.
    pub name: String,
    /// Why it stays.
    pub why: String,
}
