//! Newer versions of this app: looked for, checked, and put in place of this one when nothing runs.
//!
//! The feed is the JSON that Tauri's own tools write: `version`, and per platform a `url` and a minisign `signature`.
//! Invariants:
//! - nothing is put in place that the public key has not signed, that isn't newer, or that doesn't say itself that it is
//!   the version of the feed;
//! - nothing is put in place while a job runs;
//! - a version that fails to start twice makes way for the one before it, and is not tried again;
//! - a feed that is away or talks nonsense changes nothing and bothers nobody.

mod trial;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use everdict_exec::{ExitStatus, HostEnv};
use minisign_verify::{PublicKey, Signature};
use serde::Deserialize;

use crate::control::{AppEvent, Control, UpdateState, UpdateView};
use crate::hub_url;
use crate::paths::Paths;
use crate::problem::{Problem, Result};
use crate::settings::Settings;

pub use semver::Version;
pub use trial::{Guarded, Start, Trial};

/// A feed names one version; a larger answer is none.
const MAX_FEED: usize = 256 * 1024;

/// Ten times what this app weighs with everything in it.
const MAX_PROGRAM: u64 = 512 * 1024 * 1024;

/// For the feed, and for each silence while the program comes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A program prints its version in milliseconds; a cold disk takes seconds.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// The start of the app is busy enough.
const FIRST_LOOK: Duration = Duration::from_secs(20);

/// As the existing app has it.
const LOOK_EVERY: Duration = Duration::from_secs(6 * 60 * 60);

/// What the updater works with.
#[derive(Debug, Clone)]
pub struct UpdateOptions {
    /// Where the feed is.
    pub feed: reqwest::Url,
    /// The minisign public key, as its file has it or as base64 of that.
    pub key: String,
    /// The version that runs.
    pub version: String,
    /// The file that it runs from.
    pub program: PathBuf,
    /// Where the trial of a new version is kept track of.
    pub state_dir: PathBuf,
    /// For asking a program for its version.
    pub env: Arc<HostEnv>,
}

/// What one look came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing that is newer, or nobody to ask.
    Nothing,
    /// A newer version, in a folder that this user may not write: a package manager's.
    Available(Version),
    /// A newer version that can't be used: why.
    Refused(Version, String),
    /// A newer version, checked, beside the one that runs.
    Staged(Version, PathBuf),
}

#[derive(Deserialize)]
struct Feed {
    version: String,
    platforms: std::collections::BTreeMap<String, Offer>,
}

#[derive(Deserialize)]
struct Offer {
    url: String,
    signature: String,
}

/// See the module.
#[derive(Debug)]
pub struct Updater {
    options: UpdateOptions,
    key: PublicKey,
    running: Version,
    client: reqwest::Client,
}

impl UpdateOptions {
    /// What the settings ask for; `None` where no feed is set. The program is the one that runs, an AppImage as a whole.
    #[must_use]
    pub fn new(settings: &Settings, paths: &Paths, version: &str, env: &Arc<HostEnv>) -> Option<Self> {
        let feed = settings.update_feed.clone()?;
        let program = match env.get("APPIMAGE").filter(|path| Path::new(path).is_absolute()) {
            Some(image) => PathBuf::from(image),
            None => std::env::current_exe().ok()?,
        };
        Some(Self {
            feed,
            key: settings.update_key.clone(),
            version: version.to_owned(),
            program,
            state_dir: paths.state_dir().to_owned(),
            env: Arc::clone(env),
        })
    }
}

