//! Promise: a runner without Docker is known as such, a service case for it is refused at dispatch with what is needed and
//! what there is, and Docker's coming and going is noticed within 30 s each.

use std::time::{Duration, Instant};

use everdict_acceptance::{Docker, World, eventually, service_run, skip};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

/// What the requirement allows for a change to be known.
const CHANGE_LIMIT: Duration = Duration::from_secs(30);
/// What it allows for Docker's absence to be known at the start.
const OFF_AT_START_LIMIT: Duration = Duration::from_secs(5);
/// A hub decides about a run it got at once; this is for a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_service_case_is_refused_with_need_and_have() {
    let world = World::start(BINARY, &[]).await;
    world.topology_settings("endpoint = \"unix:///nonexistent/docker.sock\"");
    let (runner_id, token) = world.pair("laptop").await;
    let _runner = world.runner(&token, &[]);
    eventually(
        "the hub has heard from the runner",
        OFF_AT_START_LIMIT,
        || async { world.has_called(&runner_id).await.then_some(()) },
    )
    .await;
    assert!(
        !world
            .capabilities(&runner_id)
            .await
            .contains(&"docker".to_owned())
    );

    let run = world
        .submit(service_run("pinned", &format!("self:{runner_id}")))
        .await;
    let record = world.run_is(&run, &["failed"], CHANGE_LIMIT).await;
    let error = &record["error"];
    assert_eq!(error["code"], "BAD_REQUEST", "{record}");
    let words = error["message"].as_str().unwrap_or_default();
    assert!(
        words.contains("has no docker") && words.contains("it has: git"),
        "need and have: {record}"
    );
    let result = &record["result"];
    assert_eq!(result["failure"]["class"], "config", "{record}");
    assert_eq!(result["failure"]["retryable"], false, "{record}");
    let scores = result["scores"].as_array().expect("scores");
    assert!(
        scores.iter().all(|score| score["status"] == "unmeasured"),
        "nothing was run, let alone scored: {record}"
    );

    let run = world.submit(service_run("pooled", "self")).await;
    let record = world.run_is(&run, &["failed"], CHANGE_LIMIT).await;
    assert_eq!(record["error"]["code"], "BAD_REQUEST", "{record}");
    let words = record["error"]["message"].as_str().unwrap_or_default();
    assert!(
        words.contains("docker") && words.contains("they have: git"),
        "need and have: {record}"
    );
}

/// Stands before the daemon; dropping it cuts every connection, as a daemon that goes away does.
struct Relay {
    _serving: JoinSet<()>,
}

impl Relay {
    fn start(at: &std::path::Path, daemon: &std::path::Path) -> Self {
        let _ = std::fs::remove_file(at);
        let listener = UnixListener::bind(at).expect("a socket");
        let daemon = daemon.to_owned();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let daemon = daemon.clone();
                connections.spawn(async move {
                    if let Ok(mut server) = UnixStream::connect(daemon).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { _serving: serving }
    }
}

#[tokio::test]
async fn docker_is_offered_when_it_comes_and_withdrawn_when_it_goes() {
    let docker = match Docker::find().await {
        Ok(docker) => docker,
        Err(why) => return skip("docker_comes_and_goes", &why),
    };
    let world = World::start(BINARY, &[]).await;
    let socket = world.home().join("d.sock");
    world.topology_settings(&format!("endpoint = \"unix://{}\"", socket.display()));
    let (runner_id, token) = world.pair("laptop").await;
    // Polls of the default length: what changes must not wait for the end of one.
    let _runner = world.runner(&token, &[]);
    eventually(
        "the runner has said what it offers",
        OFF_AT_START_LIMIT,
        || async { world.has_called(&runner_id).await.then_some(()) },
    )
    .await;
    assert!(
        !world
            .capabilities(&runner_id)
            .await
            .contains(&"docker".to_owned())
    );
    refused_at_dispatch(&world, &runner_id).await;
    let relay = Relay::start(&socket, docker.socket());
    let begin = Instant::now();
    for (word, wanted) in [("docker", true), ("browser", true)] {
        eventually(&format!("{word} is offered"), CHANGE_LIMIT, || async {
            (world.capabilities(&runner_id).await.contains(&word.to_owned()) == wanted).then_some(())
        })
        .await;
    }
    println!("on after {} ms", begin.elapsed().as_millis());
    taken_at_dispatch(&world, &runner_id).await;
    drop(relay);
    let begin = Instant::now();
    for word in ["docker", "browser"] {
        eventually(&format!("{word} is withdrawn"), CHANGE_LIMIT, || async {
            (!world.capabilities(&runner_id).await.contains(&word.to_owned())).then_some(())
        })
        .await;
    }
    println!("off after {} ms", begin.elapsed().as_millis());
    refused_at_dispatch(&world, &runner_id).await;
}

/// The hub refuses a service case for this runner, in the runner's words of the moment.
async fn refused_at_dispatch(world: &World, runner_id: &str) {
    let run = world
        .submit(service_run("refused", &format!("self:{runner_id}")))
        .await;
    let record = world.run_is(&run, &["failed"], ANSWER_LIMIT).await;
    let words = record["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("has no docker"), "{record}");
}

/// The hub hands a service case to this runner, which may fail for all this test cares: its poll is up.
async fn taken_at_dispatch(world: &World, runner_id: &str) {
    let run = world
        .submit(service_run("taken", &format!("self:{runner_id}")))
        .await;
    let record = world
        .run_is(&run, &["running", "succeeded", "failed"], ANSWER_LIMIT)
        .await;
    assert_ne!(record["error"]["code"], "BAD_REQUEST", "{record}");
    let cancel = format!("/runs/{run}/cancel");
    let _ = world.call(reqwest::Method::POST, &cancel, None).await;
    world.run_is(&run, &["succeeded", "failed"], CHANGE_LIMIT).await;
}
