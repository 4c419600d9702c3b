//! Promise: whenever a runner is killed without warning, nothing of it is left on Docker 15 s later, and nothing else is
//! touched.

use std::time::{Duration, Instant};

use everdict_acceptance::{
    Bystanders, Child, Docker, World, eventually, process_ids, service_run, setting, skip,
};
use serde_json::json;
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

/// How long what a killed runner has made may be there.
const LIMIT: Duration = Duration::from_secs(15);

/// A case reaches its next step within seconds; a machine under load takes many times that.
const STEP_LIMIT: Duration = Duration::from_secs(90);

/// Kills happen at another moment of the step each round.
const ROUNDS: u32 = 2;

#[derive(Debug, Clone, Copy)]
enum Moment {
    Deploy,
    Drive,
    Teardown,
}

struct Scene {
    world: World,
    docker: Docker,
    runner_id: String,
    token: String,
}

impl Scene {
    async fn set(docker: Docker) -> Self {
        let world = World::start(BINARY, &[]).await;
        world.docker_settings();
        let (runner_id, token) = world.pair("laptop").await;
        Self {
            world,
            docker,
            runner_id,
            token,
        }
    }

    async fn start(&self) -> Child {
        let runner = self.world.runner(&self.token, &["--wait-ms", "1000"]);
        self.world.takes_containers(&self.runner_id).await;
        runner
    }

    async fn submit(&self, case: &str) -> String {
        self.world
            .submit(service_run(case, &format!("self:{}", self.runner_id)))
            .await
    }

    async fn log_says(&self, run: &str, words: &str) {
        eventually(&format!("the log says {words}"), STEP_LIMIT, || async {
            self.world.log(run).await.contains(words).then_some(())
        })
        .await;
    }

    /// Brings a runner to the moment, and kills it some time into it. Returns how much it had on the daemon.
    async fn kill_at(&self, moment: Moment, round: u32) -> usize {
        let ours = self.world.install_label();
        let mut runner = self.start().await;
        let run = self.submit(&format!("{moment:?}-{round}").to_lowercase()).await;
        match moment {
            Moment::Deploy => self.log_says(&run, "deploying").await,
            Moment::Drive => self.log_says(&run, "the case goes to").await,
            Moment::Teardown => {
                self.world.run_is(&run, &["succeeded"], STEP_LIMIT).await;
                runner.signal(libc::SIGINT);
            }
        }
        // A deployment takes about two seconds, a drive half a second, a teardown about as long.
        let step = match moment {
            Moment::Deploy => 97,
            Moment::Drive => 19,
            Moment::Teardown => 29,
        };
        wait_until(Instant::now() + Duration::from_millis(u64::from(step * (round % 20)))).await;
        let had = self.docker.labelled(&ours).await.len();
        runner.kill();
        self.world
            .call(reqwest::Method::POST, &format!("/runs/{run}/cancel"), None)
            .await;
        had
    }