impl Updater {
    /// Prepares for looking.
    ///
    /// # Errors
    /// Input when the key or the version can't be read.
    pub fn new(options: UpdateOptions) -> Result<Self> {
        let key = public_key(&options.key).ok_or_else(|| {
            Problem::input("the public key of updates can't be read")
                .fix("set update.key to the content of the .pub file that minisign or `tauri signer` wrote")
        })?;
        let running = Version::parse(&options.version)
            .map_err(|error| Problem::input("this version has no number to compare").because(error))?;
        everdict_runner_core::session::install_crypto();
        let mut client = reqwest::Client::builder();
        if hub_url::is_loopback(&options.feed) {
            client = client.no_proxy();
        }
        let client = client
            .connect_timeout(ANSWER_LIMIT)
            .read_timeout(ANSWER_LIMIT)
            .build()
            .map_err(|error| Problem::machine("can't prepare for looking for updates").because(error))?;
        Ok(Self {
            options,
            key,
            running,
            client,
        })
    }

    /// Looks once: asks the feed, and fetches and checks what is newer. Cancel safe.
    pub async fn look(&self) -> Found {
        let Some((version, offer)) = self.newer().await else {
            return Found::Nothing;
        };
        let Some(folder) = self.options.program.parent() else {
            return Found::Nothing;
        };
        let Ok(file) = tempfile::NamedTempFile::new_in(folder) else {
            return Found::Available(version);
        };
        match self.fetch(file, &offer, &version).await {
            Ok(staged) => Found::Staged(version, staged),
            Err(Unfit::Silent) => Found::Nothing,
            Err(Unfit::Refused(why)) => Found::Refused(version, why),
        }
    }

    /// The feed's version, if it is newer and has not failed here.
    async fn newer(&self) -> Option<(Version, Offer)> {
        let answer = self.client.get(self.options.feed.clone()).send().await;
        let mut answer = answer.and_then(reqwest::Response::error_for_status).ok()?;
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.ok()? {
            text.extend_from_slice(&chunk);
            if text.len() > MAX_FEED {
                tracing::warn!("the feed of updates is too large to be one");
                return None;
            }
        }
        let mut feed: Feed = serde_json::from_slice(&text)
            .map_err(|error| tracing::warn!(%error, "the feed of updates can't be read"))
            .ok()?;
        let version = Version::parse(feed.version.trim_start_matches('v')).ok()?;
        let refused = Trial::in_dir(&self.options.state_dir).refused();
        if version <= self.running || refused.as_deref() == Some(version.to_string().as_str()) {
            return None;
        }
        Some((version, feed.platforms.remove(&platform())?))
    }

    async fn fetch(
        &self,
        mut file: tempfile::NamedTempFile,
        offer: &Offer,
        version: &Version,
    ) -> Result<PathBuf, Unfit> {
        let signature = signature(&offer.signature).ok_or_else(|| refused("its signature can't be read"))?;
        let mut verifier = self
            .key
            .verify_stream(&signature)
            .map_err(|_| refused("it is signed with another key"))?;
        let url = self
            .options
            .feed
            .join(&offer.url)
            .map_err(|_| refused("its address can't be read"))?;
        let answer = self.client.get(url).send().await.map_err(|_| Unfit::Silent)?;
        let mut answer = answer.error_for_status().map_err(|_| Unfit::Silent)?;
        let mut size = 0;
        while let Some(chunk) = answer.chunk().await.map_err(|_| Unfit::Silent)? {
            size += chunk.len() as u64;
            if size > MAX_PROGRAM {
                return Err(refused("it is too large"));
            }
            verifier.update(&chunk);
            file.write_all(&chunk).map_err(|_| refused("the disk is full"))?;
        }
        verifier
            .finalize()
            .map_err(|_| refused("its signature doesn't fit"))?;
        self.stage(file, version).await
    }

