//! Finds the container engine: where it may be, in which order, and why one is taken and others aren't.
//!
//! [`candidates`] is pure over a [`Surroundings`]; [`discover`] then asks one after the other whether it answers.
//! No program is started.

mod context;
mod system;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::{DaemonInfo, Engine, host, is_loopback, with_tls};

pub use system::System;

/// For one candidate to answer: a live daemon takes milliseconds, one that its desktop app has put to sleep a second
/// or two to wake.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// What discovery may look at.
pub trait Surroundings {
    /// The value of an environment variable.
    fn var(&self, name: &str) -> Option<String>;
    /// The text of a file, if it can be read.
    fn read(&self, path: &Path) -> Option<String>;
    /// What there is at a path.
    fn look(&self, path: &Path) -> PathKind;
    /// Which family of systems this is.
    fn family(&self) -> Family;
}

/// Families of systems, which keep engines in different places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Unix,
    Windows,
}

/// What there is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathKind {
    Missing,
    /// A link whose end is missing.
    Dangling {
        target: PathBuf,
    },
    /// A socket, by the path that all links lead to.
    Socket {
        real: PathBuf,
    },
    Other,
    /// It can't be looked at.
    Denied,
}

/// Where a candidate was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The variable `DOCKER_HOST`.
    DockerHost,
    /// The docker context of this name, chosen by `DOCKER_CONTEXT` or the docker configuration.
    Context(String),
    /// A place that is known for this product.
    Known(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DockerHost => f.write_str("DOCKER_HOST"),
            Self::Context(name) => write!(f, "docker context `{name}`"),
            Self::Known(product) => f.write_str(product),
        }
    }
}

/// A place where an engine may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub source: Source,
    /// Such as `unix:///var/run/docker.sock`; empty when the source names none.
    pub address: String,
    pub state: CandidateState,
}

/// What is known of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidateState {
    /// Looks fine; not asked yet, or an earlier one is taken.
    Untried,
    /// There is nothing, or something else, at the address.
    Absent(String),
    /// It can't be used, whether it answers or not.
    Unusable(String),
    /// It doesn't answer.
    Dead(String),
    /// It answers and is taken.
    Taken(Box<DaemonInfo>),
}

impl fmt::Display for Candidate {
    /// One line for `doctor`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if !self.address.is_empty() {
            write!(f, " ({})", self.address)?;
        }
        match &self.state {
            CandidateState::Untried => f.write_str(": not tried"),
            CandidateState::Absent(why) | CandidateState::Unusable(why) | CandidateState::Dead(why) => {
                write!(f, ": {why}")
            }
            CandidateState::Taken(daemon) => {
                write!(f, ": answers, {} on {}", daemon.version, daemon.operating_system)
            }
        }
    }
}

/// Every candidate in order, and the engine that was taken.
#[derive(Debug)]
pub struct Discovery {
    pub candidates: Vec<Candidate>,
    pub engine: Option<Engine>,
}

impl Discovery {
    /// Returns the candidate that was taken.
    pub fn taken(&self) -> Option<&Candidate> {
        self.candidates
            .iter()
            .find(|candidate| matches!(candidate.state, CandidateState::Taken(_)))
    }

    /// Returns why there is no engine, one clause per candidate that exists or was asked for by name.
    pub fn why_none(&self) -> String {
        let worth_telling = |candidate: &&Candidate| {
            !matches!(
                (&candidate.source, &candidate.state),
                (Source::Known(_), CandidateState::Absent(_))
            )
        };
        let told: Vec<String> = self
            .candidates
            .iter()
            .filter(worth_telling)
            .map(ToString::to_string)
            .collect();
        if told.is_empty() {
            return "no container engine was found; start Docker, Podman, Colima, Rancher Desktop or OrbStack, or set \
                DOCKER_HOST"
                .to_owned();
        }
        format!("no container engine answers: {}", told.join("; "))
    }
}

/// Lists every place where an engine may be, the most explicit first, each address once.
pub fn candidates(world: &dyn Surroundings) -> Vec<Candidate> {
    let host = world.var("DOCKER_HOST").filter(|host| !host.is_empty());
    let mut all: Vec<Candidate> = host
        .into_iter()
        .map(|address| judge(world, Source::DockerHost, tls_of_environment(world, address)))
        .collect();
    all.extend(context::current(world).map(|current| match current {
        context::Current::Address { name, address } => judge(world, Source::Context(name), address),
        context::Current::Broken { name, why } => Candidate {
            source: Source::Context(name),
            address: String::new(),
            state: CandidateState::Absent(why),
        },
    }));
    all.extend(
        known_places(world)
            .into_iter()
            .map(|(product, address)| judge(world, Source::Known(product), address)),
    );
    without_repeats(world, all)
}

/// Judges an address by itself and by what is there.
fn judge(world: &dyn Surroundings, source: Source, address: String) -> Candidate {
    let state = match (world.family(), socket_path(&address)) {
        (Family::Windows, _) if address.starts_with("npipe://") => CandidateState::Untried,
        (Family::Unix, Some(path)) => match world.look(path) {
            PathKind::Socket { .. } => CandidateState::Untried,
            PathKind::Missing => CandidateState::Absent("there is no such socket".to_owned()),
            PathKind::Dangling { target } => {
                CandidateState::Absent(format!("a stale link to {}, which is gone", target.display()))
            }
            PathKind::Other => CandidateState::Absent("is no socket".to_owned()),
            PathKind::Denied => CandidateState::Dead("this user may not look there".to_owned()),
        },
        _ if is_loopback(&address) => CandidateState::Untried,
        _ if host(&address).is_some() => CandidateState::Unusable(
            "is on another machine: the ports of services are published on that one's loopback, which isn't reached \
             from here; run the runner there"
                .to_owned(),
        ),
        _ => CandidateState::Unusable("is no address that this system can connect to".to_owned()),
    };
    Candidate {
        source,
        address,
        state,
    }
}

