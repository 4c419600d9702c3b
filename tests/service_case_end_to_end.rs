//! Promise: a case on services, stores and a browser runs on the member's own Docker daemon, is graded by what it left,
//! finds the topology warm the second time, and leaves nothing when the runner ends.

use std::time::{Duration, Instant};

use everdict_acceptance::{Docker, World, service_run, skip};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

/// A cold deployment with a browser takes some seconds; a machine under load many times that.
const RUN_LIMIT: Duration = Duration::from_secs(150);

async fn run(world: &World, case: &str, target: &str) -> (Value, String, Duration) {
    let begin = Instant::now();
    let id = world.submit(service_run(case, target)).await;
    let record = world.run_is(&id, &["succeeded", "failed"], RUN_LIMIT).await;
    assert_eq!(record["status"], "succeeded", "{record}");
    (record["result"].clone(), world.log(&id).await, begin.elapsed())
}

fn passes(result: &Value) {
    for grader in ["url-matches", "dom-contains", "store-state"] {
        let scores = result["scores"].as_array().expect("scores");
        let score = scores
            .iter()
            .find(|score| score["graderId"] == grader)
            .expect("a score each");
        assert_eq!(score["pass"], json!(true), "{score}");
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "one story from submit to the last container"
)]
#[tokio::test]
async fn a_service_case_is_graded_warm_the_second_time_and_leaves_nothing() {
    let docker = match Docker::find().await {
        Ok(docker) => docker,
        Err(why) => return skip("service_case_end_to_end", &why),
    };
    let world = World::start(BINARY, &[]).await;
    world.docker_settings();
    let (runner_id, token) = world.pair("laptop").await;
    let mut runner = world.runner(&token, &[]);
    world.takes_containers(&runner_id).await;
    let ours = world.install_label();
    let target = format!("self:{runner_id}");

    let (result, log, cold) = run(&world, "first", &target).await;
    passes(&result);
    assert!(log.contains("deploying acme/shop@1.0.0"), "{log}");
    assert_eq!(
        result["execution"]["runtime"], "docker",
        "{}",
        result["execution"]
    );
    let snapshot = &result["snapshot"];
    assert_eq!(snapshot["kind"], "browser", "{snapshot}");
    assert!(
        snapshot["dom"]
            .as_str()
            .is_some_and(|dom| dom.contains("done: serve first")),
        "{snapshot}"
    );
    let errors: Vec<&Value> = result["trace"]
        .as_array()
        .expect("trace")
        .iter()
        .filter(|event| event["kind"] == "error")
        .collect();
    assert_eq!(
        errors.len(),
        1,
        "the dead trace backend costs one event: {errors:?}"
    );

    let standing = docker.containers(&ours).await;
    assert_eq!(
        standing.len(),
        3,
        "two stores and a service, no browser: {standing:?}"
    );
    let ids = |rows: &[Value]| rows.iter().map(|row| row["Id"].to_string()).collect::<Vec<_>>();
    for row in &standing {
        for port in row["Ports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|port| !port["IP"].is_null())
        {
            assert_eq!(port["IP"], "127.0.0.1", "{row}");
        }
    }
    let volumes = docker.anonymous_volumes(&ours).await;

    let (result, log, warm) = run(&world, "second", &target).await;
    passes(&result);
    assert!(!log.contains("deploying"), "{log}");
    assert_eq!(
        ids(&docker.containers(&ours).await),
        ids(&standing),
        "the same containers serve the second case"
    );
    println!("cold {} ms, warm {} ms", cold.as_millis(), warm.as_millis());

    runner.signal(libc::SIGTERM);
    let exit = runner
        .wait_for_exit(Duration::from_secs(60))
        .expect("the runner ends");
    assert_eq!(exit.code(), Some(0), "{}", runner.output());
    assert_eq!(docker.labelled(&ours).await, []);
    for volume in volumes {
        assert!(
            !docker.has_volume(&volume).await,
            "the anonymous volume {volume} stays"
        );
    }
}

#[tokio::test]
async fn two_runners_of_one_machine_share_one_topology() {
    let docker = match Docker::find().await {
        Ok(docker) => docker,
        Err(why) => return skip("two_runners_share_one_topology", &why),
    };
    let world = World::start(BINARY, &[]).await;
    world.docker_settings();
    let (first_id, first_token) = world.pair("one").await;
    let (second_id, second_token) = world.pair("two").await;
    let mut first = world.runner(&first_token, &[]);
    let mut second = world.runner(&second_token, &[]);
    world.takes_containers(&first_id).await;
    world.takes_containers(&second_id).await;
    let ours = world.install_label();

    run(&world, "first", &format!("self:{first_id}")).await;
    let standing = docker.containers(&ours).await.len();
    let (result, log, _) = run(&world, "second", &format!("self:{second_id}")).await;
    passes(&result);
    assert!(!log.contains("deploying"), "{log}");
    assert_eq!(
        docker.containers(&ours).await.len(),
        standing,
        "adopted, not deployed again"
    );

    for runner in [&mut first, &mut second] {
        runner.signal(libc::SIGTERM);
        let exit = runner
            .wait_for_exit(Duration::from_secs(60))
            .expect("the runner ends");
        assert_eq!(exit.code(), Some(0), "{}", runner.output());
    }
    assert_eq!(docker.labelled(&ours).await, []);
}
