//! Images: what a reference means, how one gets onto the machine, and how ours leave it again.
//!
//! A pull is shared by everybody who wants the image. It ends when the last of them has stopped waiting: dropping the
//! future hangs up, and the daemon then gives up the pull.

mod budget;
mod failure;
mod ledger;
mod platform;
mod progress;
mod pull;
mod reference;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
};
use everdict_contracts::{Fault, RegistryAuth};
use futures_util::future::{BoxFuture, FutureExt as _, Shared, WeakShared};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::digest::short_hash;
use crate::engine::{Engine, EngineError, EngineErrorKind, READ_LIMIT, REMOVE_LIMIT};
use crate::plan::ImageNeed;
use budget::Present;
use ledger::{Entry, Ledger};
use pull::Pull;

pub use failure::PullFailureKind;
pub use platform::Platform;
pub use reference::{ImageRef, ImageRefError};

/// How the images of this machine are looked after.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// Where the ledger of our pulls is kept.
    pub state_dir: PathBuf,
    /// The most that images of ours may take, in bytes; unbounded when absent.
    pub budget_bytes: Option<u64>,
    /// After how long the registry is asked whether a tag that we pulled has moved; never when absent.
    pub refresh_after: Option<Duration>,
    /// Whether the machine emulates other processors, so that foreign images run.
    pub emulates: bool,
}

/// An image that is on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentImage {
    /// The daemon's id: equal ids are equal images, whatever tags do.
    pub id: String,
    /// Digests by which registries know it, such as `r.io/web@sha256:…`; none for an image that was built here.
    pub digests: Vec<String>,
    /// Whether this call, or one that it joined, pulled it.
    pub pulled: bool,
}

/// What [`Images::trim`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// References of the images that went.
    pub removed: Vec<String>,
    /// Their sizes, layers that others share included.
    pub freed_bytes: u64,
}

/// What [`Images`] would do, and has; for `gc` and `doctor`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageUse {
    /// Images that we pulled and that are still ours.
    pub ours: Vec<String>,
    pub ours_bytes: u64,
    /// Those of them that the budget would evict now.
    pub evictable: Vec<String>,
}

/// Takes the lines of a pull. Called once a second at most.
pub type PullLines<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Somebody who waits for an image.
#[derive(Clone, Copy)]
pub struct PullWatcher<'a> {
    pub lines: PullLines<'a>,
    pub cancel: &'a CancellationToken,
}

type Outcome = Result<PresentImage, Fault>;
type Work = BoxFuture<'static, Outcome>;

/// A pull that others may join.
struct Flight {
    work: WeakShared<Work>,
    lines: watch::Receiver<String>,
}

/// The images of one machine. Share one per process.
pub struct Images {
    options: ImageOptions,
    ledger: Arc<Ledger>,
    flights: Mutex<HashMap<String, Flight>>,
}

impl Images {
    /// Makes the keeper of this machine's images.
    pub fn new(options: ImageOptions) -> Self {
        let ledger = Arc::new(Ledger::in_folder(&options.state_dir));
        Self {
            options,
            ledger,
            flights: Mutex::new(HashMap::new()),
        }
    }

    /// Sees to it that an image is there: one that is isn't pulled again, but for a tag of ours that has moved.
    ///
    /// Cancel safe: the pull goes on only for others who wait for it.
    ///
    /// # Errors
    /// `BAD_REQUEST` with the image's place when it doesn't exist, needs another login or another platform;
    /// `RATE_LIMITED`, `UPSTREAM_ERROR` and `DRIVER_PROVISION_FAILED` for what is nobody's spec's fault; `CANCELLED`.
    pub async fn ensure(
        &self,
        engine: &Engine,
        need: &ImageNeed,
        credentials: &[RegistryAuth],
        watcher: PullWatcher<'_>,
    ) -> Outcome {
        let reference = ImageRef::parse(&need.image)
            .map_err(|error| Fault::bad_request(format!("{}: {error}", need.path)))?;
        let (work, mut told) = self.join(engine, need, reference, credentials);
        let mut work = std::pin::pin!(work);
        let mut last = String::new();
        let mut tell = |line: String| {
            if line != last {
                (watcher.lines)(&line);
                last = line;
            }
        };
        loop {
            tokio::select! {
                biased;
                () = watcher.cancel.cancelled() => {
                    return Err(Fault::cancelled(format!("stopped while waiting for the image `{}`", need.image)));
                }
                outcome = &mut work => {
                    tell(told.borrow().clone());
                    return outcome;
                }
                Ok(()) = told.changed() => tell(told.borrow_and_update().clone()),
            }
        }
    }

    /// Sees to it that all images are there, side by side. The first that can't be had ends the waiting for the rest.
    ///
    /// # Errors
    /// As [`Images::ensure`].
    pub async fn ensure_all(
        &self,
        engine: &Engine,
        needs: &[ImageNeed],
        credentials: &[RegistryAuth],
        watcher: PullWatcher<'_>,
    ) -> Result<Vec<PresentImage>, Fault> {
        let all = needs
            .iter()
            .map(|need| self.ensure(engine, need, credentials, watcher));
        futures_util::future::try_join_all(all).await
    }

