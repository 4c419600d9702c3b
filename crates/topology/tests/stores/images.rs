use everdict_contracts::ErrorCode;
use everdict_topology::discovery::{System, discover};
use everdict_topology::images::{ImageOptions, Images, PullWatcher};
use everdict_topology::plan::ImageNeed;
use tokio_util::sync::CancellationToken;

use crate::world::{DAEMON, connect, skip};

fn need(image: &str) -> ImageNeed {
    ImageNeed {
        image: image.to_owned(),
        path: "harnessSpec.services[0].image".to_owned(),
    }
}

#[tokio::test]
async fn an_image_of_this_machine_is_taken_as_it_is_and_never_becomes_ours() {
    const TEST: &str = "an_image_of_this_machine";
    let Some((engine, docker)) = connect(TEST).await else {
        return;
    };
    if docker.inspect_image("redis:7-alpine").await.is_err() {
        skip(TEST, "image redis:7-alpine isn't there");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let images = Images::new(ImageOptions {
        state_dir: folder.path().to_owned(),
        budget_bytes: Some(0),
        refresh_after: Some(std::time::Duration::ZERO),
        emulates: false,
    });
    let (lines, cancel) = (|_: &str| (), CancellationToken::new());
    let watcher = PullWatcher {
        lines: &lines,
        cancel: &cancel,
    };
    let found = images
        .ensure(&engine, &need("redis:7-alpine"), &[], watcher)
        .await
        .unwrap();
    assert!(!found.pulled);
    assert!(found.id.starts_with("sha256:"), "{found:?}");
    assert!(images.usage(&engine).await.unwrap().ours.is_empty());
    assert!(
        images.trim(&engine).await.unwrap().removed.is_empty(),
        "the budget is the runner's own"
    );
    assert!(docker.inspect_image("redis:7-alpine").await.is_ok());
}

#[tokio::test]
async fn a_registry_that_does_not_exist_is_the_machines_trouble_and_named() {
    let Some((engine, _)) = connect("a_registry_that_does_not_exist").await else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let images = Images::new(ImageOptions {
        state_dir: folder.path().to_owned(),
        budget_bytes: None,
        refresh_after: None,
        emulates: false,
    });
    // A port of the loopback at which nobody listens: no name has to be resolved, and nothing leaves the machine.
    let image = need("127.0.0.1:9/nobody/here:1");
    let (lines, cancel) = (|_: &str| (), CancellationToken::new());
    let fault = images
        .ensure(
            &engine,
            &image,
            &[],
            PullWatcher {
                lines: &lines,
                cancel: &cancel,
            },
        )
        .await
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::UpstreamError, "{fault}");
    assert!(fault.failure().retryable);
    assert!(
        fault
            .message
            .contains("`127.0.0.1:9/nobody/here:1` can't be pulled, the registry doesn't answer"),
        "{fault}"
    );
}

#[tokio::test]
async fn the_daemon_of_this_machine_is_discovered() {
    if connect("the_daemon_of_this_machine_is_discovered")
        .await
        .is_none()
    {
        return;
    }
    let found = discover(&System::new(|_: &str| None)).await;
    let taken = found.taken().expect("the daemon answers");
    assert_eq!(taken.address, DAEMON);
    assert!(found.engine.is_some());
    assert!(
        taken
            .to_string()
            .starts_with("Docker (unix:///var/run/docker.sock): answers, "),
        "{taken}"
    );
}
