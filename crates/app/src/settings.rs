//! Settings: the compiled-in `defaults.toml` is the documentation, the person's file holds the difference.
//!
//! An unknown key or a bad value is refused with its `file:line`; nothing is guessed.

mod edit;
mod file;
mod oidc;
mod schema;
mod terms;
mod view;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everdict_hub::OidcConfig;
use everdict_topology::egress::EgressMode;

use crate::notices::QuietHours;
use crate::problem::{Problem, Result};
use crate::secrets::StoreKind;
pub(crate) use edit::save;
pub(crate) use file::SettingsFile;
use schema::Values;
pub use terms::{Hours, OnBattery, Terms};

/// The commented defaults, as shown to people.
pub const DEFAULTS: &str = include_str!("settings/defaults.toml");

/// Every setting, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address of the hub when nothing else names one.
    pub hub_url: String,
    /// Where the embedded hub listens.
    pub hub_listen: SocketAddr,
    /// Folder of the hub's database, when it isn't the usual one.
    pub hub_data_dir: Option<PathBuf>,
    /// How people sign in to a hub served by the command line; `None` leaves them API keys only.
    pub oidc: Option<OidcConfig>,
    /// Cases at the same time per runner.
    pub max_concurrent: usize,
    /// Longest wait of one poll.
    pub wait: Duration,
    /// Time between heartbeats; `None` follows the hub's lease time.
    pub heartbeat: Option<Duration>,
    /// First pause after a failed poll.
    pub poll_interval: Duration,
    /// Folder of the scratch directories, when it isn't the usual one.
    pub work_root: Option<PathBuf>,
    /// How long running cases may go on after SIGTERM.
    pub term_deadline: Duration,
    /// On which terms jobs are taken here.
    pub terms: Terms,
    /// What concerns containers.
    pub topology: TopologySettings,
    /// Whether the desktop app tells people things.
    pub notifications: bool,
    /// When it doesn't.
    pub quiet_hours: QuietHours,
    /// Where newer versions of the desktop app are; `None` when nobody looks.
    pub update_feed: Option<reqwest::Url>,
    /// The key that they must be signed with.
    pub update_key: String,
    /// Where tokens are kept.
    pub secret_store: StoreKind,
    /// The tracing filter for stderr.
    pub log_filter: String,
}

/// The settings of containers and topologies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologySettings {
    /// Address of the engine; `None` finds it.
    pub endpoint: Option<String>,
    /// Whether containers are held to what they may reach.
    pub egress: EgressMode,
    /// How long a topology stays up unused.
    pub idle_ttl: Duration,
    /// Below this many free bytes no case that needs a container is taken.
    pub disk_floor: u64,
    /// The most bytes that images of ours may take; `None` is no limit.
    pub image_budget: Option<u64>,
    /// Image of the browser that cases get; `None` is the pinned one.
    pub browser_image: Option<String>,
    /// Whether an initialised database is kept as a local image.
    pub prepare_databases: bool,
    /// Folders of this machine that services may mount.
    pub allow_host_volumes: Vec<PathBuf>,
}

/// Disks and images are sold and shown in these.
const GB: u64 = 1_000_000_000;

impl TopologySettings {
    fn from_values(values: &Values) -> Self {
        Self {
            endpoint: Some(values.text("topology.endpoint")).filter(|address| !address.is_empty()),
            egress: match values.text("topology.egress").as_str() {
                "open" => EgressMode::Open,
                _ => EgressMode::Fence,
            },
            idle_ttl: Duration::from_secs(values.int("topology.idle_ttl_s")),
            disk_floor: values.int("topology.disk_floor_gb") * GB,
            image_budget: Some(values.int("topology.image_budget_gb") * GB).filter(|budget| *budget > 0),
            browser_image: Some(values.text("topology.browser_image")).filter(|image| !image.is_empty()),
            prepare_databases: values.switch("topology.prepare_databases"),
            allow_host_volumes: values.folders("topology.allow_host_volumes"),
        }
    }
}

