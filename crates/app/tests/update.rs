//! Updates from a feed of the test's own: what is taken, what isn't, and the way back.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everdict_app::control::{AppState, Control, ControlOptions, Leave, TokenPlace, UpdateState};
use everdict_app::update::{Found, Guarded, Start, Trial, UpdateOptions, Updater, until_idle};
use everdict_app::{ContainerOptions, EnvSecrets, Paths, Settings};
use everdict_exec::HostEnv;
use everdict_testkit::{Signer, UpdateFeed};

const DEADLINE: Duration = Duration::from_secs(40);

/// A program that says its version, and otherwise does as told.
fn program(version: &str, otherwise: &str) -> Vec<u8> {
    format!("#!/bin/sh\nif [ \"$1\" = --version ]; then echo {version}; exit 0; fi\n{otherwise}\n")
        .into_bytes()
}

fn install(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

struct Place {
    dir: tempfile::TempDir,
    feed: UpdateFeed,
}

impl Place {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        Paths::under(&dir.path().join("home")).prepare().unwrap();
        let place = Self {
            dir,
            feed: UpdateFeed::start().await,
        };
        install(&place.program(), &program("1.0.0", "exit 0"));
        place
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("bin/everdict-desktop")
    }

    fn state(&self) -> PathBuf {
        Paths::under(&self.dir.path().join("home")).state_dir().to_owned()
    }

    fn updater(&self) -> Updater {
        let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
        Updater::new(UpdateOptions {
            feed: self.feed.url().parse().unwrap(),
            key: Signer::new(1).public(),
            version: "1.0.0".to_owned(),
            program: self.program(),
            state_dir: self.state(),
            env: Arc::new(HostEnv::from_pairs([("PATH", path.as_str())])),
        })
        .unwrap()
    }

    fn serve(&self, version: &str, bytes: &[u8], signature: &str) {
        self.feed.offer(version, bytes, signature);
    }

    /// What stands beside the program.
    fn beside(&self) -> Vec<String> {
        let listed = std::fs::read_dir(self.dir.path().join("bin")).unwrap();
        let mut names: Vec<String> = listed
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != "everdict-desktop")
            .collect();
        names.sort();
        names
    }

    async fn refusal(&self) -> String {
        match self.updater().look().await {
            Found::Refused(_, why) => why,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_an_older_version_and_silence_change_nothing() {
    let place = Place::new().await;
    let good = program("2.0.0", "");
    for feed in [
        "<html>sign in</html>",
        "{}",
        "{\"version\": 7}",
        &"x".repeat(1_000_000),
    ] {
        place.feed.answer(feed, &good);
        assert_eq!(place.updater().look().await, Found::Nothing);
    }
    for version in ["0.9.9", "1.0.0", "1.0.0-beta.1", "not a version"] {
        place.serve(version, &good, &Signer::new(1).sign(&good));
        assert_eq!(place.updater().look().await, Found::Nothing, "{version}");
    }
    place.serve("2.0.0", &good, &Signer::new(1).sign(&good));
    let nobody = Updater::new(UpdateOptions {
        feed: "http://127.0.0.1:1/feed.json".parse().unwrap(),
        key: Signer::new(1).public(),
        version: "1.0.0".to_owned(),
        program: place.program(),
        state_dir: place.state(),
        env: Arc::default(),
    });
    assert_eq!(nobody.unwrap().look().await, Found::Nothing);
    assert_eq!(place.beside(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_signed_for_this_or_lies_about_its_version_is_refused() {
    let place = Place::new().await;
    let good = program("2.0.0", "");
    place.serve("2.0.0", &good, &Signer::new(2).sign(&good));
    assert_eq!(place.refusal().await, "its signature doesn't fit");
    place.serve("2.0.0", b"changed", &Signer::new(1).sign(&good));
    assert_eq!(place.refusal().await, "its signature doesn't fit");
    place.serve("2.0.0", &good, "nonsense");
    assert_eq!(place.refusal().await, "its signature can't be read");
    // Signed by us, and an old one under a new name.
    let old = program("0.5.0", "");
    place.serve("2.0.0", &old, &Signer::new(1).sign(&old));
    assert_eq!(place.refusal().await, "it is another version than the feed says");
    assert_eq!(place.beside(), Vec::<String>::new());
    assert_eq!(
        std::fs::read(place.program()).unwrap(),
        program("1.0.0", "exit 0")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_version_is_checked_and_staged_and_takes_its_place_in_one_step() {
    let place = Place::new().await;
    let good = program("2.0.0", "exit 0");
    place.serve("v2.0.0", &good, &Signer::new(1).sign(&good));
    let Found::Staged(version, staged) = place.updater().look().await else {
        panic!("not staged");
    };
    assert_eq!(version.to_string(), "2.0.0");
    assert_eq!(
        std::fs::read(place.program()).unwrap(),
        program("1.0.0", "exit 0"),
        "not yet"
    );
    let trial = Trial::in_dir(&place.state());
    let previous = trial.put_in_place(&place.program(), &staged, "2.0.0").unwrap();
    assert_eq!(std::fs::read(place.program()).unwrap(), good);
    assert_eq!(std::fs::read(previous).unwrap(), program("1.0.0", "exit 0"));
    assert_eq!(trial.begin(), Start::OnTrial);
    trial.passed();
    assert_eq!(trial.begin(), Start::Usual);
    assert_eq!(place.beside(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_fails_to_start_twice_is_rolled_back_and_not_tried_again() {
    let place = Place::new().await;
    let log = place.dir.path().join("starts");
    let bad = program(
        "2.0.0",
        &format!("echo start >> {}; kill -SEGV $$", log.display()),
    );
    place.serve("2.0.0", &bad, &Signer::new(1).sign(&bad));
    let Found::Staged(_, staged) = place.updater().look().await else {
        panic!("not staged");
    };
    let trial = Trial::in_dir(&place.state());
    trial.put_in_place(&place.program(), &staged, "2.0.0").unwrap();
    let guarded = tokio::task::block_in_place(|| trial.guard(&[]));
    assert_eq!(guarded, Guarded::RolledBack(place.program()));
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 2);
    assert_eq!(
        std::fs::read(place.program()).unwrap(),
        program("1.0.0", "exit 0")
    );
    assert_eq!(trial.refused().as_deref(), Some("2.0.0"));
    assert_eq!(place.updater().look().await, Found::Nothing, "fetched again");
    assert_eq!(trial.begin(), Start::Usual);
    // The next one gets its chance.
    let better = program("2.0.1", "");
    place.serve("2.0.1", &better, &Signer::new(1).sign(&better));
    assert!(matches!(place.updater().look().await, Found::Staged(..)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_are_counted_over_a_restart_of_the_machine_and_an_orderly_end_is_no_failure() {
    let place = Place::new().await;
    let trial = Trial::in_dir(&place.state());
    let staged = place.dir.path().join("bin/.everdict-desktop.new");
    install(&staged, &program("2.0.0", "exit 0"));
    trial.put_in_place(&place.program(), &staged, "2.0.0").unwrap();
    for _ in 0..3 {
        assert_eq!(trial.begin(), Start::OnTrial);
        trial.forgive();
    }
    assert_eq!(trial.begin(), Start::OnTrial);
    assert_eq!(trial.begin(), Start::OnTrial);
    assert_eq!(trial.begin(), Start::RolledBack(place.program()));
    assert_eq!(
        std::fs::read(place.program()).unwrap(),
        program("1.0.0", "exit 0")
    );
    let ended = tokio::task::block_in_place(|| trial.guard(&[]));
    assert_eq!(ended, Guarded::Over, "nothing is on trial any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_a_package_manager_s_only_gets_a_word() {
    let place = Place::new().await;
    let good = program("2.0.0", "");
    place.serve("2.0.0", &good, &Signer::new(1).sign(&good));
    let updater = Updater::new(UpdateOptions {
        feed: place.feed.url().parse().unwrap(),
        key: Signer::new(1).public(),
        version: "1.0.0".to_owned(),
        // Nobody, the administrator included, makes files there.
        program: "/proc/everdict-desktop".into(),
        state_dir: place.state(),
        env: Arc::default(),
    });
    assert!(matches!(updater.unwrap().look().await, Found::Available(_)));
}

fn control(home: &Path) -> Control {
    let paths = Paths::under(home);
    let settings = Settings::parse(
        "settings.toml",
        "[hub]\nlisten = \"127.0.0.1:0\"\n[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n",
    )
    .unwrap();
    let mut containers = ContainerOptions::new(&paths, &settings, "test");
    containers.watchdog = None;
    let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
    let env = Arc::new(HostEnv::from_pairs([("PATH", path.as_str())]));
    Control::start(ControlOptions {
        program: "a test",
        containers,
        secrets: EnvSecrets::from_env(&env),
        env,
        paths,
        settings,
        version: "1.0.0".to_owned(),
        tray_host: true,
        autostart: None,
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_version_waits_for_the_running_job() {
    let place = Place::new().await;
    let control = control(&place.dir.path().join("home"));
    control
        .pair_this_computer("bench", TokenPlace::File)
        .await
        .unwrap();
    let end = Instant::now() + DEADLINE;
    while control.snapshot().state != AppState::Idle {
        assert!(Instant::now() < end, "timed out");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    control.submit_sample().await.unwrap();
    let mut watch = control.watch();
    while control.snapshot().active.is_empty() {
        tokio::time::timeout(DEADLINE, watch.next()).await.unwrap();
    }
    let good = program("2.0.0", "");
    place.serve("2.0.0", &good, &Signer::new(1).sign(&good));
    let (version, _staged) = place.updater().look_and_show(&control).await.unwrap();
    let shown = control.snapshot().update.unwrap();
    assert_eq!(
        (shown.state, shown.version),
        (UpdateState::Waiting, version.to_string())
    );
    tokio::time::timeout(DEADLINE, until_idle(&control))
        .await
        .unwrap();
    assert!(control.snapshot().active.is_empty());
    assert_eq!(
        control.snapshot().today.passed,
        1,
        "the job came to its end first"
    );

    place.serve("3.0.0", &good, "nonsense");
    assert!(place.updater().look_and_show(&control).await.is_none());
    assert_eq!(control.snapshot().update.unwrap().state, UpdateState::Failed);
    control.leave(Leave::Now).await;
}
