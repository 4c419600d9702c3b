//! What concerns the app as a program of this desktop: whether it starts at login, whether it may tell people things,
//! whether there is a newer one, and what a link asked of it.

use serde::Serialize;

use super::Failure;

/// Whether the app starts when the person logs in, as the desktop says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum AutostartState {
    /// It does.
    On,
    /// It does not.
    Off,
    /// This face of the app, or this system, has no such switch.
    #[default]
    Unavailable,
}

/// Whether notifications reach the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum NoticesState {
    /// Something on this desktop shows them.
    Ok,
    /// The system said no.
    Denied,
    /// Nothing on this desktop shows them.
    #[default]
    Unavailable,
}

/// A newer version of the app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct UpdateView {
    /// How far it is.
    pub state: UpdateState,
    /// The version that this is about.
    pub version: String,
    /// What happened and what comes next, in a sentence without its full stop.
    pub text: String,
}

/// How far an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum UpdateState {
    /// Fetched and checked; it takes over once no job runs.
    Waiting,
    /// It is there, and the person installs it by their own means.
    Ready,
    /// It can't be used; the running version goes on.
    Failed,
    /// It failed to start, so the version before it runs again.
    RolledBack,
}

/// A pairing link that was opened. It fills in a form; nothing happens until the person confirms it there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct InvitationView {
    /// The hub's address; empty when the link can't be used.
    pub hub: String,
    /// A name for this machine to start from.
    pub label: String,
    /// What the link asks for, in a sentence without its full stop.
    pub text: String,
    /// Why the link can't be used; only dismissing it is left then.
    pub problem: Option<Failure>,
}