    async fn nothing_is_left(&self) -> Duration {
        let (ours, begin) = (self.world.install_label(), Instant::now());
        loop {
            let left = self.docker.labelled(&ours).await;
            if left.is_empty() {
                return begin.elapsed();
            }
            let watchdog = std::fs::read_to_string(self.world.home().join("state/watchdog.log"));
            assert!(
                begin.elapsed() < LIMIT,
                "left of the killed runner: {left:?}; watchdog: {watchdog:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn wait_until(moment: Instant) {
    eventually("the moment comes", STEP_LIMIT, || async {
        (Instant::now() >= moment).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_runner_killed_at_any_moment_leaves_nothing() {
    let docker = match Docker::find().await {
        Ok(docker) => docker,
        Err(why) => return skip("kill_nine_leaves_nothing", &why),
    };
    let rounds: u32 = setting("EVERDICT_KILL_ROUNDS")
        .and_then(|text| text.parse().ok())
        .unwrap_or(ROUNDS);
    let tag = format!("kill-{}", std::process::id());
    let bystanders = Bystanders::make(&docker, &tag).await;
    let scene = Scene::set(docker).await;
    // A task, so that the bystanders go however it ends.
    let mut playing = JoinSet::new();
    playing.spawn(async move {
        // The first start makes the installation.
        drop(scene.start().await);
        let mut slowest = Duration::ZERO;
        let mut caught = [0; 3];
        for round in 0..rounds {
            for (index, moment) in [Moment::Deploy, Moment::Drive, Moment::Teardown]
                .into_iter()
                .enumerate()
            {
                let had = scene.kill_at(moment, round).await;
                let took = scene.nothing_is_left().await;
                bystanders.are_untouched(&scene.docker).await;
                caught[index] += had;
                slowest = slowest.max(took);
                println!(
                    "round {round}, {moment:?}: {had} objects, gone after {} ms",
                    took.as_millis()
                );
            }
        }
        println!(
            "{rounds} rounds: slowest {} ms; objects caught {caught:?}",
            slowest.as_millis()
        );
        assert!(
            caught.iter().all(|count| *count > 0),
            "the kills came in the middle: {caught:?}"
        );
    });
    let played = playing.join_next().await.expect("one task");
    let docker = Docker::find().await.expect("the daemon");
    Bystanders::remove(&docker, &tag).await;
    if let Err(error) = played {
        std::panic::resume_unwind(error.into_panic());
    }
}

#[tokio::test]
async fn with_its_watchdog_killed_too_the_next_start_sweeps() {
    let docker = match Docker::find().await {
        Ok(docker) => docker,
        Err(why) => return skip("the_next_start_sweeps", &why),
    };
    let scene = Scene::set(docker).await;
    let mut runner = scene.start().await;
    let run = scene.submit("lost").await;
    scene.log_says(&run, "the case goes to").await;
    let ours = scene.world.install_label();
    let install = ours.split_once('=').expect("a label").1;
    let watchdogs: Vec<i32> = process_ids(&["__watchdog", install]);
    assert_eq!(watchdogs.len(), 1, "one watchdog per runner");
    for watchdog in watchdogs {
        // SAFETY: plain kill(2) on the process that the runner under test has just started for this world.
        unsafe { libc::kill(watchdog, libc::SIGKILL) };
    }
    runner.kill();
    scene
        .world
        .call(reqwest::Method::POST, &format!("/runs/{run}/cancel"), None)
        .await;
    assert!(
        !scene.docker.labelled(&ours).await.is_empty(),
        "nobody is there to sweep"
    );
    let _next = scene.world.runner(&scene.token, &[]);
    scene.nothing_is_left().await;
}

#[tokio::test]
async fn a_runner_that_ends_sends_its_watchdog_home() {
    let docker = match Docker::find().await {
        Ok(docker) => docker,
        Err(why) => return skip("the_watchdog_goes_home", &why),
    };
    let scene = Scene::set(docker).await;
    let mut runner = scene.start().await;
    let ours = scene.world.install_label();
    let install = ours.split_once('=').expect("a label").1.to_owned();
    assert!(
        process_ids(&["__watchdog", &install]).is_empty(),
        "nothing to watch over yet"
    );
    let run = scene.submit("home").await;
    scene.world.run_is(&run, &["succeeded"], STEP_LIMIT).await;
    assert_eq!(process_ids(&["__watchdog", &install]).len(), 1);
    runner.signal(libc::SIGINT);
    assert!(runner.wait_for_exit(Duration::from_secs(60)).is_some());
    eventually("the watchdog is gone", LIMIT, || async {
        process_ids(&["__watchdog", &install]).is_empty().then_some(())
    })
    .await;
    assert_eq!(scene.docker.labelled(&ours).await, []);
}

#[tokio::test]
async fn gc_keeps_what_is_in_use_and_removes_what_is_lost() {
    let docker = match Docker::find().await {
        Ok(docker) => docker,
        Err(why) => return skip("gc_on_a_daemon", &why),
    };
    let scene = Scene::set(docker).await;
    let mut runner = scene.start().await;
    let run = scene.submit("gc").await;
    scene.world.run_is(&run, &["succeeded"], STEP_LIMIT).await;
    let ours = scene.world.install_label();
    let install = ours.split_once('=').expect("a label").1;

    let report = scene.world.command(&["gc", "--json"]);
    assert_eq!(
        report["endpoint"]["address"],
        format!("unix://{}", scene.docker.socket().display()),
        "{report}"
    );
    assert_eq!(report["removed"], json!([]), "{report}");
    let kept = report["ours"]["kept"].as_array().expect("a list");
    assert_eq!(kept.len(), 4, "two stores, a service, a network: {report}");
    assert!(
        kept.iter().all(|item| item["why"] == "its runner is alive"),
        "{report}"
    );

    for watchdog in process_ids(&["__watchdog", install]) {
        // SAFETY: plain kill(2) on the process that the runner under test has just started for this world.
        unsafe { libc::kill(watchdog, libc::SIGKILL) };
    }
    runner.kill();
    let before = scene.docker.labelled(&ours).await;
    let planned = scene.world.command(&["gc", "--dry-run", "--json"]);
    assert_eq!(planned["removed"].as_array().map(Vec::len), Some(4), "{planned}");
    assert_eq!(
        scene.docker.labelled(&ours).await,
        before,
        "a dry run touches nothing"
    );
    let doctor = scene.world.command(&["doctor", "--json"]);
    assert_eq!(
        doctor["containers"]["ours"]["lost"], planned["removed"],
        "{doctor}"
    );
    let done = scene.world.command(&["gc", "--json"]);
    assert_eq!(
        (done["removed"].as_array().map(Vec::len), &done["left"]),
        (Some(4), &json!([])),
        "{done}"
    );
    assert_eq!(scene.docker.labelled(&ours).await, []);
}
