//! What an image is made of, as far as a container runtime can tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the main process of a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// Runs for ever and listens nowhere.
    Deaf,
    /// Takes connections on its port and never says a word.
    Silent,
    /// Answers every request on its port with this status, once `after` has passed.
    Http { status: u16, after: Duration },
    /// Asks for a password as PostgreSQL does.
    Postgres { after: Duration },
    /// Answers `PING` as Redis does.
    Redis { after: Duration },
    /// Answers `/json/version` and `/json/list` as a headless Chromium does.
    Browser { after: Duration },
    /// Ends by itself.
    Exit { after: Duration, code: i64, oom: bool },
}

/// What the image's HEALTHCHECK finds, counted from the start; without one there is no verdict at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeHealth {
    HealthyAfter(Duration),
    UnhealthyAfter(Duration),
}

/// A piece of output: one frame of the log stream, with or without an end of line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Counted from the start.
    pub after: Duration,
    pub stderr: bool,
    pub text: String,
}

/// A command that a client runs in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecCall {
    pub container: String,
    pub argv: Vec<String>,
    pub env: Vec<String>,
    pub user: String,
    pub stdin: Vec<u8>,
}

/// What a command does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecAnswer {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub code: i64,
    /// How long it runs on after it has written all that.
    pub after: Duration,
}

/// Decides what a command does; it may keep state of its own.
pub type ExecScript = Arc<dyn Fn(&ExecCall) -> ExecAnswer + Send + Sync>;

/// An image.
#[derive(Clone)]
pub struct FakeImage {
    /// Name and tag, or name and digest.
    pub reference: String,
    pub behaviour: Behaviour,
    /// The port that the process listens on; without one every published port leads to it.
    pub port: Option<u16>,
    /// Paths of the image's `VOLUME`s.
    pub volumes: Vec<String>,
    pub os: String,
    /// As manifests write it, such as `amd64`.
    pub architecture: String,
    /// In bytes.
    pub size: u64,
    pub health: Option<FakeHealth>,
    pub log: Vec<LogPiece>,
    /// Why the entrypoint can't be run.
    pub bad_command: Option<String>,
    pub exec: ExecScript,
    pub labels: BTreeMap<String, String>,
    /// Tells apart what one tag has stood for, one after the other.
    pub revision: String,
}

impl FakeImage {
    /// An image for the fake's own platform whose process does as `behaviour` says.
    #[must_use]
    pub fn new(reference: &str, behaviour: Behaviour) -> Self {
        let port = match &behaviour {
            Behaviour::Postgres { .. } => Some(5432),
            Behaviour::Redis { .. } => Some(6379),
            Behaviour::Browser { .. } => Some(9222),
            _ => None,
        };
        Self {
            reference: reference.to_owned(),
            behaviour,
            port,
            volumes: Vec::new(),
            os: "linux".to_owned(),
            architecture: "amd64".to_owned(),
            size: 50_000_000,
            health: None,
            log: Vec::new(),
            bad_command: None,
            exec: Arc::new(|_| ExecAnswer::default()),
            labels: BTreeMap::new(),
            revision: String::new(),
        }
    }

    /// A web server that answers 200 at once.
    #[must_use]
    pub fn web(reference: &str) -> Self {
        Self::new(
            reference,
            Behaviour::Http {
                status: 200,
                after: Duration::ZERO,
            },
        )
    }

    /// The database under its usual name and with its usual volume.
    #[must_use]
    pub fn postgres(reference: &str) -> Self {
        let image = Self::new(
            reference,
            Behaviour::Postgres {
                after: Duration::ZERO,
            },
        );
        image.volume("/var/lib/postgresql/data")
    }

    /// The cache under its usual name and with its usual volume.
    #[must_use]
    pub fn redis(reference: &str) -> Self {
        Self::new(
            reference,
            Behaviour::Redis {
                after: Duration::ZERO,
            },
        )
        .volume("/data")
    }

    /// A headless browser.
    #[must_use]
    pub fn browser(reference: &str) -> Self {
        Self::new(
            reference,
            Behaviour::Browser {
                after: Duration::ZERO,
            },
        )
    }

    /// A process that ends.
    #[must_use]
    pub fn ending(reference: &str, after: Duration, code: i64) -> Self {
        Self::new(
            reference,
            Behaviour::Exit {
                after,
                code,
                oom: false,
            },
        )
    }

    /// Adds a `VOLUME`.
    #[must_use]
    pub fn volume(mut self, path: &str) -> Self {
        self.volumes.push(path.to_owned());
        self
    }

    /// Makes it an image for another processor.
    #[must_use]
    pub fn for_architecture(mut self, architecture: &str) -> Self {
        architecture.clone_into(&mut self.architecture);
        self
    }

    /// Makes it another image under the same name.
    #[must_use]
    pub fn revision(mut self, revision: &str) -> Self {
        revision.clone_into(&mut self.revision);
        self
    }

    /// Adds a line that the process writes at once.
    #[must_use]
    pub fn line(self, text: &str) -> Self {
        self.piece(Duration::ZERO, &format!("{text}\n"))
    }

    /// Adds a frame of output, as it is.
    #[must_use]
    pub fn piece(mut self, after: Duration, text: &str) -> Self {
        self.log.push(LogPiece {
            after,
            stderr: false,
            text: text.to_owned(),
        });
        self
    }

    /// Gives the image a HEALTHCHECK.
    #[must_use]
    pub fn health(mut self, health: FakeHealth) -> Self {
        self.health = Some(health);
        self
    }

    /// Decides what commands do in its containers.
    #[must_use]
    pub fn exec(mut self, script: impl Fn(&ExecCall) -> ExecAnswer + Send + Sync + 'static) -> Self {
        self.exec = Arc::new(script);
        self
    }

    /// The daemon's id of it: the same for equal references.
    #[must_use]
    pub fn id(&self) -> String {
        format!(
            "sha256:{}",
            super::state::hex_of(&[&self.reference, &self.architecture, &self.revision])
        )
    }

    /// The digest that its registry knows it by.
    #[must_use]
    pub fn digest(&self) -> String {
        format!(
            "sha256:{}",
            super::state::hex_of(&["manifest", &self.reference, &self.architecture, &self.revision])
        )
    }
}

impl std::fmt::Debug for FakeImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeImage")
            .field("reference", &self.reference)
            .field("behaviour", &self.behaviour)
            .finish_non_exhaustive()
    }
}
