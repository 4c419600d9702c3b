//! One image's way onto the machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::models::{DistributionInspect, ImageInspect};
use bollard::query_parameters::{CreateImageOptionsBuilder, RemoveImageOptionsBuilder};
use everdict_contracts::{Fault, RegistryAuth};
use futures_util::StreamExt as _;
use tokio::sync::watch;

use super::failure::{PullFailureKind, retry_after};
use super::ledger::{Entry, Ledger};
use super::platform::Platform;
use super::progress::PullProgress;
use super::reference::{ImageRef, user_of};
use super::{PresentImage, now};
use crate::engine::{Engine, EngineError, EngineErrorKind, READ_LIMIT, REMOVE_LIMIT};

/// For asking the registry about an image: two requests, and a login before them. After it the pull itself shows what
/// is wrong.
const REGISTRY_LIMIT: Duration = Duration::from_secs(15);
/// A pull that says nothing for so long has hung: while a layer is fetched or unpacked there is an event every second.
const STALL_LIMIT: Duration = Duration::from_secs(300);
/// Pulls that are tried in all when what failed may pass.
const TRIES: u32 = 3;
/// Pause after the first failure; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest that a registry may make a case wait before it is reported as limited.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The registry that a reference without a host means.
const DEFAULT_REGISTRY: &str = "docker.io";

/// Everything that one pull needs, and nothing borrowed: it belongs to all who wait for it.
pub(super) struct Pull {
    pub engine: Engine,
    pub reference: ImageRef,
    pub image: String,
    pub path: String,
    pub credential: Option<RegistryAuth>,
    pub ledger: Arc<Ledger>,
    pub refresh_after: Option<Duration>,
    pub emulates: bool,
    pub tell: watch::Sender<String>,
}

/// The daemon's words for a pull that failed.
struct PullError {
    status: Option<u16>,
    words: String,
    /// The daemon itself is gone, so its words are about something else.
    engine: Option<EngineError>,
}

impl Pull {
    pub async fn run(self) -> Result<PresentImage, Fault> {
        let machine = self.machine().await?;
        if let Some(found) = self.inspect().await? {
            self.check_platform(&machine, &Platform::of_image(&found))?;
            if !self.has_moved(&found).await {
                self.note(|ledger| ledger.touch(&id_of(&found), now()));
                return Ok(present(found, false));
            }
        } else {
            self.check_registry(&machine).await?;
        }
        let started = Instant::now();
        self.pull_patiently().await?;
        let Some(found) = self.inspect().await? else {
            let words = "the image isn't there after it was pulled";
            return Err(self.fault(PullFailureKind::Other, words));
        };
        // Ours from now on, also when it can't run here and resists.
        self.record(&found);
        if let Err(fault) = self.check_platform(&machine, &Platform::of_image(&found)) {
            self.remove(&found).await;
            return Err(fault);
        }
        self.say(format!(
            "pulled {} in {:.0} s",
            self.image,
            started.elapsed().as_secs_f64()
        ));
        Ok(present(found, true))
    }

    fn say(&self, line: String) {
        self.tell.send_replace(line);
    }

    fn fault(&self, kind: PullFailureKind, words: &str) -> Fault {
        let registry = self.reference.host().unwrap_or(DEFAULT_REGISTRY);
        kind.fault(&self.path, &self.image, registry, words)
    }

    async fn machine(&self) -> Result<Platform, Fault> {
        let call = self.engine.docker().version();
        let version = self
            .engine
            .call("ask the docker daemon for its version", READ_LIMIT, call);
        let version = version.await.map_err(EngineError::into_fault)?;
        Ok(Platform::new(
            version.os.as_deref().unwrap_or("linux"),
            version.arch.as_deref().unwrap_or_default(),
            "",
        ))
    }

    async fn inspect(&self) -> Result<Option<ImageInspect>, Fault> {
        let name = self.reference.to_string();
        let call = self.engine.docker().inspect_image(&name);
        match self.engine.call("look for an image", READ_LIMIT, call).await {
            Ok(found) => Ok(Some(found)),
            Err(error)
                if matches!(
                    error.kind,
                    EngineErrorKind::NoSuchImage | EngineErrorKind::NotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into_fault()),
        }
    }

    fn check_platform(&self, machine: &Platform, image: &Platform) -> Result<(), Fault> {
        if self.emulates || machine.runs(image) {
            return Ok(());
        }
        let words = format!("the image needs {image}, this machine runs {machine}");
        Err(self.fault(PullFailureKind::Platform, &words))
    }

    /// Refuses an image for other machines before a byte of it is fetched. A registry that can't be asked is no
    /// reason to refuse: the pull then says what is wrong.
    async fn check_registry(&self, machine: &Platform) -> Result<(), Fault> {
        let Some(known) = self.distribution().await else {
            return Ok(());
        };
        let offered: Vec<Platform> = known.platforms.iter().filter_map(Platform::of_manifest).collect();
        if self.emulates || offered.is_empty() || offered.iter().any(|image| machine.runs(image)) {
            return Ok(());
        }
        let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
        let words = format!(
            "the image needs {}, this machine runs {machine}",
            offered.join(" or ")
        );
        Err(self.fault(PullFailureKind::Platform, &words))
    }

    async fn distribution(&self) -> Option<DistributionInspect> {
        let name = self.reference.to_string();
        let call = self.engine.docker().inspect_registry_image(&name, self.login());
        self.engine
            .call("ask the registry about an image", REGISTRY_LIMIT, call)
            .await
            .ok()
    }

