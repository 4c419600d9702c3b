//! Containers of cases: whoever the image's user is, and whatever becomes of the process that made them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{CommitContainerOptionsBuilder, RemoveImageOptionsBuilder};
use everdict_contracts::{ErrorCode, EvalCase, decode};
use everdict_topology::case_container::{
    CaseContainer, CaseContainers, CaseExec, CaseExit, CaseSpec, CaseStream,
};
use everdict_topology::images::{ImageOptions, Images};
use everdict_topology::labels::{INSTALL, Owner};
use everdict_topology::process::this_owner;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{World, in_world};

pub const REDIS: &str = "redis:7-alpine";
const POSTGRES: &str = "postgres:16-alpine";

pub fn images(world: &World) -> Arc<Images> {
    Arc::new(Images::new(ImageOptions {
        state_dir: world.state.path().join("images"),
        budget_bytes: None,
        refresh_after: None,
        emulates: false,
    }))
}

pub fn containers(world: &World, owner: Owner) -> CaseContainers {
    CaseContainers::new(world.engine.clone(), images(world), owner)
}

pub async fn start(world: &World, image: &str) -> CaseContainer {
    let containers = containers(world, this_owner(world.install.clone(), "runner"));
    containers.start(&spec(image), &world.scope("r1")).await.unwrap()
}

fn spec(image: &str) -> CaseSpec {
    let case = json!({"id": "c", "env": {"kind": "prompt"}, "task": "t", "graders": [], "image": image});
    CaseSpec::of_case(&decode::<EvalCase>(case).unwrap())
        .unwrap()
        .unwrap()
}

pub fn line<'a>(command: &'a str, cwd: &'a str) -> CaseExec<'a> {
    CaseExec {
        command,
        cwd,
        env: Vec::new(),
        stdin: None,
        timeout: Duration::from_secs(60),
    }
}

/// Runs a command and gives out what it printed on its first stream.
pub async fn said(container: &CaseContainer, exec: CaseExec<'_>) -> (CaseExit, String) {
    let mut bytes = Vec::new();
    let mut sink = |stream, piece: &[u8]| {
        if stream == CaseStream::Stdout {
            bytes.extend_from_slice(piece);
        }
    };
    let mut exec = exec;
    exec.env.extend(container.env().iter().cloned());
    let exit = container
        .exec(exec, &mut sink, &CancellationToken::new())
        .await
        .unwrap();
    (exit, String::from_utf8(bytes).unwrap().trim().to_owned())
}

/// An image like `REDIS` whose user is somebody that the image doesn't know.
async fn non_root_image(world: &World) -> String {
    let body = ContainerCreateBody {
        image: Some(REDIS.to_owned()),
        labels: Some([(INSTALL.to_owned(), world.install.clone())].into()),
        ..Default::default()
    };
    let container = world.docker.create_container(None, body).await.unwrap().id;
    let config = ContainerConfig {
        user: Some("4711:42".to_owned()),
        ..Default::default()
    };
    let options = CommitContainerOptionsBuilder::default()
        .container(&container)
        .repo("everdict-test/non-root")
        .tag(&world.tag())
        .build();
    let committed = world.docker.commit_container(options, config).await;
    world.engine.remove_container(&container).await.unwrap();
    committed.unwrap();
    format!("everdict-test/non-root:{}", world.tag())
}

