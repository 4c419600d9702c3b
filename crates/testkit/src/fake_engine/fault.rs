//! What can go wrong, by name.

use std::time::Duration;

/// A call of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    Ping,
    Version,
    Info,
    Events,
    ContainerCreate,
    ContainerStart,
    ContainerStop,
    ContainerKill,
    ContainerRestart,
    ContainerAttach,
    ContainerPause,
    ContainerUnpause,
    ContainerCommit,
    ContainerRemove,
    ContainerInspect,
    ContainerList,
    ContainerWait,
    ContainerLogs,
    ContainerStats,
    ArchivePut,
    ArchiveGet,
    ExecCreate,
    ExecStart,
    ExecInspect,
    ImageInspect,
    ImageList,
    ImageRemove,
    ImagePull,
    ImageImport,
    Distribution,
    NetworkCreate,
    NetworkInspect,
    NetworkList,
    NetworkRemove,
    NetworkConnect,
    NetworkDisconnect,
    VolumeCreate,
    VolumeInspect,
    VolumeList,
    VolumeRemove,
    VolumePrune,
}

/// One way to go wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The call is taken and never answered.
    BlackHole,
    /// The call is carried out, and its answer never comes.
    Mute,
    /// The call is carried out after a while.
    Delay(Duration),
    /// The connection is cut before an answer.
    HangUp,
    /// Answered with this status and message; nothing is done.
    Answer(u16, String),
    /// A start that fails since another container has the host port.
    PortAllocated,
    /// A start that fails since a process of the host has the port.
    PortInUse,
}

impl Fault {
    /// What the daemon says when its disk is full, while it makes a container.
    #[must_use]
    pub fn disk_full() -> Self {
        let text = "write /var/lib/docker/overlay2/3f0b/link: no space left on device";
        Self::Answer(500, text.to_owned())
    }
}

/// What a registry, or the way to it, does with an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullScript {
    /// The layers come in so many steps, with a pause before each.
    Layers { steps: u32, pause: Duration },
    /// The repository exists, the tag doesn't.
    NoSuchTag,
    /// The repository doesn't exist, or isn't shown.
    Denied,
    /// The registry wants another login.
    Unauthorized,
    /// The registry wants some login, and takes any.
    NeedsLogin,
    /// The registry wants to be asked less; with its `retry-after` in the words that the daemon passes on.
    RateLimited { retry_after: Option<Duration> },
    /// The registry's name doesn't resolve.
    NoSuchHost,
    /// The stream breaks off in the middle of a JSON value.
    Garbled,
    /// The connection is cut after the first layer.
    HangUp,
    /// The daemon's disk is full when a layer is unpacked.
    DiskFull,
    /// The registry has no manifest for the daemon's platform.
    NoPlatform,
}

/// How often a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Once,
    Count(u32),
    Always,
}

/// An armed fault.
#[derive(Debug, Clone)]
pub(super) struct Strike {
    pub(super) op: Op,
    /// Part of the target's name, id or path; empty strikes all.
    pub(super) target: String,
    pub(super) fault: Fault,
    pub(super) left: Option<u32>,
}

impl Strike {
    pub(super) fn new(op: Op, target: &str, fault: Fault, times: Times) -> Self {
        let left = match times {
            Times::Once => Some(1),
            Times::Count(count) => Some(count),
            Times::Always => None,
        };
        Self {
            op,
            target: target.to_owned(),
            fault,
            left,
        }
    }
}

/// Takes the first armed fault that strikes this call.
pub(super) fn strike(armed: &mut Vec<Strike>, op: Op, targets: &[String]) -> Option<Fault> {
    let hit =
        |strike: &Strike| strike.op == op && targets.iter().any(|target| target.contains(&strike.target));
    let at = armed.iter().position(hit)?;
    let fault = armed[at].fault.clone();
    if let Some(left) = &mut armed[at].left {
        *left -= 1;
        if *left == 0 {
            armed.remove(at);
        }
    }
    Some(fault)
}
