//! The container engine of this machine, and what this process has on it.
//!
//! One [`Containers`] per process. It looks for an engine in the background, opens the topology runtime when one answers,
//! sweeps up what dead processes of this installation have left, tells the runners what they may offer, and takes
//! everything down again at the end. A watchdog process stands by for the case that there is no such end.
//!
//! Invariants:
//! - nothing is created on an engine before a watchdog watches over it;
//! - the engine is asked at most every 15 s whether it is there, over its socket, without starting a program;
//! - only a runtime that has nothing left sends its watchdog home.

mod cpus;
mod disk;
mod identity;
mod opened;
mod report;
mod watchdog;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault};
use everdict_exec::HostEnv;
use everdict_runner_core::capabilities::ContainerOffer;
use everdict_topology::case_container::CaseContainers;
use everdict_topology::discovery::{Discovery, Source, System, discover};
use everdict_topology::images::{ImageOptions, Images};
use everdict_topology::plan::ReadinessPlan;
use everdict_topology::runtime::DockerTopologyRuntime;
use everdict_topology::stores::StockImages;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::paths::Paths;
use crate::problem::Result;
use crate::settings::{Settings, TopologySettings};
use identity::Identity;
use opened::Opened;

pub use disk::size;
pub(crate) use disk::{Wanted, free_bytes};
pub use report::{
    ContainerReport, EgressReport, GcReport, Item, PreparedItem, clean_up, look_around, missing_images,
};
pub(crate) use report::{Part, clean_part};
pub use watchdog::watchdog_main;

/// Between two questions whether the engine is there: a member who starts Docker sees it offered within 30 s, and one
/// request on a local socket in 15 s costs nothing that shows.
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// How long a live engine may take to say so: it takes milliseconds, one on a machine out of memory a second or two.
const PING_LIMIT: Duration = Duration::from_secs(5);

/// Between two looks at the budget of images: a pull that went over it is seen to within this.
const TRIM_EVERY: Duration = Duration::from_secs(10 * 60);

/// How long taking everything down may take at the end; what is left after it is the watchdog's.
const CLOSE_LIMIT: Duration = Duration::from_secs(60);

/// After how long a registry is asked whether a tag that we pulled has moved.
const REFRESH_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// How containers are run here.
#[derive(Debug, Clone)]
pub struct ContainerOptions {
    /// The member's settings.
    pub settings: TopologySettings,
    /// How long a service may take to become ready, and the longest pause between two looks, where the harness doesn't
    /// say.
    pub ready_timeout: Duration,
    /// See [`Self::ready_timeout`].
    pub ready_interval: Duration,
    /// Where the id of this installation, its key and its locks are kept.
    pub state_dir: PathBuf,
    /// Where cases work: its disk counts towards the floor too.
    pub work_root: PathBuf,
    /// What people call this runner; goes onto everything it makes.
    pub label: String,
    /// The program to start as watchdog: this one. Without it leftovers of a killed process wait for the next start.
    pub watchdog: Option<PathBuf>,
}

impl ContainerOptions {
    /// The options that the settings ask for.
    #[must_use]
    pub fn new(paths: &Paths, settings: &Settings, label: impl Into<String>) -> Self {
        let readiness = ReadinessPlan::default();
        Self {
            settings: settings.topology.clone(),
            ready_timeout: readiness.timeout,
            ready_interval: readiness.interval,
            state_dir: paths.state_dir().to_owned(),
            work_root: settings.work_root.clone().unwrap_or_else(|| paths.work_root()),
            label: label.into(),
            watchdog: watchdog::this_program(),
        }
    }
}

/// See the module. Dropping it ends the looking, and leaves what stands to the watchdog.
pub(crate) struct Containers {
    room: Arc<Room>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _hard_stop: DropGuard,
}

/// What the background task and the cases share.
struct Room {
    options: ContainerOptions,
    identity: Identity,
    env: Arc<HostEnv>,
    keeper: Arc<Images>,
    offer: watch::Sender<ContainerOffer>,
    opened: Mutex<Option<Opened>>,
    told: Mutex<cpus::Told>,
    /// Runtimes of engines that have made way for another.
    leaving: TaskTracker,
}