#[tokio::test(flavor = "multi_thread")]
async fn non_root_image_works() {
    in_world("non_root_image_works", |world| async move {
        let image = non_root_image(&world).await;
        let container = start(&world, &image).await;
        let (exit, text) = said(
            &container,
            line("id -u; id -g; pwd; touch f \"$HOME/g\" && ls -n f", "work"),
        )
        .await;
        assert_eq!(exit.code, 0, "{text}");
        assert!(text.starts_with("4711\n42\n/everdict/work\n"), "{text}");

        // Files that come from the host are that user's too, and so is what comes back.
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("seed"), "one\n").unwrap();
        let wanted = CancellationToken::new();
        container.upload(from.path(), "work", &wanted).await.unwrap();
        let (exit, text) = said(&container, line("echo two >> seed; cat seed", "work")).await;
        assert_eq!((exit.code, text.as_str()), (0, "one\ntwo"));
        container.download("work", to.path(), &wanted).await.unwrap();
        assert_eq!(
            std::fs::read_to_string(to.path().join("seed")).unwrap(),
            "one\ntwo\n"
        );
        assert_eq!(
            container.read_file("work/seed", 3).await.unwrap().unwrap().bytes,
            b"one"
        );
        assert!(container.read_file("work/none", 3).await.unwrap().is_none());

        // A process of that user ends like any other.
        let mut hanging = line("trap '' TERM; sleep 300 & echo up; wait; sleep 300", "work");
        hanging.timeout = Duration::from_secs(1);
        let began = Instant::now();
        let (exit, text) = said(&container, hanging).await;
        // Longer means that it took a new start of the container.
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(exit.timed_out && exit.killed_after_grace, "{exit:?}");
        assert_eq!(text, "up");
        let (_, text) = said(&container, line("cat /proc/[0-9]*/comm", "/")).await;
        assert!(!text.contains("sleep"), "{text}");

        assert_eq!(container.remove().await, None);
        let options = RemoveImageOptionsBuilder::default().force(true).build();
        world
            .docker
            .remove_image(&image, Some(options), None)
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_nobody_waits_for_is_gone_when_the_next_one_starts() {
    in_world("a_command_that_nobody_waits_for", |world| async move {
        let container = start(&world, REDIS).await;
        let forgotten = said(&container, line("touch up; sleep 300", "work"));
        assert!(
            tokio::time::timeout(Duration::from_millis(800), forgotten)
                .await
                .is_err()
        );
        let (_, text) = said(
            &container,
            line("ls; cat /proc/[0-9]*/comm | grep -c sleep", "work"),
        )
        .await;
        assert_eq!(text, "up\n0");
        container.remove().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_its_own_container_is_no_result() {
    in_world("an_agent_that_ends_its_own_container", |world| async move {
        let container = start(&world, REDIS).await;
        let command = "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -9 $p; done; sleep 300";
        let outcome = container
            .exec(line(command, "work"), &mut |_, _| (), &CancellationToken::new())
            .await;
        let fault = outcome.unwrap_err();
        assert_eq!(fault.code, ErrorCode::DriverProvisionFailed, "{fault}");
        assert!(fault.message.contains(container.name()), "{fault}");
        container.remove().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_anonymous_volumes_of_an_image_go_with_its_container() {
    in_world("the_anonymous_volumes_of_an_image", |world| async move {
        let container = start(&world, POSTGRES).await;
        let volumes = world.mounted_volumes().await;
        assert!(!volumes.is_empty(), "the image declares a volume");
        assert_eq!(container.remove().await, None);
        let there = world.volume_names().await;
        assert!(
            volumes.iter().all(|volume| !there.contains(volume)),
            "{volumes:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_container_of_a_killed_runner_is_swept() {
    in_world("the_container_of_a_killed_runner", |world| async move {
        let mut dead = this_owner(world.install.clone(), "runner");
        dead.start = "1".to_owned();
        let lost = containers(&world, dead)
            .start(&spec(REDIS), &world.scope("r1"))
            .await
            .unwrap();
        let kept = start(&world, REDIS).await;
        // As a process does that is killed: without a word.
        let name = lost.name().to_owned();
        std::mem::forget(lost);
        let report = world.runtime().await.sweep().await;
        assert_eq!(report.removed.len(), 1, "{:?}", report.removed);
        assert!(
            report.removed[0].to_string().contains(&name),
            "{:?}",
            report.removed
        );
        assert_eq!(world.ours().await, [kept.name().to_owned()]);
        kept.remove().await;
    })
    .await;
}
