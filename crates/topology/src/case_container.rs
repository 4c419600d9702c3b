//! A container for one case: the image that the case names, idle, with the case's commands run in it one after another.
//!
//! The image needs `sh` and nothing else. Its user may be anybody: files come and go by the archive API, into a root
//! directory that the image's user owns. When a command's call returns, nothing of it runs on; when the case is over,
//! however it ends, the container and its anonymous volumes go. What a killed runner leaves is found by its labels.

mod come_up;
mod exec;
mod files;
mod provenance;
mod script;
mod spec;
mod tree;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everdict_contracts::{Fault, ImageProvenance};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::deploy::{Debt, DebtObject};
use crate::digest::short_hash;
use crate::egress::Reach;
use crate::engine::{Engine, EngineError};
use crate::images::{Images, PresentImage, PullWatcher};
use crate::labels::{self, Kind, Owner};
use crate::names;
use crate::plan::ImageNeed;
use crate::runtime::{CaseScope, Progress};

use tree::FileOwner;

pub use exec::{CaseExec, CaseExit, CaseStream};
pub use files::CaseFile;
pub use spec::CaseSpec;

/// Where a case's files are in its container.
pub const CASE_ROOT: &str = "/everdict";

/// Makes the containers of cases on one daemon. Share one per process.
pub struct CaseContainers {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    images: Arc<Images>,
    owner: Owner,
    tasks: TaskTracker,
    debts: Mutex<Vec<Debt>>,
    /// How many containers were asked for; makes each name unlike all others.
    made: AtomicU64,
}

/// A running container of one case. Remove it with [`CaseContainer::remove`]; one that is dropped is removed in the
/// background.
pub struct CaseContainer {
    shared: Arc<Shared>,
    id: String,
    name: String,
    provenance: ImageProvenance,
    owner: FileOwner,
    shell: String,
    env: Vec<(String, String)>,
    /// Process ids, in the container, of what isn't the case's: init and the idle shell.
    keep: Mutex<String>,
    reach: Reach,
    /// How many processes the container had lost for want of memory when the last command ended.
    oom_kills: AtomicU64,
    /// A command was started whose end nobody has seen.
    unsettled: AtomicBool,
    removed: bool,
}

impl CaseContainers {
    /// Makes containers as `owner` on the daemon of `engine`, with images looked after by `images`.
    pub fn new(engine: Engine, images: Arc<Images>, owner: Owner) -> Self {
        let shared = Shared {
            engine: engine.owned_by(&owner),
            images,
            owner,
            tasks: TaskTracker::new(),
            debts: Mutex::default(),
            made: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Gets the image and starts a container of it.
    ///
    /// Cancel safe: a container that nobody waits for any more is removed.
    ///
    /// # Errors
    /// `BAD_REQUEST` for an image that can't be had or has no `sh`, `DRIVER_PROVISION_FAILED` for anything that the
    /// machine lacks, `CANCELLED`.
    pub async fn start(&self, spec: &CaseSpec, scope: &CaseScope) -> Result<CaseContainer, Fault> {
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn(async move { shared.pay_debts().await });
        let need = ImageNeed {
            image: spec.image().to_owned(),
            path: spec::IMAGE_PATH.to_owned(),
        };
        let watcher = PullWatcher {
            lines: &*scope.progress,
            cancel: &scope.cancel,
        };
        let (engine, images) = (&self.shared.engine, &self.shared.images);
        let image = images.ensure(engine, &need, &scope.credentials, watcher).await?;
        // In a task of its own: dropping this future must not leave a container that nobody knows.
        let (shared, spec, run) = (Arc::clone(&self.shared), spec.clone(), Run::of(scope));
        let making = self
            .shared
            .tasks
            .spawn(async move { shared.make(&spec, &image, &run).await });
        let made = scope.bounded(making).await?;
        made.unwrap_or_else(|error| Err(Fault::internal("the container's task failed").caused_by(error)))
    }

    /// What could not be removed so far.
    pub fn debts(&self) -> Vec<Debt> {
        self.shared
            .debts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until no removal is under way, tries once more what resisted, and gives out what still stands.
    pub async fn settle(&self) -> Vec<Debt> {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.tasks.reopen();
        self.shared.pay_debts().await;
        self.debts()
    }
}

impl std::fmt::Debug for CaseContainers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaseContainers")
            .field("engine", &self.shared.engine)
            .finish_non_exhaustive()
    }
}

/// Which run a container is for.
struct Run {
    run: String,
    attempt: String,
    cancel: CancellationToken,
    progress: Progress,
}

impl Run {
    fn of(scope: &CaseScope) -> Self {
        Self {
            run: scope.run_id.clone(),
            attempt: scope.attempt.clone(),
            cancel: scope.cancel.clone(),
            progress: Arc::clone(&scope.progress),
        }
    }
}

impl Shared {
    async fn make(
        self: Arc<Self>,
        spec: &CaseSpec,
        image: &PresentImage,
        run: &Run,
    ) -> Result<CaseContainer, Fault> {
        let info = self.engine.info().await.map_err(EngineError::into_fault)?;
        let labels = labels::of_kind(
            &labels::of_case(&self.owner.labels(), &run.run, &run.attempt),
            Kind::Case,
            None,
        );
        let name = self.name(run);
        if run.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let reach = spec.reach(&self.engine).await?;
        let body = spec.body(&image.id, labels, info.memory, &reach);
        let id = self
            .engine
            .create_container(&name, body)
            .await
            .map_err(EngineError::into_fault)?;
        let mut container = CaseContainer {
            shared: self,
            id,
            name,
            provenance: provenance::of(spec.image(), image),
            owner: FileOwner { uid: 0, gid: 0 },
            shell: String::new(),
            env: Vec::new(),
            keep: Mutex::default(),
            reach: reach.reach,
            oom_kills: AtomicU64::new(0),
            unsettled: AtomicBool::new(false),
            removed: false,
        };
        match container.come_up(spec, run).await {
            Ok(()) => Ok(container),
            Err(fault) => {
                container.remove().await;
                Err(fault)
            }
        }
    }