impl Containers {
    /// Starts looking for an engine. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A problem about this machine when the state folder can't be used.
    pub(crate) fn start(options: ContainerOptions, env: Arc<HostEnv>) -> Result<Self> {
        let identity = Identity::load(&options.state_dir)?;
        let room = Arc::new(Room {
            keeper: Arc::new(Images::new(image_options(&options.settings, &options.state_dir))),
            options,
            identity,
            env,
            offer: watch::Sender::new(ContainerOffer::Unknown),
            opened: Mutex::default(),
            told: Mutex::default(),
            leaving: TaskTracker::new(),
        });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(Arc::clone(&room).keep_looking(stop.clone()));
        Ok(Self {
            room,
            tasks,
            _hard_stop: stop.clone().drop_guard(),
            stop,
        })
    }

    /// What runners may offer, now and on every change.
    pub(crate) fn offer(&self) -> watch::Receiver<ContainerOffer> {
        self.room.offer.subscribe()
    }

    /// A handle for the cases.
    pub(crate) fn door(&self) -> Door {
        Door {
            room: Arc::clone(&self.room),
        }
    }

    /// Takes down what this process has made, and waits for it. To be called when no case runs any more. Cancel safe:
    /// it goes on in the background.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What a case that needs containers gets.
pub(crate) struct Means {
    /// For harnesses made of services.
    pub(crate) topologies: Arc<DockerTopologyRuntime>,
    /// For cases that name an image.
    pub(crate) cases: Arc<CaseContainers>,
}

/// The way of a case to the engine.
#[derive(Clone)]
pub(crate) struct Door {
    room: Arc<Room>,
}

impl Door {
    /// Opens for a case that needs containers.
    ///
    /// # Errors
    /// Infra, retryable: no engine answers, the disk is low, or has less free than the case wants.
    pub(crate) async fn enter(&self, wanted: Option<&Wanted>) -> Result<Means, Fault> {
        let known = self.room.offer.borrow().clone();
        if !matches!(known, ContainerOffer::Ready(_)) {
            // The case was handed out for what was offered; perhaps it is there again.
            self.room.look().await;
        }
        self.room.enter(wanted).await
    }
}

impl Room {
    async fn keep_looking(self: Arc<Self>, stop: CancellationToken) {
        let mut trim_at = tokio::time::Instant::now();
        loop {
            let look = async {
                self.look().await;
                if tokio::time::Instant::now() >= trim_at {
                    trim_at = tokio::time::Instant::now() + TRIM_EVERY;
                    self.trim().await;
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = look => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(PROBE_EVERY) => {}
            }
        }
        if let Some(opened) = self.opened.lock().await.take() {
            opened.close().await;
        }
        self.leaving.close();
        self.leaving.wait().await;
    }

    /// One look: is the engine there, and may cases have it.
    async fn look(&self) {
        let mut opened = self.opened.lock().await;
        let alive = match &*opened {
            Some(opened) => opened.answers().await,
            None => false,
        };
        let offer = if alive {
            Ok(())
        } else {
            self.find(&mut opened).await
        };
        let offer = match (offer, &*opened) {
            (Ok(()), Some(opened)) => self.judge_disk(opened),
            (Ok(()), None) => ContainerOffer::Absent("no container engine was opened".to_owned()),
            (Err(why), _) => ContainerOffer::Absent(why),
        };
        self.offer.send_if_modified(|known| {
            let news = *known != offer;
            if news {
                tracing::info!(?offer, "container engine");
                *known = offer;
            }
            news
        });
    }

    /// Looks for an engine, and opens it unless it is the one that is open already.
    async fn find(&self, opened: &mut Option<Opened>) -> Result<(), String> {
        let (discovery, engine) = search(&self.env, &self.options.settings).await;
        let Some(engine) = engine else {
            return Err(why_none(&discovery, &self.options.settings));
        };
        let source = discovery
            .taken()
            .map(|taken| taken.source.to_string())
            .unwrap_or_default();
        let daemon = engine.info().await.map_err(|error| error.to_string())?;
        if opened
            .as_ref()
            .is_some_and(|opened| opened.is_of(&engine, &daemon))
        {
            return Ok(());
        }
        let options = self.runtime_options();
        let runtime = DockerTopologyRuntime::open(engine, options)
            .await
            .map_err(|fault| fault.full_message())?;
        let runtime = Arc::new(runtime);
        runtime.start_sweeping();
        if let Some(old) = opened.replace(Opened::new(runtime, &self.keeper, daemon, source)) {
            self.leaving.spawn(old.close());
        }
        Ok(())
    }

    fn judge_disk(&self, opened: &Opened) -> ContainerOffer {
        let floor = self.options.settings.disk_floor;
        match disk::below(floor, [opened.root_dir(), &self.options.work_root]) {
            Some(low) => ContainerOffer::HeldBack(low.to_string()),
            None => ContainerOffer::Ready(opened.words()),
        }
    }

    async fn enter(&self, wanted: Option<&Wanted>) -> Result<Means, Fault> {
        let mut opened = self.opened.lock().await;
        let offer = self.offer.borrow().clone();
        let refused = |why| Err(Fault::new(ErrorCode::DriverProvisionFailed, why));
        let opened = match (&mut *opened, offer) {
            (Some(opened), ContainerOffer::Ready(_)) => opened,
            (_, ContainerOffer::HeldBack(why) | ContainerOffer::Absent(why)) => return refused(why),
            (_, ContainerOffer::Ready(_) | ContainerOffer::Unknown) => {
                return refused("the container engine has not answered yet".to_owned());
            }
        };
        // The disk may have filled up since the last look.
        if let ContainerOffer::HeldBack(why) = self.judge_disk(opened) {
            return refused(why);
        }
        if let Some(wanted) = wanted {
            wanted.check([opened.root_dir()])?;
        }
        opened.watch_over(&self.options);
        Ok(opened.means())
    }

    async fn trim(&self) {
        let engine = self
            .opened
            .lock()
            .await
            .as_ref()
            .map(|opened| opened.runtime().engine().clone());
        let Some(engine) = engine else { return };
        match self.keeper.trim(&engine).await {
            Ok(trimmed) if trimmed.removed.is_empty() => {}
            Ok(trimmed) => tracing::info!(
                images = trimmed.removed.len(),
                freed = %size(trimmed.freed_bytes),
                "removed images of ours that were over budget"
            ),
            Err(error) => tracing::warn!(%error, "can't look at the budget of images"),
        }
    }
}

/// The images that harnesses don't name themselves.
fn stock_images(settings: &TopologySettings) -> StockImages {
    let mut stock = StockImages::default();
    if let Some(browser) = &settings.browser_image {
        stock.browser.clone_from(browser);
    }
    stock
}

fn image_options(settings: &TopologySettings, state_dir: &std::path::Path) -> ImageOptions {
    ImageOptions {
        state_dir: state_dir.to_owned(),
        budget_bytes: settings.image_budget,
        refresh_after: Some(REFRESH_AFTER),
        // The virtual machines of Docker Desktop and its likes bring emulators along.
        emulates: cfg!(any(target_os = "macos", windows)),
    }
}

/// Looks for an engine where the settings say, else everywhere.
async fn search(
    env: &HostEnv,
    settings: &TopologySettings,
) -> (Discovery, Option<everdict_topology::engine::Engine>) {
    let world = System::new(|name: &str| match (&settings.endpoint, name) {
        (Some(address), "DOCKER_HOST") => Some(address.clone()),
        _ => env.get(name).map(str::to_owned),
    });
    let discovery = discover(&world).await;
    let wanted = settings.endpoint.is_none()
        || discovery
            .taken()
            .is_some_and(|taken| taken.source == Source::DockerHost);
    // Whoever names an engine doesn't want another one.
    let engine = discovery.engine.clone().filter(|_| wanted);
    let engine = engine.map(|engine| engine.with_egress(settings.egress));
    (discovery, engine)
}

fn why_none(discovery: &Discovery, settings: &TopologySettings) -> String {
    let named = discovery
        .candidates
        .iter()
        .find(|candidate| candidate.source == Source::DockerHost);
    match (&settings.endpoint, named) {
        (Some(_), Some(named)) => report::words(named, settings),
        _ => discovery.why_none(),
    }
}

#[cfg(test)]
mod tests;
