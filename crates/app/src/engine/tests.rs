use std::path::Path;
use std::time::Instant;

use everdict_testkit::fake_engine::Op;
use everdict_testkit::{FakeEngine, ScriptedHub};
use serde_json::{Value, json};

use super::*;
use crate::paths::Paths;
use crate::settings::Settings;

/// What the requirement allows between a lease and its being handed back.
const BACK_LIMIT: Duration = Duration::from_secs(2);

struct Place {
    home: tempfile::TempDir,
    hub: ScriptedHub,
    docker: FakeEngine,
}

impl Place {
    async fn new() -> Self {
        Self::with(FakeEngine::start()).await
    }

    async fn with(docker: FakeEngine) -> Self {
        everdict_runner_core::session::install_crypto();
        Self {
            home: tempfile::tempdir().unwrap(),
            hub: ScriptedHub::start().await,
            docker,
        }
    }

    fn start(&self, topology: &str) -> Engine {
        let text = format!(
            "[topology]\nendpoint = \"{}\"\n{topology}\n",
            self.docker.address()
        );
        let settings = Settings::parse("settings.toml", &text).unwrap();
        let paths = Paths::under(self.home.path());
        let containers = ContainerOptions {
            watchdog: None,
            ..ContainerOptions::new(&paths, &settings, "laptop")
        };
        let plan = RunnerPlan {
            label: "laptop".to_owned(),
            hub: hub_url::parse(&self.hub.url()).unwrap(),
            token: SecretString::from(ScriptedHub::TOKEN),
            version: "0.1.0".to_owned(),
            max_concurrent: 1,
            wait: Duration::from_secs(25),
            heartbeat: None,
            poll_interval: Duration::from_millis(20),
            work_root: self.home.path().join("work"),
            state_dir: self.home.path().join("state"),
            switched_off: BTreeSet::new(),
        };
        Engine::start(vec![plan], &Arc::new(HostEnv::default()), containers).unwrap()
    }

    /// Hands a job out, and waits until it is back; gives out its failure.
    async fn handed_back(&self, job: Value) -> Value {
        let begin = Instant::now();
        let id = self.hub.enqueue(job);
        self.hub
            .until("the job is back", |hub| {
                hub.lease(&id).is_some_and(|lease| lease.result.is_some())
            })
            .await;
        assert!(begin.elapsed() < BACK_LIMIT, "{:?}", begin.elapsed());
        let result = self.hub.lease(&id).unwrap().result.unwrap();
        assert!(
            result["scores"]
                .as_array()
                .unwrap()
                .iter()
                .all(|score| score["status"] == "unmeasured"),
            "{result}"
        );
        result["failure"].clone()
    }

    fn docker_is_untouched(&self) {
        assert!(self.docker.pulls().is_empty());
        assert!(self.docker.containers().is_empty());
    }
}

fn image_job(disk: &Value) -> Value {
    json!({
        "evalCase": {
            "id": "large", "env": {"kind": "prompt"}, "task": "t", "image": "everdict.test/large:1",
            "resources": {"disk": disk},
        },
        "harness": {"id": "h", "version": "1.0.0"},
        "harnessSpec": {"kind": "command", "id": "h", "version": "1.0.0", "command": "true"},
        "runId": "evd-run-large",
    })
}

async fn note(engine: &Engine) -> String {
    let mut snapshot = engine.snapshot();
    let seen = tokio::time::timeout(
        Duration::from_secs(10),
        snapshot.wait_for(|seen| seen.runners[0].runner.note.is_some()),
    );
    let seen = seen.await.expect("a note").unwrap();
    seen.runners[0].runner.note.clone().unwrap_or_default()
}

async fn end(engine: Engine) {
    engine.drain();
    engine.join().await;
}

/// C20, second half: a disk that no machine has.
#[tokio::test]
async fn a_job_that_wants_more_disk_than_is_free_is_handed_back_at_once_and_nothing_is_pulled() {
    let place = Place::new().await;
    let engine = place.start("disk_floor_gb = 0");
    let failure = place.handed_back(image_job(&json!("900000TB"))).await;
    assert_eq!(
        (&failure["class"], &failure["retryable"], &failure["stage"]),
        (&json!("infra"), &json!(true), &json!("dispatch"))
    );
    let why = failure["message"].as_str().unwrap();
    assert!(
        why.starts_with("disk: ") && why.contains("900000000 GB wanted by evalCase.resources.disk"),
        "{why}"
    );
    assert!(note(&engine).await.contains("disk: "));
    place.docker_is_untouched();
    end(engine).await;
}

