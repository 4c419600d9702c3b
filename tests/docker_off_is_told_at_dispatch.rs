//! Promise: a runner without Docker is known as such, a service case for it is refused at dispatch with what is needed and
//! what there is, and Docker's coming and going is noticed within 30 s each.

use std::time::{Duration, Instant};

use everdict_acceptance::{Docker, World, eventually, service_run, skip};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_everdict-runner-under-test");

/// What the requirement allows for a change to be known.
const CHANGE_LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_service_case_is_refused_with_need_and_have() {
    let world = World::start(BINARY, &[]).await;
    world.topology_settings("endpoint = \"unix:///nonexistent/docker.sock\"");
    let (runner_id, token) = world.pair("laptop").await;
    let _runner = world.runner(&token, &[]);
    eventually("the hub has heard from the runner", CHANGE_LIMIT, || async {
        let roster = world.call(reqwest::Method::GET, "/runners", None).await.1;
        let row = roster["runners"]
            .as_array()?
            .iter()
            .find(|row| row["id"] == runner_id.as_str())?
            .clone();
        row["lastSeenAt"].is_string().then_some(())
    })
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
    // Short polls: each lease tells anew.
    let _runner = world.runner(&token, &["--wait-ms", "500"]);
    eventually("git is offered, docker isn't", CHANGE_LIMIT, || async {
        let words = world.capabilities(&runner_id).await;
        (!words.is_empty() && !words.contains(&"docker".to_owned())).then_some(())
    })
    .await;
    let relay = Relay::start(&socket, docker.socket());
    let begin = Instant::now();
    for (word, wanted) in [("docker", true), ("browser", true)] {
        eventually(&format!("{word} is offered"), CHANGE_LIMIT, || async {
            (world.capabilities(&runner_id).await.contains(&word.to_owned()) == wanted).then_some(())
        })
        .await;
    }
    println!("on after {} ms", begin.elapsed().as_millis());
    drop(relay);
    let begin = Instant::now();
    for word in ["docker", "browser"] {
        eventually(&format!("{word} is withdrawn"), CHANGE_LIMIT, || async {
            (!world.capabilities(&runner_id).await.contains(&word.to_owned())).then_some(())
        })
        .await;
    }
    println!("off after {} ms", begin.elapsed().as_millis());
}