impl Settings {
    /// Reads the person's file over the defaults; a missing file means the defaults.
    ///
    /// # Errors
    /// A problem about input with `file:line`, or about this machine when the file can't be read.
    pub fn load(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            // A file in place of a folder is told by the first write, with a better sentence.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                String::new()
            }
            Err(error) => {
                return Err(Problem::machine(format!("can't read {}", path.display()))
                    .fix("check the owner and the mode of the file")
                    .because(error));
            }
        };
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses `text` over the defaults; `name` is the file name used in errors.
    ///
    /// # Errors
    /// A problem about input with `name:line`.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut values = Values::default();
        values.merge("defaults.toml", DEFAULTS)?;
        values.merge(name, text)?;
        Ok(Self::from_values(&values))
    }

    fn from_values(values: &Values) -> Self {
        Self {
            hub_url: values.text("hub.url"),
            hub_listen: values
                .text("hub.listen")
                .parse()
                .expect("BUG: the schema lets only socket addresses through"),
            hub_data_dir: values.path("hub.data_dir"),
            oidc: oidc::from_values(values),
            max_concurrent: usize::try_from(values.int("runner.max_concurrent"))
                .expect("BUG: the schema bounds runner.max_concurrent"),
            wait: Duration::from_millis(values.int("runner.wait_ms")),
            heartbeat: Some(values.int("runner.heartbeat_ms"))
                .filter(|ms| *ms > 0)
                .map(Duration::from_millis),
            poll_interval: Duration::from_millis(values.int("runner.poll_interval_ms")),
            work_root: values.path("runner.work_root"),
            term_deadline: Duration::from_secs(values.int("runner.term_deadline_s")),
            terms: Terms::from_values(values),
            topology: TopologySettings::from_values(values),
            notifications: values.switch("notifications.show"),
            quiet_hours: QuietHours {
                from: schema::minute_of_day(&values.text("notifications.quiet_from")).unwrap_or(0),
                to: schema::minute_of_day(&values.text("notifications.quiet_to")).unwrap_or(0),
            },
            update_feed: reqwest::Url::parse(&values.text("update.feed")).ok(),
            update_key: values.text("update.key"),
            secret_store: values
                .text("secrets.store")
                .parse()
                .expect("BUG: the schema lets only store names through"),
            log_filter: values.text("log.filter"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let problem = Settings::parse("settings.toml", text).unwrap_err();
        assert_eq!(problem.class(), crate::ProblemClass::Input);
        problem.to_string()
    }

    #[test]
    fn an_empty_file_gives_the_documented_defaults() {
        let settings = Settings::parse("settings.toml", "").unwrap();
        assert_eq!(settings.hub_url, "http://localhost:8787");
        assert_eq!(settings.hub_listen.to_string(), "127.0.0.1:8787");
        assert_eq!(settings.max_concurrent, 1);
        assert_eq!(settings.wait, Duration::from_secs(25));
        assert_eq!(settings.heartbeat, None);
        assert_eq!(settings.secret_store, StoreKind::Keyring);
    }

    #[test]
    fn the_person_s_file_overrides_only_what_it_names() {
        let settings = Settings::parse(
            "settings.toml",
            "[runner]\nmax_concurrent = 4\n[secrets]\nstore = \"file\"\n",
        )
        .unwrap();
        assert_eq!(settings.max_concurrent, 4);
        assert_eq!(settings.secret_store, StoreKind::File);
        assert_eq!(settings.wait, Duration::from_secs(25));
    }

    #[test]
    fn topology_settings_are_read_in_their_units() {
        let text = "[topology]\ndisk_floor_gb = 12\nimage_budget_gb = 0\nallow_host_volumes = [\"/srv/a\", \"/b\"]\n\
                    egress = \"open\"\n";
        let topology = Settings::parse("settings.toml", text).unwrap().topology;
        assert_eq!(topology.disk_floor, 12_000_000_000);
        assert_eq!(topology.image_budget, None);
        assert_eq!(
            topology.allow_host_volumes,
            [Path::new("/srv/a"), Path::new("/b")]
        );
        assert_eq!(topology.endpoint, None);
        assert_eq!(topology.egress, EgressMode::Open);
        assert_eq!(
            Settings::parse("settings.toml", "").unwrap().topology.egress,
            EgressMode::Fence
        );
        assert_eq!(topology.idle_ttl, Duration::from_secs(1800));
    }

    #[test]
    fn an_unknown_key_names_the_place_and_the_nearest_known_one() {
        let text = refused("[runner]\n\nmax_concurent = 2\n");
        assert_eq!(
            text,
            "settings.toml:3: unknown key runner.max_concurent; did you mean runner.max_concurrent?"
        );
    }

    #[test]
    fn an_unknown_table_is_refused_too() {
        assert_eq!(
            refused("[runners]\nmax_concurrent = 2\n"),
            "settings.toml:1: unknown table runners; did you mean runner?"
        );
    }

    #[test]
    fn a_bad_value_names_the_value_and_what_is_allowed() {
        assert_eq!(
            refused("[runner]\nmax_concurrent = 65\n"),
            "settings.toml:2: runner.max_concurrent can't be 65; allowed: a whole number from 1 to 64"
        );
        assert_eq!(
            refused("[runner]\nwait_ms = \"fast\"\n"),
            "settings.toml:2: runner.wait_ms can't be \"fast\"; allowed: a whole number from 0 to 60000"
        );
        assert_eq!(
            refused("[secrets]\nstore = \"vault\"\n"),
            "settings.toml:2: secrets.store can't be \"vault\"; allowed: \"keyring\", \"file\", \"env\""
        );
        assert_eq!(
            refused("[hub]\nlisten = \"8787\"\n"),
            "settings.toml:2: hub.listen can't be \"8787\"; allowed: an address and port such as \"127.0.0.1:8787\""
        );
        assert_eq!(
            refused("[topology]\nendpoint = \"tcp://10.0.0.1:2375\"\n"),
            "settings.toml:2: topology.endpoint can't be \"tcp://10.0.0.1:2375\"; allowed: \"\", or an address such as \
             \"unix:///var/run/docker.sock\""
        );
        assert_eq!(
            refused("[topology]\nallow_host_volumes = [\"data\"]\n"),
            "settings.toml:2: topology.allow_host_volumes can't be [\"data\"]; allowed: a list of absolute paths such as \
             [\"/srv/data\"]"
        );
        assert_eq!(
            refused("[hub]\nurl = \"hub.example\"\n"),
            "settings.toml:2: hub.url can't be \"hub.example\"; allowed: an http:// or https:// address"
        );
    }

    #[test]
    fn broken_toml_names_the_line() {
        assert!(refused("[runner]\nwait_ms = = 3\n").starts_with("settings.toml:2: "));
    }
}