/// The docker client talks TLS with what `DOCKER_HOST` names when it is told so.
fn tls_of_environment(world: &dyn Surroundings, address: String) -> String {
    let verify = world.var("DOCKER_TLS_VERIFY").filter(|value| !value.is_empty());
    if !is_loopback(&address) || verify.is_none() && !address.starts_with("https://") {
        return address;
    }
    let named = world
        .var("DOCKER_CERT_PATH")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    match named.or_else(|| context::folder(world)) {
        Some(folder) => with_tls(&address, &folder),
        None => address,
    }
}

fn socket_path(address: &str) -> Option<&Path> {
    let path = address.strip_prefix("unix://").unwrap_or(address);
    path.starts_with('/').then(|| Path::new(path))
}

/// Drops candidates that come to the same socket as an earlier one, links followed.
fn without_repeats(world: &dyn Surroundings, all: Vec<Candidate>) -> Vec<Candidate> {
    let mut seen: Vec<String> = Vec::new();
    let mut once = Vec::new();
    for candidate in all {
        let place = match socket_path(&candidate.address).map(|path| world.look(path)) {
            Some(PathKind::Socket { real }) => real.display().to_string(),
            _ => candidate.address.clone(),
        };
        if place.is_empty() || !seen.contains(&place) {
            seen.push(place);
            once.push(candidate);
        }
    }
    once
}

/// The places where products put their sockets. Podman comes last: where both are installed, Docker is what people
/// expect.
fn known_places(world: &dyn Surroundings) -> Vec<(&'static str, String)> {
    if world.family() == Family::Windows {
        return [
            ("Docker", "npipe:////./pipe/docker_engine"),
            ("Docker Desktop", "npipe:////./pipe/dockerDesktopLinuxEngine"),
            ("Podman machine", "npipe:////./pipe/podman-machine-default"),
        ]
        .map(|(product, address)| (product, address.to_owned()))
        .to_vec();
    }
    let home = world.var("HOME").filter(|home| home.starts_with('/'));
    let runtime = world
        .var("XDG_RUNTIME_DIR")
        .filter(|folder| folder.starts_with('/'));
    let below = |folder: &Option<String>, rest: &str| {
        folder
            .as_ref()
            .map(|folder| format!("{}/{rest}", folder.trim_end_matches('/')))
    };
    let places = [
        ("Docker", Some("/var/run/docker.sock".to_owned())),
        ("rootless Docker", below(&runtime, "docker.sock")),
        ("Docker Desktop", below(&home, ".docker/run/docker.sock")),
        ("Docker Desktop", below(&home, ".docker/desktop/docker.sock")),
        ("Colima", below(&home, ".colima/default/docker.sock")),
        ("Colima", below(&home, ".config/colima/default/docker.sock")),
        ("Rancher Desktop", below(&home, ".rd/docker.sock")),
        ("OrbStack", below(&home, ".orbstack/run/docker.sock")),
        ("rootless Podman", below(&runtime, "podman/podman.sock")),
        ("Podman", Some("/run/podman/podman.sock".to_owned())),
        (
            "Podman machine",
            below(&home, ".local/share/containers/podman/machine/podman.sock"),
        ),
    ];
    places
        .into_iter()
        .filter_map(|(product, path)| Some((product, format!("unix://{}", path?))))
        .collect()
}

/// Asks the candidates in order and takes the first that answers; the rest aren't bothered.
///
/// Cancel safe.
pub async fn discover(world: &(dyn Surroundings + Sync)) -> Discovery {
    let mut candidates = candidates(world);
    let mut engine = None;
    for candidate in &mut candidates {
        if candidate.state != CandidateState::Untried {
            continue;
        }
        match probe(&candidate.address, PROBE_LIMIT).await {
            Ok((found, daemon)) => {
                candidate.state = CandidateState::Taken(Box::new(daemon));
                engine = Some(found);
                break;
            }
            Err(state) => candidate.state = state,
        }
    }
    Discovery { candidates, engine }
}

/// Connects to an address and asks who is there.
async fn probe(address: &str, limit: Duration) -> Result<(Engine, DaemonInfo), CandidateState> {
    let asked = async {
        knock(address).await?;
        let engine = Engine::connect(address).await.map_err(|error| error.text)?;
        let daemon = engine.info().await.map_err(|error| error.text)?;
        Ok::<_, String>((engine, daemon))
    };
    let answer = tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| {
        Err(format!(
            "takes connections, but doesn't answer within {} s",
            limit.as_secs_f64()
        ))
    });
    match answer {
        Err(why) => Err(CandidateState::Dead(why)),
        Ok((_, daemon)) if daemon.os_type == "windows" => Err(CandidateState::Unusable(
            "runs windows containers; switch it to linux containers".to_owned(),
        )),
        Ok(found) => Ok(found),
    }
}

/// Tells why a socket doesn't take connections, which the client's own error leaves open.
#[cfg(unix)]
async fn knock(address: &str) -> Result<(), String> {
    use std::io::ErrorKind;
    let Some(path) = socket_path(address) else {
        return Ok(());
    };
    tokio::net::UnixStream::connect(path)
        .await
        .map(drop)
        .map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => {
                "nobody listens at the socket; the engine isn't running".to_owned()
            }
            ErrorKind::PermissionDenied => {
                "this user may not talk to it; add the user to the group that owns the socket".to_owned()
            }
            ErrorKind::NotFound => "the socket is gone".to_owned(),
            _ => error.to_string(),
        })
}

#[cfg(not(unix))]
async fn knock(_address: &str) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests;