    fn name(&self, run: &Run) -> String {
        let count = self.made.fetch_add(1, Ordering::Relaxed).to_string();
        let pid = self.owner.pid.to_string();
        let parts = [
            &*self.owner.install,
            &*self.owner.start,
            &*pid,
            &*count,
            &*run.run,
            &*run.attempt,
        ];
        format!(
            "everdict-case-{}-{}",
            names::distinct(&run.run, 40),
            short_hash(&parts, 10)
        )
    }

    /// Removes a container, or keeps account of it.
    async fn remove(&self, id: &str, name: &str) -> Option<Debt> {
        let error = self.engine.remove_container(id).await.err()?;
        let debt = Debt {
            install: self.owner.install.clone(),
            topology: String::new(),
            object: DebtObject::Container {
                id: id.to_owned(),
                name: name.to_owned(),
            },
            shared: false,
            why: error.to_string(),
        };
        self.owe(debt.clone());
        Some(debt)
    }

    fn owe(&self, debt: Debt) {
        self.debts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(debt);
    }

    async fn pay_debts(&self) {
        let debts = std::mem::take(&mut *self.debts.lock().unwrap_or_else(PoisonError::into_inner));
        for debt in debts {
            if let Some(debt) = debt.pay(&self.engine).await {
                self.owe(debt);
            }
        }
    }
}

impl CaseContainer {
    /// The container's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The container's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which image it was made of.
    pub fn provenance(&self) -> &ImageProvenance {
        &self.provenance
    }

    /// What commands need in their environment on top of the image's own: places to write where the image has none.
    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// Removes the container with its anonymous volumes; gives out what resisted, to be tried again later.
    pub async fn remove(mut self) -> Option<Debt> {
        let debt = self.shared.remove(&self.id, &self.name).await;
        self.removed = true;
        debt
    }
}

/// The safety net for a case that panicked or was dropped.
impl Drop for CaseContainer {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        // Without a runtime the process is ending: the labels tell the next one what to remove.
        if let Ok(runtime) = Handle::try_current() {
            let (shared, id, name) = (Arc::clone(&self.shared), self.id.clone(), self.name.clone());
            self.shared
                .tasks
                .spawn_on(async move { drop(shared.remove(&id, &name).await) }, &runtime);
        }
    }
}

impl std::fmt::Debug for CaseContainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaseContainer")
            .field("name", &self.name)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

fn cancelled() -> Fault {
    Fault::cancelled("the case was cancelled")
}

/// A path of the case as one of the container.
fn absolute(path: &str) -> String {
    match path {
        "" | "." => CASE_ROOT.to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("{CASE_ROOT}/{path}"),
    }
}
