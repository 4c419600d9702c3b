//! Signing in from a window: the real hub, a provider of the test, and a browser that follows redirects.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_app::control::{AppState, Control, ControlOptions, Leave, TokenPlace};
use everdict_app::{
    ContainerOptions, EnvSecrets, HubHost, HubOptions, OidcConfig, Paths, Registrations, Settings,
};
use everdict_exec::HostEnv;
use everdict_testkit::IdentityProvider;
use everdict_testkit::identity_provider::{CLIENT_ID, Deviation, Endpoint};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// An engine that can't be there, so that no test talks to the machine's own.
const SETTINGS: &str = "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n";

struct World {
    home: TempDir,
    provider: IdentityProvider,
    hub: HubHost,
    control: Control,
}

impl World {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let control = start(home.path());
        let provider = IdentityProvider::start().await;
        let hub = HubHost::start(&HubOptions {
            database: None,
            data_dir: home.path().join("team-hub"),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            lease_ttl: None,
            oidc: Some(OidcConfig::new(provider.issuer(), CLIENT_ID)),
        })
        .await
        .unwrap();
        Self {
            home,
            provider,
            hub,
            control,
        }
    }

    fn opened(&self) -> PathBuf {
        self.home.path().join("opened")
    }

    fn paired(&self) -> usize {
        let paths = Paths::under(&self.home.path().join("profile"));
        Registrations::at(paths.registrations_file())
            .list()
            .unwrap()
            .len()
    }

    async fn sign_in(&self, place: TokenPlace) -> Result<(), everdict_app::Problem> {
        self.control.sign_in(self.hub.url().as_str(), "lab", place).await
    }

    async fn browse(&self) -> String {
        let address = self.address().await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        http.get(address).send().await.unwrap().text().await.unwrap()
    }

    async fn address(&self) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(address) = std::fs::read_to_string(self.opened()) {
                std::fs::remove_file(self.opened()).unwrap();
                return address;
            }
            assert!(Instant::now() < until, "no browser was opened");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// A control whose opener of addresses writes them into a file.
fn start(home: &Path) -> Control {
    let paths = Paths::under(&home.join("profile"));
    let settings = Settings::parse("settings.toml", SETTINGS).unwrap();
    let mut containers = ContainerOptions::new(&paths, &settings, "test");
    containers.watchdog = None;
    let bin = home.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let opened = home.join("opened");
    let script = format!(
        "#!/bin/sh\nprintf %s \"$1\" > {0}.new && mv {0}.new {0}\n",
        opened.display()
    );
    for name in ["xdg-open", "open"] {
        std::fs::write(bin.join(name), &script).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
    let path = format!("{}:{path}", bin.display());
    let env = Arc::new(HostEnv::from_pairs([("PATH", path.as_str())]));
    Control::start(ControlOptions {
        program: "a test",
        containers,
        secrets: EnvSecrets::from_env(&env),
        env,
        paths,
        settings,
        version: "0.0.0-test".to_owned(),
        tray_host: true,
        autostart: None,
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_pairs_by_the_browser_and_stays_usable_meanwhile() {
    let world = World::start().await;
    let hub = world.hub.url().as_str();
    assert_eq!(world.control.sign_in_methods(hub).await.unwrap(), ["key", "oidc"]);
    let meanwhile = async {
        let address = world.address().await;
        // Whoever waits in the browser holds nothing else up.
        world.control.pause(None).await.unwrap();
        world.control.resume().await.unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        http.get(address).send().await.unwrap().text().await.unwrap()
    };
    let (paired, page) = tokio::join!(world.sign_in(TokenPlace::File), meanwhile);
    paired.unwrap();
    assert!(page.contains("goes on by itself"), "{page}");
    assert_eq!(world.paired(), 1);
    let runner = &world.control.snapshot().runners[0];
    assert!(!runner.embedded && runner.label == "lab", "{runner:?}");
    world.control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_a_newer_sign_in_and_the_end_of_the_app_all_end_the_wait() {
    let world = World::start().await;
    world.provider.deviate([Deviation::Silence]);
    let (ended, ()) = tokio::join!(world.sign_in(TokenPlace::File), async {
        world.address().await;
        world.control.cancel_sign_in();
    });
    assert_eq!(ended.unwrap_err().code(), "sign_in_cancelled");

    world.provider.deviate([]);
    let (older, (newer, _page)) = tokio::join!(world.sign_in(TokenPlace::File), async {
        let first = world.address().await;
        let outcome = tokio::join!(world.sign_in(TokenPlace::File), world.browse());
        // The older one's port is closed.
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        assert!(http.get(first).send().await.is_err());
        outcome
    });
    assert_eq!(older.unwrap_err().code(), "sign_in_cancelled");
    newer.unwrap();
    assert_eq!(world.paired(), 1);

    let (ended, ()) = tokio::join!(world.sign_in(TokenPlace::File), async {
        world.address().await;
        world.control.leave(Leave::Now).await;
    });
    assert_eq!(ended.unwrap_err().code(), "sign_in_cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_stop_the_pairing_anyway_is_told_before_a_browser_opens() {
    let world = World::start().await;
    // No session bus here, so no keyring: the window asks, and then allows a file.
    let problem = world.sign_in(TokenPlace::Settings).await.unwrap_err();
    assert!(problem.code().starts_with("keyring_"), "{}", problem.code());
    for (hub, label, code) in [
        ("ftp://h", "lab", "input"),
        (world.hub.url().as_str(), "\u{1b}[31m", "input"),
        ("http://127.0.0.1:9", "lab", "hub_unreachable"),
    ] {
        let refused = world.control.sign_in(hub, label, TokenPlace::File).await;
        assert_eq!(refused.unwrap_err().code(), code, "{hub}");
    }
    world
        .provider
        .deviate([Deviation::Status(Endpoint::Discovery, 500)]);
    let problem = world.sign_in(TokenPlace::File).await.unwrap_err();
    assert_eq!(problem.code(), "provider_unreachable");
    assert!(!world.opened().exists());
    assert_eq!(
        (world.paired(), world.control.snapshot().state),
        (0, AppState::Unpaired)
    );
    world.control.leave(Leave::Now).await;
}
