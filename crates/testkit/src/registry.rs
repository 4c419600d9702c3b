//! A registry of container images over real HTTP (the OCI distribution API, for reading), on a loopback port: an engine
//! pulls from it as from any other, since it takes loopback registries without TLS.
//!
//! Images are made by the test, file by file. Every request is kept, so that a test can show that nothing was fetched.

mod image;
mod server;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use image::Stored;
pub use image::{Flavour, RegistryImage};

/// Who may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Its name.
    pub user: String,
    /// What it shows.
    pub password: String,
    /// And how.
    pub way: Way,
}

/// How a client shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The password with each request.
    Basic,
    /// The password once, for a token that goes with each request.
    Token,
}

/// How fast blobs of a repository are sent.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Size of one portion.
    pub bytes: usize,
    /// Before each portion.
    pub pause: Duration,
}

/// What the registry says in place of a manifest.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Of HTTP.
    pub status: u16,
    /// The API's own word, such as `TOOMANYREQUESTS`.
    pub code: &'static str,
    /// For people.
    pub message: &'static str,
}

/// A request that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `GET` or `HEAD`.
    pub method: String,
    /// From `/v2/` on.
    pub path: String,
    /// The user whose password or token came along, whether or not it was right.
    pub user: Option<String>,
    /// What was answered.
    pub status: u16,
}

impl Asked {
    /// Whether it is for a layer or a configuration.
    pub fn is_blob(&self) -> bool {
        self.path.contains("/blobs/")
    }

    /// Whether it is for a manifest or a list of them.
    pub fn is_manifest(&self) -> bool {
        self.path.contains("/manifests/")
    }
}

/// A blob on its way.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Which it was asked for under.
    pub repository: String,
    /// All of it, in bytes.
    pub size: usize,
    /// So far, in bytes.
    pub sent: usize,
    /// What has become of it.
    pub end: TransferEnd,
}

/// How the sending of a blob ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferEnd {
    /// It goes on.
    Sending,
    /// The last byte was handed over.
    Complete,
    /// Whoever asked for it hung up.
    Dropped(Instant),
}

#[derive(Debug, Default)]
struct State {
    /// By repository, then by tag or digest.
    manifests: HashMap<String, HashMap<String, Stored>>,
    blobs: HashMap<String, Bytes>,
    access: Option<Access>,
    paces: HashMap<String, Pace>,
    refusals: HashMap<String, Refusal>,
    asked: Vec<Asked>,
    transfers: Vec<Transfer>,
}

struct Room {
    state: Mutex<State>,
    host: String,
}

impl Room {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registry that listens until it is dropped.
pub struct Registry {
    room: Arc<Room>,
    _server: JoinSet<()>,
}

impl Registry {
    /// Starts an empty one, for everybody to read.
    ///
    /// # Panics
    /// When loopback can't be listened on.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .expect("loopback");
        let host = listener.local_addr().expect("bound").to_string();
        let room = Arc::new(Room {
            state: Mutex::default(),
            host,
        });
        let routes = server::routes(Arc::clone(&room));
        let mut server = JoinSet::new();
        server.spawn(async move {
            axum::serve(listener, routes).await.expect("the registry serves");
        });
        Self {
            room,
            _server: server,
        }
    }

    /// Address and port, as references begin with.
    pub fn host(&self) -> &str {
        &self.room.host
    }

    /// The full reference of one of its images.
    pub fn reference(&self, repository: &str, tag: &str) -> String {
        format!("{}/{repository}:{tag}", self.host())
    }

    /// Puts an image under a tag, and gives out the digest of its manifest. A tag that is there moves.
    pub fn publish(&self, repository: &str, tag: &str, image: &RegistryImage) -> String {
        self.put(repository, tag, image.manifest())
    }

    /// Puts a list of images for several platforms under a tag, and gives out the list's digest.
    pub fn publish_list(&self, repository: &str, tag: &str, images: &[RegistryImage]) -> String {
        let manifests: Vec<_> = images.iter().map(RegistryImage::manifest).collect();
        let list = image::list(&manifests);
        for manifest in manifests {
            self.put(repository, &manifest.digest.clone(), manifest);
        }
        self.put(repository, tag, list)
    }

    fn put(&self, repository: &str, tag: &str, manifest: Stored) -> String {
        let digest = manifest.digest.clone();
        let mut state = self.room.state();
        state.blobs.extend(manifest.blobs.iter().cloned());
        let tags = state.manifests.entry(repository.to_owned()).or_default();
        tags.insert(digest.clone(), manifest.clone());
        tags.insert(tag.to_owned(), manifest);
        digest
    }

    /// From now on only this user may read.
    pub fn close_to_all_but(&self, user: &str, password: &str, way: Way) {
        self.room.state().access = Some(Access {
            user: user.to_owned(),
            password: password.to_owned(),
            way,
        });
    }

    /// Sends the blobs of a repository slowly.
    pub fn slow_down(&self, repository: &str, pace: Pace) {
        self.room.state().paces.insert(repository.to_owned(), pace);
    }

    /// Answers every request for a manifest of a repository with this.
    pub fn refuse(&self, repository: &str, refusal: Refusal) {
        self.room.state().refusals.insert(repository.to_owned(), refusal);
    }

    /// Lets a repository be read again.
    pub fn heal(&self, repository: &str) {
        self.room.state().refusals.remove(repository);
    }

    /// All requests so far, of a repository or, with an empty name, all.
    pub fn asked(&self, repository: &str) -> Vec<Asked> {
        let state = self.room.state();
        let of = |asked: &&Asked| asked.path.contains(repository);
        state.asked.iter().filter(of).cloned().collect()
    }

    /// The blobs that were sent, or are being sent.
    pub fn transfers(&self) -> Vec<Transfer> {
        self.room.state().transfers.clone()
    }
}
