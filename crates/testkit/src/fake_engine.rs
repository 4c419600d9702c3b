//! A Docker daemon over simulated state: API 1.41 on a unix socket, for tests of everything that can go wrong.
//!
//! It keeps what clients rely on: container names are unique and taken atomically, network names are not, a network with
//! running containers can't be removed, anonymous volumes stay unless they are asked to go, and errors come in the words
//! of engine 20.10. The processes in its containers are small servers on real loopback ports. Nothing is isolated, and
//! nothing of an image is executed.
//!
//! A test arms a [`Fault`] for calls, gives a [`PullScript`] to an image, or makes the daemon go away and come back.

#![expect(
    missing_docs,
    reason = "names are the API's own or say it all; a comment stands where they don't"
)]

mod archives;
mod calls;
mod containers;
mod daemon;
mod execs;
mod fault;
mod image;
mod images;
mod lifecycle;
mod logs;
mod networks;
mod process;
mod pull;
mod reply;
mod route;
mod server;
mod state;
mod view;
mod volumes;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use calls::{Call, CallEnd, PullEnd, PullRecord};
pub use fault::{Fault, Op, PullScript, Times};
pub use image::{Behaviour, ExecAnswer, ExecCall, ExecScript, FakeHealth, FakeImage, LogPiece};
use state::{Phase, Shared, canonical};

/// A running daemon. Everything of it ends when it is dropped.
#[derive(Debug)]
pub struct FakeEngine {
    shared: Arc<Shared>,
    /// Cuts the connections of the present run; `None` while it is away.
    run: Mutex<Option<CancellationToken>>,
    folder: PathBuf,
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl FakeEngine {
    /// Starts a daemon without images on a socket of its own.
    ///
    /// # Panics
    /// When the temporary folder can't be written.
    #[must_use]
    pub fn start() -> Self {
        let engine = Self::away();
        engine.come_back();
        engine
    }

    /// Makes a daemon that isn't there yet; [`FakeEngine::come_back`] starts it.
    ///
    /// # Panics
    /// When the temporary folder can't be written.
    #[must_use]
    pub fn away() -> Self {
        let folder = std::env::temp_dir().join(format!("fake-engine-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).expect("the temporary folder can be written");
        let shared = Arc::new(Shared::new(folder.join("docker.sock")));
        Self {
            shared,
            run: Mutex::new(None),
            folder,
        }
    }

    /// Where the socket is.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.shared.socket
    }

    /// The address as clients take it, such as `unix:///tmp/…/docker.sock`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Puts an image onto the machine.
    pub fn load(&self, image: FakeImage) {
        self.shared.edit(|state| state.images.push(image));
    }

    /// Puts an image into its registry; the same reference for another platform makes it a list.
    pub fn publish(&self, image: FakeImage) {
        self.shared.edit(|state| state.registry.push(image));
    }

    /// Takes an image out of its registry.
    pub fn unpublish(&self, reference: &str) {
        let gone = canonical(reference);
        self.shared
            .edit(|state| state.registry.retain(|image| canonical(&image.reference) != gone));
    }

    /// Decides how pulls of an image go from now on.
    pub fn script_pull(&self, reference: &str, script: PullScript) {
        self.shared
            .edit(|state| state.pull_scripts.insert(canonical(reference), script));
    }

    /// Pulls of an image go well again.
    pub fn heal_pull(&self, reference: &str) {
        self.shared
            .edit(|state| state.pull_scripts.remove(&canonical(reference)));
    }

    /// Arms a fault for calls whose target's name, id or path contains `target`; an empty one strikes all.
    pub fn arm(&self, op: Op, target: &str, fault: Fault, times: Times) {
        self.shared
            .edit(|state| state.armed.push(fault::Strike::new(op, target, fault, times)));
    }

    /// How many faults haven't struck as often as they are to; those that always strike count too.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.shared.read(|state| state.armed.len())
    }

    /// Disarms every fault.
    pub fn disarm(&self) {
        self.shared.edit(|state| state.armed.clear());
    }

    /// Fills the daemon's disk, or frees it.
    pub fn fill_disk(&self, full: bool) {
        self.shared.edit(|state| state.disk_full = full);
    }

    /// Says how many networks the default address pools have room for; 30 at first.
    pub fn limit_pools(&self, networks: usize) {
        self.shared.edit(|state| state.pools = networks);
    }

    /// Makes the daemon's clock slow, as in a virtual machine that has slept.
    pub fn set_clock_behind(&self, by: Duration) {
        self.shared.edit(|state| state.clock_behind = by);
    }

    /// Makes it a daemon on another processor, such as `arm64`.
    pub fn set_architecture(&self, architecture: &str) {
        self.shared
            .edit(|state| architecture.clone_into(&mut state.architecture));
    }

    /// Ends a container's process, as if by itself.
    pub fn end_container(&self, name: &str, code: i64, oom: bool) {
        if let Some(id) = self
            .shared
            .read(|state| state.container(name).ok().map(|one| one.id.clone()))
        {
            self.shared.end(&id, code, oom);
        }
    }

    /// Ends every container with code 0, as a daemon that is told to stop does before it hangs up.
    pub fn stop_containers(&self) {
        let running = self.shared.read(|state| {
            let running = state.containers.iter().filter(|one| one.phase == Phase::Running);
            running.map(|one| one.id.clone()).collect::<Vec<_>>()
        });
        for id in running {
            self.shared.end(&id, 0, false);
        }
    }

    /// Goes away: connections are cut, the socket is gone, containers end with code 0 and stay.
    pub fn go_away(&self) {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(run) = run {
            run.cancel();
        }
        let _ = std::fs::remove_file(self.socket());
        self.stop_containers();
    }

    /// Comes back on the same socket with all that it knew.
    ///
    /// # Panics
    /// When the socket can't be bound.
    pub fn come_back(&self) {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if run.is_none() {
            let cut = self.shared.stop.child_token();
            server::listen(&self.shared, cut.clone()).expect("the socket can be bound");
            *run = Some(cut);
        }
    }

    /// Goes away and comes back at once.
    pub fn restart(&self) {
        self.go_away();
        self.come_back();
    }
}

/// What a test looks at.
impl FakeEngine {
    /// Every call so far.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.read(|state| state.calls.clone())
    }

