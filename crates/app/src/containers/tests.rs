use std::collections::BTreeMap;
use std::path::Path;

use everdict_testkit::FakeEngine;

use super::*;

/// What the requirement allows between a change of the engine and what is offered.
const ON_LIMIT: Duration = Duration::from_secs(30);

struct Place {
    home: tempfile::TempDir,
    env: Arc<HostEnv>,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        Self {
            home,
            env: Arc::new(HostEnv::default()),
        }
    }

    fn paths(&self) -> Paths {
        Paths::under(self.home.path())
    }

    fn settings(&self, address: &str, more: &str) -> Settings {
        let text = format!("[topology]\nendpoint = \"{address}\"\n{more}\n");
        Settings::parse("settings.toml", &text).unwrap()
    }

    fn start(&self, settings: &Settings) -> Containers {
        let options = ContainerOptions {
            watchdog: None,
            ..ContainerOptions::new(&self.paths(), settings, "laptop")
        };
        Containers::start(options, Arc::clone(&self.env)).unwrap()
    }
}

async fn offered(
    offer: &mut watch::Receiver<ContainerOffer>,
    what: &str,
    wanted: impl FnMut(&ContainerOffer) -> bool,
) -> ContainerOffer {
    let found = match tokio::time::timeout(ON_LIMIT, offer.wait_for(wanted)).await {
        Ok(Ok(found)) => Some(found.clone()),
        _ => None,
    };
    found.unwrap_or_else(|| panic!("waited in vain for {what}: {:?}", *offer.borrow()))
}

#[tokio::test]
async fn the_offer_follows_an_engine_that_comes_and_goes() {
    let engine = FakeEngine::away();
    let place = Place::new();
    let containers = place.start(&place.settings(&engine.address(), "disk_floor_gb = 0"));
    let mut offer = containers.offer();
    let absent = offered(&mut offer, "a first word", |offer| {
        *offer != ContainerOffer::Unknown
    })
    .await;
    assert!(
        matches!(&absent, ContainerOffer::Absent(why) if why.contains("topology.endpoint")),
        "{absent:?}"
    );
    let fault = containers.door().enter(None).await.err().unwrap();
    assert!(fault.failure().retryable, "{fault:?}");
    engine.come_back();
    let ready = offered(&mut offer, "the engine", |offer| {
        matches!(offer, ContainerOffer::Ready(_))
    })
    .await;
    assert!(
        matches!(&ready, ContainerOffer::Ready(words) if words.contains(&engine.address())),
        "{ready:?}"
    );
    assert!(containers.door().enter(None).await.is_ok());
    engine.go_away();
    offered(&mut offer, "its going", |offer| {
        matches!(offer, ContainerOffer::Absent(_))
    })
    .await;
    containers.close().await;
}

#[tokio::test]
async fn a_case_that_comes_before_the_next_look_finds_an_engine_that_is_back() {
    let engine = FakeEngine::away();
    let place = Place::new();
    let containers = place.start(&place.settings(&engine.address(), "disk_floor_gb = 0"));
    offered(&mut containers.offer(), "a first word", |offer| {
        *offer != ContainerOffer::Unknown
    })
    .await;
    engine.come_back();
    let begin = std::time::Instant::now();
    assert!(containers.door().enter(None).await.is_ok());
    assert!(begin.elapsed() < PROBE_EVERY);
    containers.close().await;
}

#[tokio::test]
async fn below_the_floor_no_case_is_taken_and_nothing_is_created() {
    let engine = FakeEngine::start();
    let place = Place::new();
    let containers = place.start(&place.settings(&engine.address(), "disk_floor_gb = 1000000"));
    let mut offer = containers.offer();
    let held = offered(&mut offer, "the verdict", |offer| {
        *offer != ContainerOffer::Unknown
    })
    .await;
    assert!(
        matches!(&held, ContainerOffer::HeldBack(why) if why.starts_with("disk low: ")),
        "{held:?}"
    );
    let fault = containers.door().enter(None).await.err().unwrap();
    assert!(fault.message.starts_with("disk low: "), "{fault:?}");
    assert!(fault.failure().retryable, "{fault:?}");
    assert!(engine.pulls().is_empty() && engine.containers().is_empty());
    containers.close().await;
}

#[tokio::test]
async fn an_engine_that_the_settings_name_is_the_only_one() {
    let engine = FakeEngine::start();
    let mut place = Place::new();
    place.env = Arc::new(HostEnv::from_pairs([("DOCKER_HOST", engine.address())]));
    let settings = place.settings("unix:///nonexistent/docker.sock", "");
    let report = look_around(&place.env, &place.paths(), &settings.topology)
        .await
        .unwrap();
    assert!(report.endpoint.is_none());
    assert_eq!(report.candidates[0].source, "topology.endpoint in settings.toml");
    assert!(report.why.unwrap().contains("/nonexistent/docker.sock"));
    let default = Settings::parse("settings.toml", "").unwrap().topology;
    let report = look_around(&place.env, &place.paths(), &default).await.unwrap();
    let endpoint = report.endpoint.unwrap();
    assert_eq!(
        (endpoint.address, endpoint.source.as_str()),
        (engine.address(), "DOCKER_HOST")
    );
}

#[tokio::test]
async fn without_an_engine_there_is_nothing_to_clean_up() {
    let place = Place::new();
    let settings = place.settings("unix:///nonexistent/docker.sock", "");
    let refused = clean_up(&place.env, &place.paths(), &settings.topology, true).await;
    let problem = refused.unwrap_err();
    assert_eq!(problem.class(), crate::ProblemClass::Machine);
    assert!(
        problem.to_string().contains("there is no such socket"),
        "{problem}"
    );
}

#[test]
fn this_program_is_found() {
    assert!(watchdog::this_program().is_some_and(|path| path.exists()));
}

#[test]
fn only_the_watchdog_s_own_word_makes_one() {
    let argv = |words: &[&str]| words.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
    assert!(watchdog_main(&argv(&["start"])).is_none());
    assert!(watchdog_main(&[]).is_none());
    assert!(watchdog_main(&argv(&["__watchdog", "half"])).is_some());
}

#[test]
fn labels_say_whose_objects_they_are() {
    let place = Place::new();
    let settings = place.settings("", "");
    let options = ContainerOptions::new(&place.paths(), &settings, "");
    assert!(options.state_dir.starts_with(Path::new(place.home.path())));
    let identity = Identity::load(&options.state_dir).unwrap();
    let owner = everdict_topology::process::this_owner(&identity.install, "runner");
    let labels: BTreeMap<_, _> = owner.labels();
    assert!(labels.values().all(|value| !value.is_empty()));
}