    /// Puts a program that is signed beside the one that runs, once it has said what it is.
    async fn stage(&self, file: tempfile::NamedTempFile, version: &Version) -> Result<PathBuf, Unfit> {
        let staged = beside(&self.options.program, "new");
        let kept = file.as_file().sync_all().and_then(|()| {
            executable(file.as_file())?;
            file.persist(&staged).map(drop).map_err(|error| error.error)
        });
        kept.map_err(|_| refused("it can't be kept"))?;
        // A signature says that a file is ours, not that it is what the feed calls it.
        let path = staged.to_string_lossy();
        let said = everdict_exec::probe(&self.options.env, &[&path, "--version"], VERSION_LIMIT).await;
        let fits = said.is_ok_and(|said| {
            said.status == ExitStatus::Exited(0) && said.stdout.trim() == version.to_string()
        });
        if fits {
            return Ok(staged);
        }
        let _ = std::fs::remove_file(&staged);
        Err(refused("it is another version than the feed says"))
    }

    /// Looks again and again; shows what it finds, and hands a checked program to `put_in_place` once no job runs. Ends
    /// after that.
    pub async fn keep_looking(self, control: Arc<Control>, put_in_place: impl FnOnce(Version, PathBuf)) {
        self.show_past(&control);
        tokio::time::sleep(FIRST_LOOK).await;
        loop {
            if let Some((version, staged)) = self.look_and_show(&control).await {
                until_idle(&control).await;
                return put_in_place(version, staged);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Looks once and shows what came of it; returns what waits for idleness.
    pub async fn look_and_show(&self, control: &Control) -> Option<(Version, PathBuf)> {
        let show = |state, version: &Version, text: String| {
            let version = version.to_string();
            control.set_update(Some(UpdateView { state, version, text }));
        };
        match self.look().await {
            Found::Nothing => {}
            Found::Available(version) => {
                let text =
                    format!("version {version} is available; install it the way you installed this one");
                show(UpdateState::Ready, &version, text);
            }
            Found::Refused(version, why) => {
                let text = format!("version {version} can't be used: {why}; this version goes on");
                show(UpdateState::Failed, &version, text);
            }
            Found::Staged(version, staged) => {
                let text = format!("version {version} takes over once no job runs");
                show(UpdateState::Waiting, &version, text);
                return Some((version, staged));
            }
        }
        None
    }

    /// A version that failed is said until there is a newer one.
    fn show_past(&self, control: &Control) {
        let Some(version) = Trial::in_dir(&self.options.state_dir).refused() else {
            return;
        };
        if Version::parse(&version).is_ok_and(|refused| refused > self.running) {
            let text = format!(
                "version {version} didn't start, so version {} runs again",
                self.running
            );
            control.set_update(Some(UpdateView {
                state: UpdateState::RolledBack,
                version,
                text,
            }));
        }
    }
}

/// Waits until no job runs here.
pub async fn until_idle(control: &Control) {
    let mut watch = control.watch();
    while let Some(event) = watch.next().await {
        if let AppEvent::Snapshot { snapshot, .. } = event
            && snapshot.active.is_empty()
        {
            return;
        }
    }
}

/// Why a newer version isn't there.
enum Unfit {
    /// Nobody answered: another time.
    Silent,
    Refused(String),
}

fn refused(why: &str) -> Unfit {
    Unfit::Refused(why.to_owned())
}

/// The name of this platform in the feed.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    format!("{system}-{}", std::env::consts::ARCH)
}

/// The text itself, or what it is the base64 of: Tauri's tools wrap the files of minisign once more.
fn unwrapped(text: &str) -> String {
    let decoded = base64::engine::general_purpose::STANDARD.decode(text.trim());
    decoded
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| text.to_owned())
}

fn public_key(text: &str) -> Option<PublicKey> {
    let text = unwrapped(text);
    PublicKey::decode(&text)
        .or_else(|_| PublicKey::from_base64(text.trim()))
        .ok()
}

fn signature(text: &str) -> Option<Signature> {
    Signature::decode(&unwrapped(text)).ok()
}

/// A sibling of the program: in its folder, so that putting it in place is one step.
fn beside(program: &Path, suffix: &str) -> PathBuf {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    program.with_file_name(format!(".{name}.{suffix}"))
}

fn executable(file: &std::fs::File) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}
