//! Promise: a runner that is killed between any two steps of an attempt loses no result that was produced, counts none
//! twice, and leaves neither a process nor a file behind once it has been started again.

use std::time::Duration;

use everdict_acceptance::{Child, World, eventually, process_ids};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

/// A machine under load takes many times what a step takes.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The steps of an attempt, and whether its result is safe by then: the job is not run a second time.
const HOPS: [(&str, bool); 7] = [
    ("leased", false),
    ("journaled", false),
    ("started", false),
    ("produced", false),
    ("kept", true),
    ("answered", true),
    ("settled", true),
];

const ARGS: [&str; 4] = ["--heartbeat-ms", "300", "--poll-interval-ms", "100"];

struct Scene {
    world: World,
    token: String,
}

impl Scene {
    /// A job that notes each of its starts, leaves a child that has shed every mark, and waits for leave to end.
    fn job(&self, hop: &str, sleep: &str) -> Value {
        let command = format!(
            "echo started >> '{starts}'; env -i /bin/sleep {sleep} & \
             while [ ! -e '{gate}' ]; do sleep 0.05; done; echo finished",
            starts = self.starts(hop).display(),
            gate = self.gate(hop).display(),
        );
        json!({
            "harness": {"id": "h", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "h", "version": "1.0.0", "command": command},
            "case": {"id": format!("case-{hop}"), "env": {"kind": "prompt"}, "task": "t",
                     "graders": [{"id": "steps"}], "timeoutSec": 120, "placement": {"target": "self"}},
        })
    }

    fn starts(&self, hop: &str) -> std::path::PathBuf {
        self.world.home().join(format!("starts-{hop}"))
    }

    fn gate(&self, hop: &str) -> std::path::PathBuf {
        self.world.home().join(format!("gate-{hop}"))
    }

    /// How many times the job was started.
    fn started(&self, hop: &str) -> usize {
        std::fs::read_to_string(self.starts(hop)).map_or(0, |text| text.lines().count())
    }

    fn runner(&self) -> Child {
        self.world.runner(&self.token, &ARGS)
    }

    /// Begun attempts and scratch folders that are still there.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut open = vec![
            self.world.home().join("state/attempts"),
            self.world.home().join("cache/work"),
        ];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let is_journal = entry.path().ancestors().any(|part| part.ends_with("attempts"));
                if is_journal && entry.path().is_dir() {
                    open.push(entry.path());
                } else {
                    left.push(entry.path().display().to_string());
                }
            }
        }
        left
    }
}

#[tokio::test]
async fn killed_between_any_two_steps_no_result_is_lost_or_doubled_and_nothing_is_left() {
    let world = World::start(BINARY, &["--lease-ttl-ms", "2000"]).await;
    let (_, token) = world.pair("laptop").await;
    let scene = Scene { world, token };
    for (number, (hop, safe)) in HOPS.into_iter().enumerate() {
        let sleep = format!("{}.{}", 700 + number, std::process::id());
        // Once it has its result the case needs no leave; before that it is to be found at work.
        if !matches!(hop, "started") {
            std::fs::write(scene.gate(hop), "").expect("gate");
        }
        let mut doomed = scene.world.runner_dying_at(&scene.token, &ARGS, hop);
        let run = scene.world.submit(scene.job(hop, &sleep)).await;
        let ended = doomed.wait_for_exit(STEP_LIMIT);
        assert!(
            ended.is_some(),
            "{hop}: the runner was to die there: {}",
            doomed.output()
        );
        let before = scene.started(hop);

        let mut again = scene.runner();
        std::fs::write(scene.gate(hop), "").expect("gate");
        let record = scene
            .world
            .run_is(&run, &["succeeded", "failed"], STEP_LIMIT)
            .await;
        assert_eq!(record["status"], "succeeded", "{hop}: {record}");
        if safe {
            assert_eq!(scene.started(hop), 1, "{hop}: the job ran a second time");
        } else {
            assert!(
                scene.started(hop) <= before + 1,
                "{hop}: {} starts",
                scene.started(hop)
            );
        }
        eventually(&format!("{hop}: nothing is left"), STEP_LIMIT, || async {
            (scene.left().is_empty() && process_ids(&["sleep", &sleep]).is_empty()).then_some(())
        })
        .await;
        again.signal(libc::SIGINT);
        assert!(
            again.wait_for_exit(STEP_LIMIT).is_some(),
            "{hop}: {}",
            again.output()
        );
        assert_eq!(scene.left(), Vec::<String>::new(), "{hop}");
    }
}

#[tokio::test]
async fn a_result_that_the_hub_was_away_for_is_delivered_by_the_next_start() {
    let mut world = World::start(BINARY, &["--lease-ttl-ms", "60000"]).await;
    let (_, token) = world.pair("laptop").await;
    let scene_gate = world.home().join("gate");
    let mut runner = world.runner(&token, &ARGS);
    let run = world
        .submit(json!({
            "harness": {"id": "h", "version": "1.0.0"},
            "harnessSpec": {"kind": "command", "id": "h", "version": "1.0.0",
                "command": format!("echo started >> '{0}.n'; while [ ! -e '{0}' ]; do sleep 0.05; done; echo finished", scene_gate.display())},
            "case": {"id": "away", "env": {"kind": "prompt"}, "task": "t",
                     "graders": [{"id": "steps"}], "timeoutSec": 120, "placement": {"target": "self"}},
        }))
        .await;
    let starts = world.home().join("gate.n");
    eventually("the job has started", STEP_LIMIT, || async {
        starts.exists().then_some(())
    })
    .await;
    world.hub.kill();
    std::fs::write(&scene_gate, "").expect("gate");
    let attempts = world.home().join("state/attempts");
    eventually("the result is in the journal", STEP_LIMIT, || async {
        let folder = std::fs::read_dir(&attempts).ok()?.flatten().next()?;
        let mut entries = std::fs::read_dir(folder.path()).ok()?.flatten();
        // Not the file that is still being written.
        let entry = entries.find(|entry| entry.path().extension().is_some_and(|ext| ext == "json"))?;
        std::fs::read_to_string(entry.path())
            .ok()?
            .contains("\"result\"")
            .then_some(())
    })
    .await;
    runner.kill();

    world.crash_and_restart_hub().await;
    let _again = world.runner(&token, &ARGS);
    let record = world.run_is(&run, &["succeeded", "failed"], STEP_LIMIT).await;
    assert_eq!(record["status"], "succeeded", "{record}");
    let count = std::fs::read_to_string(&starts).expect("starts").lines().count();
    assert_eq!(count, 1, "the job ran a second time");
}
