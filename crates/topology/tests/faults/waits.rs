//! Waits for a text, and for the end of a member in the middle of a case.

use std::time::Duration;

use bollard::models::ContainerCreateBody;
use everdict_contracts::{FailureClass, SIGNAL_OOM};
use everdict_testkit::fake_engine::{Behaviour, FakeImage};
use everdict_topology::readiness::{Blame, NotReady, Probe, Ready, Wait, until_ready};
use everdict_topology::runtime::TopologyRuntime as _;
use tokio_util::sync::CancellationToken;

use crate::world::{SOON, WEB, World, full_harness, harness, timed};

const TEXT: &str = "ready to accept connections";

/// Starts a container of `image` and waits for [`TEXT`].
async fn wait_for_text(
    world: &World,
    image: FakeImage,
    budget: Duration,
) -> (Result<Ready, NotReady>, Duration) {
    world.fake.load(image);
    let docker = bollard::Docker::connect_with_unix(&world.fake.address(), 60, bollard::API_DEFAULT_VERSION);
    let docker = docker.unwrap().negotiate_version().await.unwrap();
    let body = ContainerCreateBody {
        image: Some(WEB.to_owned()),
        ..Default::default()
    };
    let id = docker.create_container(None, body).await.unwrap().id;
    let engine = world.engine().await;
    engine.start_container(&id).await.unwrap();
    let cancel = CancellationToken::new();
    let probe = Probe::Output {
        text: TEXT.to_owned(),
    };
    let wait = Wait {
        engine: &engine,
        container: &id,
        what: "service web",
        probe: &probe,
        blame: Blame::Harness,
        may_finish: false,
        budget,
        interval: Duration::from_secs(1),
        cancel: &cancel,
    };
    timed(until_ready(&wait)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_line_in_two_frames_and_without_an_end_is_heard() {
    let world = World::without_images();
    let image = FakeImage::new(WEB, Behaviour::Deaf)
        .line("starting")
        .piece(Duration::from_millis(100), "ready to acc")
        .piece(Duration::from_millis(300), "ept connections");
    let (ready, took) = wait_for_text(&world, image, SOON).await;
    assert_eq!(ready.unwrap(), Ready::Up);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_never_comes_is_named_when_time_is_over() {
    let world = World::without_images();
    let image = FakeImage::new(WEB, Behaviour::Deaf)
        .line("ready to accept")
        .line("connections");
    let (ready, _) = wait_for_text(&world, image, Duration::from_millis(500)).await;
    let failure = ready.unwrap_err().into_fault().failure();
    assert!(failure.message.contains(TEXT), "{}", failure.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_ends_in_mid_case_is_told_at_once_with_its_reason() {
    for (member, oom, class) in [
        ("web", false, FailureClass::Harness),
        ("postgres", true, FailureClass::Infra),
    ] {
        let world = World::new();
        let runtime = world.runtime().await;
        let lease = runtime
            .ensure_topology(&full_harness(), &world.scope("r1"))
            .await
            .unwrap();
        let name = world
            .fake
            .running()
            .into_iter()
            .find(|name| name.ends_with(member))
            .unwrap();
        let members = lease.containers().len();
        world
            .fake
            .until("the deployment waits no more", SOON, |fake| fake.waiting() == 0)
            .await;
        let end = async {
            world
                .fake
                .until("it watches", SOON, |fake| fake.waiting() == members)
                .await;
            world.fake.end_container(&name, if oom { 137 } else { 5 }, oom);
        };
        let (fault, ()) = tokio::join!(runtime.broken(&lease), end);
        let failure = fault.failure();
        assert_eq!(failure.class, class, "{failure:?}");
        assert!(failure.message.contains(member), "{}", failure.message);
        assert_eq!(failure.code == SIGNAL_OOM, oom, "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_restarts_in_mid_case_is_never_the_harness_fault() {
    for politely in [true, false] {
        let world = World::new();
        let runtime = world.runtime().await;
        let lease = runtime
            .ensure_topology(&harness(|_| {}), &world.scope("r1"))
            .await
            .unwrap();
        world
            .fake
            .until("the deployment waits no more", SOON, |fake| fake.waiting() == 0)
            .await;
        let restart = async {
            world
                .fake
                .until("it watches", SOON, |fake| fake.waiting() == 1)
                .await;
            if politely {
                world.fake.stop_containers();
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            world.fake.restart();
        };
        let (fault, ()) = tokio::join!(runtime.broken(&lease), restart);
        let failure = fault.failure();
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Infra, true),
            "{politely} {failure:?}"
        );
    }
}