/// C20, first half.
#[tokio::test]
async fn below_the_floor_a_job_with_containers_is_handed_back_at_once_and_the_snapshot_says_why() {
    let place = Place::new().await;
    let engine = place.start("disk_floor_gb = 1000000");
    let mut snapshot = engine.snapshot();
    let held = snapshot.wait_for(|seen| {
        seen.runners[0]
            .runner
            .capabilities
            .entries
            .iter()
            .any(|entry| entry.capability == Capability::Docker && entry.reason.starts_with("disk low: "))
    });
    tokio::time::timeout(Duration::from_secs(10), held)
        .await
        .expect("the snapshot says why docker is not offered")
        .unwrap();
    place
        .hub
        .until("the hub is told", |hub| hub.waiting_polls() == 1)
        .await;
    let polls = place.hub.calls_of("lease_job");
    let offered = polls.last().unwrap().args["capabilities"].clone();
    assert!(
        !offered.as_array().unwrap().contains(&json!("docker")),
        "{offered}"
    );
    // A hub that doesn't gate hands it out all the same.
    let failure = place.handed_back(image_job(&json!("1MB"))).await;
    assert_eq!(failure["class"], "infra");
    let why = failure["message"].as_str().unwrap();
    assert!(why.starts_with("disk low: "), "{why}");
    place.docker_is_untouched();
    end(engine).await;
}

#[tokio::test]
async fn a_job_without_containers_is_held_to_the_disk_it_works_on() {
    let place = Place::new().await;
    let engine = place.start("disk_floor_gb = 0");
    let mut job = image_job(&json!("900000TB"));
    job["evalCase"].as_object_mut().unwrap().remove("image");
    let failure = place.handed_back(job).await;
    let why = failure["message"].as_str().unwrap();
    assert!(why.starts_with("disk: "), "{why}");
    assert!(!Path::new(&place.home.path().join("work")).exists());
    end(engine).await;
}

/// Waits until both the snapshot and the hub's last poll say whether there is docker; tells how long that took.
async fn both_know(place: &Place, engine: &Engine, there: bool) -> Duration {
    let begin = Instant::now();
    let mut snapshot = engine.snapshot();
    let knows = snapshot.wait_for(|seen| {
        let runner = &seen.runners[0].runner;
        !runner.capabilities.entries.is_empty()
            && runner.capabilities.offered().contains(&Capability::Docker) == there
    });
    tokio::time::timeout(Duration::from_secs(60), knows)
        .await
        .expect("the snapshot knows")
        .unwrap();
    place
        .hub
        .until("the hub knows", |hub| {
            let polls = hub.calls_of("lease_job");
            polls.last().is_some_and(|poll| {
                let offered = poll.args["capabilities"].as_array();
                offered.is_some_and(|offered| offered.contains(&json!("docker")) == there)
            })
        })
        .await;
    begin.elapsed()
}

/// Programs that this process has started and that are still there.
fn children() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// C68, with polls of the default length.
#[tokio::test]
async fn docker_off_at_the_start_then_on_then_off_is_known_in_time_here_and_at_the_hub() {
    let place = Place::with(FakeEngine::away()).await;
    let engine = place.start("disk_floor_gb = 0");
    let off = both_know(&place, &engine, false).await;
    assert!(off < Duration::from_secs(5), "off at the start: {off:?}");
    place.docker.come_back();
    let on = both_know(&place, &engine, true).await;
    assert!(on < Duration::from_secs(30), "on: {on:?}");
    // It is there: from now on at most one look in 15 s, and none by a program of its own.
    let looks = |docker: &FakeEngine| docker.calls_of(Op::Ping).len();
    let before = looks(&place.docker);
    let begin = Instant::now();
    place
        .docker
        .until("two more looks", Duration::from_secs(60), |docker| {
            looks(docker) >= before + 2
        })
        .await;
    assert!(begin.elapsed() > Duration::from_secs(15), "{:?}", begin.elapsed());
    assert_eq!(children(), [""; 0]);
    place.docker.go_away();
    let off = both_know(&place, &engine, false).await;
    assert!(off < Duration::from_secs(30), "off: {off:?}");
    println!("on after {on:?}, off after {off:?}");
    end(engine).await;
}
