use std::time::{Duration, Instant};

use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{CommitContainerOptionsBuilder, RemoveImageOptionsBuilder};
use everdict_topology::readiness::{Blame, Probe, Ready, Wait, until_ready};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use crate::world::{FRONT_DOOR, World, harness, in_world};

/// Makes an image that runs `code` and ends.
async fn image(world: &World, name: &str, code: &str) -> String {
    let body = ContainerCreateBody {
        image: Some(FRONT_DOOR.to_owned()),
        ..Default::default()
    };
    let container = world.docker.create_container(None, body).await.unwrap().id;
    let config = ContainerConfig {
        entrypoint: Some(vec!["python3".to_owned(), "-c".to_owned(), code.to_owned()]),
        cmd: Some(Vec::new()),
        ..Default::default()
    };
    let repo = format!("everdict-test/{name}");
    let options = CommitContainerOptionsBuilder::default()
        .container(&container)
        .repo(&repo)
        .tag(&world.tag())
        .build();
    let committed = world.docker.commit_container(options, config).await;
    let _ = world.engine.remove_container(&container).await;
    committed.unwrap();
    format!("{repo}:{}", world.tag())
}

async fn remove(world: &World, image: &str) {
    let options = RemoveImageOptionsBuilder::default().force(true).build();
    let _ = world.docker.remove_image(image, Some(options), None).await;
}

fn migrating(image: &str) -> everdict_contracts::ServiceHarness {
    let image = image.to_owned();
    harness(move |spec| {
        spec["services"] = json!([
            {"name": "web", "image": FRONT_DOOR, "port": 8080, "needs": ["migrate"]},
            {"name": "migrate", "image": image}
        ]);
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_that_ends_well_lets_the_next_start_after_it() {
    in_world("one_shot_ends_well", |world| async move {
        let image = image(&world, "well", "import time; time.sleep(0.7); print('migrated')").await;
        let runtime = world.runtime().await;
        let spec = migrating(&image);
        let begin = Instant::now();
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await;
        let took = begin.elapsed();
        let lease = match lease {
            Ok(lease) => lease,
            Err(fault) => {
                remove(&world, &image).await;
                panic!("{fault}");
            }
        };
        let inspect = async |name: &str| {
            world
                .docker
                .inspect_container(lease.containers()[name], None)
                .await
                .unwrap()
                .state
                .unwrap()
        };
        let (migrate, web) = (inspect("migrate").await, inspect("web").await);
        // Found standing, though one of its containers has ended.
        let again = runtime.ensure_topology(&spec, &world.scope("r2")).await;
        let same = again.map(|again| again.containers() == lease.containers());
        drop(lease);
        runtime.shut_down().await;
        remove(&world, &image).await;
        assert_eq!(migrate.exit_code, Some(0));
        assert!(
            migrate.finished_at <= web.started_at,
            "{:?} {:?}",
            migrate.finished_at,
            web.started_at
        );
        assert!(same.unwrap());
        assert!(
            took < Duration::from_secs(8),
            "its end is seen when it comes: {took:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_that_fails_fails_the_case_at_once_with_its_log() {
    in_world("one_shot_fails", |world| async move {
        let image = image(&world, "badly", "print('no such table'); raise SystemExit(1)").await;
        let runtime = world.runtime().await;
        let spec = migrating(&image);
        let begin = Instant::now();
        let result = runtime.ensure_topology(&spec, &world.scope("r1")).await;
        let took = begin.elapsed();
        runtime.shut_down().await;
        remove(&world, &image).await;
        let fault = result.err().unwrap();
        assert!(
            fault.message.contains("service migrate") && fault.message.contains("exit code 1"),
            "{fault}"
        );
        assert!(fault.extra.log_tail.as_deref().unwrap().contains("no such table"));
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_without_a_newline_is_heard_when_it_is_printed() {
    in_world("text_without_newline", |world| async move {
        // What was written before the wait would only be seen with the end of its line.
        let code = "import sys, time; w = sys.stdout; time.sleep(3); w.write('getting rea'); w.flush(); \
                    time.sleep(0.3); w.write('dy'); w.flush(); time.sleep(600)";
        let image = image(&world, "printing", code).await;
        let body = ContainerCreateBody {
            image: Some(image.clone()),
            labels: Some(
                [(
                    everdict_topology::labels::INSTALL.to_owned(),
                    world.install.clone(),
                )]
                .into(),
            ),
            ..Default::default()
        };
        let id = world.docker.create_container(None, body).await.unwrap().id;
        world.engine.start_container(&id).await.unwrap();
        let cancel = tokio_util::sync::CancellationToken::new();
        let wait = Wait {
            engine: &world.engine,
            container: &id,
            what: "it",
            probe: &Probe::Output {
                text: "ready".to_owned(),
            },
            blame: Blame::Harness,
            may_finish: false,
            budget: Duration::from_secs(20),
            interval: Duration::from_secs(1),
            cancel: &cancel,
        };
        let heard = until_ready(&wait).await;
        world.engine.remove_container(&id).await.unwrap();
        remove(&world, &image).await;
        assert_eq!(heard.unwrap(), Ready::Up);
    })
    .await;
}