    /// Only a tag that we pulled is looked after: what the member built or pulled stays as it is. When the registry
    /// can't be asked, what is there will do.
    async fn has_moved(&self, found: &ImageInspect) -> bool {
        let Some(refresh_after) = self.refresh_after else {
            return false;
        };
        let id = id_of(found);
        let due = self
            .ledger
            .read()
            .get(&id)
            .is_some_and(|entry| now().saturating_sub(entry.checked_at) >= refresh_after.as_secs());
        if self.reference.digest().is_some() || !due {
            return false;
        }
        let Some(known) = self.distribution().await else {
            return false;
        };
        self.note(|ledger| {
            ledger.change(|entries| {
                if let Some(entry) = entries.get_mut(&id) {
                    entry.checked_at = now();
                }
            })
        });
        let digest = known.descriptor.digest.unwrap_or_default();
        let here = found.repo_digests.iter().flatten();
        !digest.is_empty() && here.into_iter().all(|known| !known.ends_with(&digest))
    }

    fn login(&self) -> Option<DockerCredentials> {
        let credential = self.credential.as_ref()?;
        Some(DockerCredentials {
            username: Some(user_of(credential).to_owned()),
            password: Some(credential.password.expose().to_owned()),
            serveraddress: Some(credential.host.clone()),
            ..DockerCredentials::default()
        })
    }

    async fn pull_patiently(&self) -> Result<(), Fault> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        while let Err(error) = self.pull().await {
            if let Some(engine) = error.engine {
                return Err(engine.into_fault());
            }
            let kind = PullFailureKind::of(error.status, &error.words);
            let wait = retry_after(&error.words).unwrap_or(pause);
            if !kind.is_passing() || attempt >= TRIES || wait > MAX_PAUSE {
                return Err(self.fault(kind, &error.words));
            }
            self.say(format!(
                "pulling {} again in {:.0} s: {}",
                self.image,
                wait.as_secs_f64(),
                error.words
            ));
            tokio::time::sleep(wait).await;
            attempt += 1;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        Ok(())
    }

    async fn pull(&self) -> Result<(), PullError> {
        let options = CreateImageOptionsBuilder::default()
            .from_image(&self.reference.name())
            .tag(self.reference.pull_tag())
            .build();
        let mut events = Box::pin(
            self.engine
                .docker()
                .create_image(Some(options), None, self.login()),
        );
        let mut progress = PullProgress::new(self.image.clone());
        loop {
            let event = tokio::time::timeout(STALL_LIMIT, events.next())
                .await
                .map_err(|_| PullError {
                    status: None,
                    words: format!("timeout: nothing happened for {} s", STALL_LIMIT.as_secs()),
                    engine: None,
                })?;
            match event {
                None => return Ok(()),
                Some(Ok(event)) => {
                    if let Some(line) = progress.update(&event, Instant::now()) {
                        self.say(line);
                    }
                }
                Some(Err(error)) => return Err(PullError::from(error)),
            }
        }
    }

    /// Takes back what was pulled in vain. What resists stays in the ledger, for the disk budget.
    async fn remove(&self, found: &ImageInspect) {
        let options = RemoveImageOptionsBuilder::default().build();
        let name = self.reference.to_string();
        let call = self.engine.docker().remove_image(&name, Some(options), None);
        match self.engine.call("remove an image", REMOVE_LIMIT, call).await {
            Ok(_) => self.note(|ledger| ledger.change(|entries| _ = entries.remove(&id_of(found)))),
            Err(error) => tracing::warn!(image = %name, %error, "an image that can't run here stays for now"),
        }
    }

    fn record(&self, found: &ImageInspect) {
        let time = now();
        let entry = Entry {
            reference: self.reference.to_string(),
            size: found
                .size
                .and_then(|size| u64::try_from(size).ok())
                .unwrap_or_default(),
            pulled_at: time,
            used_at: time,
            checked_at: time,
        };
        self.note(|ledger| ledger.change(|entries| _ = entries.insert(id_of(found), entry)));
    }

    /// The ledger only serves the disk budget: a case doesn't fail for it.
    fn note(&self, write: impl FnOnce(&Ledger) -> std::io::Result<()>) {
        if let Err(error) = write(&self.ledger) {
            tracing::warn!(%error, "failed to write the ledger of images");
        }
    }
}

impl From<Error> for PullError {
    fn from(error: Error) -> Self {
        match error {
            Error::DockerResponseServerError { status_code, message } => Self {
                status: Some(status_code),
                words: message,
                engine: None,
            },
            Error::DockerStreamError { error } => Self {
                status: None,
                words: error,
                engine: None,
            },
            other => {
                let engine = EngineError::from_bollard("pull an image", other);
                Self {
                    status: None,
                    words: engine.text.clone(),
                    engine: Some(engine),
                }
            }
        }
    }
}

impl Platform {
    fn of_image(image: &ImageInspect) -> Self {
        Self::new(
            image.os.as_deref().unwrap_or("linux"),
            image.architecture.as_deref().unwrap_or_default(),
            image.variant.as_deref().unwrap_or_default(),
        )
    }
}

fn id_of(image: &ImageInspect) -> String {
    image.id.clone().unwrap_or_default()
}

fn present(image: ImageInspect, pulled: bool) -> PresentImage {
    PresentImage {
        id: image.id.unwrap_or_default(),
        digests: image.repo_digests.unwrap_or_default(),
        pulled,
    }
}
