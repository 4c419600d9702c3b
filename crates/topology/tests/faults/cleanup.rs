//! Nothing is left, and what resists is named and paid for later.

use std::time::Duration;

use everdict_contracts::ErrorCode;
use everdict_testkit::fake_engine::{Behaviour, FakeImage, Fault, Op, Times};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use crate::world::{SOON, WEB, World, full_harness, harness};

/// An image whose `VOLUME` needs an anonymous volume.
fn with_volume(behaviour: Behaviour) -> FakeImage {
    FakeImage::new(WEB, behaviour).volume("/data")
}

fn quick() -> everdict_contracts::ServiceHarness {
    harness(|spec| spec["services"][0]["readiness"] = json!({"timeoutMs": 500, "intervalMs": 100}))
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_an_image_go_with_the_container_when_the_job_ends_normally() {
    let world = World::without_images();
    world.fake.load(with_volume(Behaviour::Http {
        status: 200,
        after: Duration::ZERO,
    }));
    let runtime = world.runtime().await;
    let lease = runtime
        .ensure_topology(&quick(), &world.scope("r1"))
        .await
        .unwrap();
    assert_eq!(world.fake.volumes().len(), 1);
    lease.release();
    runtime.shut_down().await;
    assert_eq!(world.fake.volumes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_an_image_go_with_the_container_when_the_job_is_cancelled() {
    let world = World::without_images();
    world.fake.load(with_volume(Behaviour::Deaf));
    let runtime = world.runtime().await;
    let scope = world.scope("r1");
    let spec = harness(|_| {});
    let cancel = async {
        world
            .fake
            .until("it runs", SOON, |fake| fake.running().len() == 1)
            .await;
        assert_eq!(world.fake.volumes().len(), 1);
        scope.cancel.cancel();
    };
    let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), cancel);
    assert_eq!(result.err().unwrap().code, ErrorCode::Cancelled);
    world.until_empty(SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_an_image_go_with_the_container_when_time_is_over() {
    let world = World::without_images();
    world.fake.load(with_volume(Behaviour::Deaf));
    let runtime = world.runtime().await;
    let result = runtime.ensure_topology(&quick(), &world.scope("r1")).await;
    assert!(result.is_err());
    world.until_empty(SOON).await;
    assert!(
        world.fake.calls_of(Op::VolumePrune).is_empty(),
        "others have volumes too"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_came_to_be_while_the_line_was_cut_goes_too() {
    let world = World::new();
    let runtime = world.runtime().await;
    // Made, and the answer lost with the connection.
    world
        .fake
        .arm(Op::ContainerStart, "web", Fault::HangUp, Times::Once);
    let failure = runtime
        .ensure_topology(&full_harness(), &world.scope("r1"))
        .await
        .err()
        .unwrap()
        .failure();
    assert!(failure.retryable, "{failure:?}");
    world.until_empty(SOON).await;
    assert_eq!(runtime.debts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_the_machines_fault_and_nothing_is_left_on_it() {
    for op in [Op::NetworkCreate, Op::ContainerCreate] {
        let world = World::new();
        let runtime = world.runtime().await;
        if op == Op::NetworkCreate {
            world.fake.fill_disk(true);
        } else {
            world.fake.arm(op, "web", Fault::disk_full(), Times::Always);
        }
        let result = runtime.ensure_topology(&full_harness(), &world.scope("r1")).await;
        let failure = result.err().unwrap().failure();
        assert_eq!(failure.class.as_str(), "infra", "{failure:?}");
        assert!(failure.message.contains("disk is full"), "{}", failure.message);
        runtime.settle().await;
        assert_eq!(world.everything(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_that_share_a_name_are_told_apart_by_id() {
    let world = World::new();
    let runtime = world.runtime().await;
    let lease = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .unwrap();
    // Somebody else's, of the very same name.
    let name = lease.plan().name.clone();
    let body = bollard::models::NetworkCreateRequest {
        name: name.clone(),
        ..Default::default()
    };
    let docker =
        bollard::Docker::connect_with_unix(&world.fake.address(), 10, bollard::API_DEFAULT_VERSION).unwrap();
    docker
        .negotiate_version()
        .await
        .unwrap()
        .create_network(body)
        .await
        .unwrap();
    let again = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r2"))
        .await
        .unwrap();
    assert_eq!(again.network(), lease.network());
    drop((lease, again));
    assert_eq!(runtime.shut_down().await, []);
    assert_eq!(world.everything(), [name], "theirs stays");
}