    /// The calls of one kind so far.
    #[must_use]
    pub fn calls_of(&self, op: Op) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.op == op).collect()
    }

    /// How many clients wait for the end of a container right now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.read(|state| state.waiting)
    }

    /// Every pull so far.
    #[must_use]
    pub fn pulls(&self) -> Vec<PullRecord> {
        self.shared.read(|state| state.pulls.clone())
    }

    /// Names of all containers.
    #[must_use]
    pub fn containers(&self) -> Vec<String> {
        self.shared
            .read(|state| state.containers.iter().map(|one| one.name.clone()).collect())
    }

    /// Names of the containers that run.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        self.shared.read(|state| {
            let running = state.containers.iter().filter(|one| one.phase == Phase::Running);
            running.map(|one| one.name.clone()).collect()
        })
    }

    /// Names of the containers that are frozen.
    #[must_use]
    pub fn frozen(&self) -> Vec<String> {
        self.shared.read(|state| {
            let frozen = state.containers.iter().filter(|one| one.frozen);
            frozen.map(|one| one.name.clone()).collect()
        })
    }

    /// The image that a container was made from.
    #[must_use]
    pub fn image_of(&self, container: &str) -> Option<String> {
        self.shared.read(|state| {
            state
                .container(container)
                .ok()
                .map(|one| one.image.reference.clone())
        })
    }

    /// Names of all networks, those that share one too.
    #[must_use]
    pub fn networks(&self) -> Vec<String> {
        self.shared
            .read(|state| state.networks.iter().map(|one| one.name.clone()).collect())
    }

    /// Names of all volumes, anonymous ones too.
    #[must_use]
    pub fn volumes(&self) -> Vec<String> {
        self.shared
            .read(|state| state.volumes.iter().map(|one| one.name.clone()).collect())
    }

    /// References of the images on the machine.
    #[must_use]
    pub fn images(&self) -> Vec<String> {
        self.shared
            .read(|state| state.images.iter().map(|one| one.reference.clone()).collect())
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// After `limit`, with `what` and the calls that are open.
    pub async fn until(&self, what: &str, limit: Duration, condition: impl Fn(&Self) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        let end = tokio::time::Instant::now() + limit;
        loop {
            changed.borrow_and_update();
            if condition(self) {
                return;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(end) => {
                    let open: Vec<Call> =
                        self.calls().into_iter().filter(|call| call.end == CallEnd::Open).collect();
                    panic!("waited in vain until {what}; open calls: {open:#?}");
                }
            }
        }
    }
}