    fn join(
        &self,
        engine: &Engine,
        need: &ImageNeed,
        reference: ImageRef,
        credentials: &[RegistryAuth],
    ) -> (Shared<Work>, watch::Receiver<String>) {
        let credential = reference.credential(credentials).cloned();
        let key = flight_key(engine, need, credential.as_ref());
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| flight.work.upgrade().is_some());
        if let Some(flight) = flights.get(&key)
            && let Some(work) = flight.work.upgrade()
            && work.peek().is_none()
        {
            return (work, flight.lines.clone());
        }
        let (tell, lines) = watch::channel(String::new());
        let pull = Pull {
            engine: engine.clone(),
            reference,
            image: need.image.clone(),
            path: need.path.clone(),
            credential,
            ledger: Arc::clone(&self.ledger),
            refresh_after: self.options.refresh_after,
            emulates: self.options.emulates,
            tell,
        };
        let work: Shared<Work> = pull.run().boxed().shared();
        if let Some(weak) = work.downgrade() {
            flights.insert(
                key,
                Flight {
                    work: weak,
                    lines: lines.clone(),
                },
            );
        }
        (work, lines)
    }

    /// Evicts our least recently used images until the rest fits the budget; none that a container is made of, none
    /// that was just asked for, and none that this runner didn't pull.
    ///
    /// # Errors
    /// When the daemon doesn't tell what there is. An image that can't be removed stays for the next time.
    pub async fn trim(&self, engine: &Engine) -> Result<Trimmed, EngineError> {
        let Some(budget) = self.options.budget_bytes else {
            return Ok(Trimmed::default());
        };
        let (verdict, sizes) = self.judge(engine, budget).await?;
        let entries = self.ledger.read();
        let mut trimmed = Trimmed::default();
        let mut gone = verdict.forget;
        for id in verdict.evict {
            let options = RemoveImageOptionsBuilder::default().build();
            let call = engine.docker().remove_image(&id, Some(options), None);
            match engine.call("remove an image", REMOVE_LIMIT, call).await {
                Ok(_) => {
                    trimmed.freed_bytes += sizes.get(&id).copied().unwrap_or_default();
                    trimmed
                        .removed
                        .extend(entries.get(&id).map(|entry| entry.reference.clone()));
                    gone.push(id);
                }
                Err(error) if error.is_not_found() => gone.push(id),
                Err(error) => tracing::warn!(image = %id, %error, "an image over budget stays for now"),
            }
        }
        self.forget(&gone);
        Ok(trimmed)
    }

    /// Tells what of ours there is, and what would go.
    ///
    /// # Errors
    /// When the daemon doesn't tell what there is.
    pub async fn usage(&self, engine: &Engine) -> Result<ImageUse, EngineError> {
        let budget = self.options.budget_bytes.unwrap_or(u64::MAX);
        let (verdict, sizes) = self.judge(engine, budget).await?;
        let mut used = ImageUse::default();
        for (id, Entry { reference, .. }) in self.ledger.read() {
            if verdict.forget.contains(&id) {
                continue;
            }
            used.ours_bytes += sizes.get(&id).copied().unwrap_or_default();
            if verdict.evict.contains(&id) {
                used.evictable.push(reference.clone());
            }
            used.ours.push(reference);
        }
        Ok(used)
    }

    async fn judge(
        &self,
        engine: &Engine,
        budget: u64,
    ) -> Result<(budget::Verdict, BTreeMap<String, u64>), EngineError> {
        let options = ListImagesOptionsBuilder::default().build();
        let images = engine
            .call(
                "list images",
                READ_LIMIT,
                engine.docker().list_images(Some(options)),
            )
            .await?;
        let present: BTreeMap<String, Present> = images
            .into_iter()
            .map(|image| {
                let size = u64::try_from(image.size).unwrap_or_default();
                let tags = image
                    .repo_tags
                    .into_iter()
                    .filter(|tag| tag != "<none>:<none>")
                    .collect();
                (image.id, Present { size, tags })
            })
            .collect();
        let options = ListContainersOptionsBuilder::default().all(true).build();
        let call = engine.docker().list_containers(Some(options));
        let containers = engine.call("list containers", READ_LIMIT, call).await?;
        let in_use: BTreeSet<String> = containers
            .into_iter()
            .filter_map(|container| container.image_id)
            .collect();
        let verdict = budget::choose(&self.ledger.read(), &present, &in_use, budget, now());
        let sizes = present.into_iter().map(|(id, image)| (id, image.size)).collect();
        Ok((verdict, sizes))
    }

    fn forget(&self, ids: &[String]) {
        let written = self
            .ledger
            .change(|entries| entries.retain(|id, _| !ids.contains(id)));
        if let Err(error) = written {
            tracing::warn!(%error, "failed to write the ledger of images");
        }
    }
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Tells which of these images aren't on the machine.
///
/// # Errors
/// When the daemon doesn't tell.
pub async fn missing(engine: &Engine, images: &[String]) -> Result<Vec<String>, EngineError> {
    let mut missing = Vec::new();
    for image in images {
        let look = engine.docker().inspect_image(image);
        match engine.call("inspect an image", READ_LIMIT, look).await {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind,
                    EngineErrorKind::NoSuchImage | EngineErrorKind::NotFound
                ) =>
            {
                missing.push(image.clone());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

/// Who has other credentials doesn't join: theirs may be refused where these aren't.
fn flight_key(engine: &Engine, need: &ImageNeed, credential: Option<&RegistryAuth>) -> String {
    let login = credential.map_or_else(String::new, |credential| {
        short_hash(
            &[
                &credential.host,
                reference::user_of(credential),
                credential.password.expose(),
            ],
            32,
        )
    });
    format!("{} {} {login}", engine.address(), need.image)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests;
