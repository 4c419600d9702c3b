//! Host ports that are gone when a container starts.

use everdict_contracts::FailureClass;
use everdict_testkit::fake_engine::{Fault, Op, Times};
use everdict_topology::runtime::TopologyRuntime as _;

use crate::world::{World, harness};

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_was_taken_before_the_bind_is_tried_again() {
    for fault in [Fault::PortAllocated, Fault::PortInUse] {
        let world = World::new();
        world.fake.arm(Op::ContainerStart, "web", fault, Times::Count(2));
        let runtime = world.runtime().await;
        runtime
            .ensure_topology(&harness(|_| {}), &world.scope("r1"))
            .await
            .unwrap();
        assert_eq!(world.fake.calls_of(Op::ContainerStart).len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_stays_taken_is_the_machines_fault_after_three_tries_again() {
    for fault in [Fault::PortAllocated, Fault::PortInUse] {
        let world = World::new();
        world.fake.arm(Op::ContainerStart, "web", fault, Times::Always);
        let runtime = world.runtime().await;
        let result = runtime
            .ensure_topology(&harness(|_| {}), &world.scope("r1"))
            .await;
        let failure = result.err().unwrap().failure();
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Infra, true),
            "{failure:?}"
        );
        let words = ["port is already allocated", "address already in use"];
        assert!(
            words.iter().any(|word| failure.message.contains(word)),
            "{}",
            failure.message
        );
        assert!((2..=4).contains(&world.fake.calls_of(Op::ContainerStart).len()));
        runtime.settle().await;
        assert_eq!(
            world.everything(),
            [""; 0],
            "the container that was only created goes too"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_the_same_patience() {
    let world = World::new();
    let runtime = world.runtime().await;
    let scope = world.scope("r1");
    let lease = runtime
        .ensure_topology(&crate::world::full_harness(), &scope)
        .await
        .unwrap();
    world
        .fake
        .arm(Op::ContainerStart, "-browser-", Fault::PortInUse, Times::Count(2));
    let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
    browser.dispose().await.unwrap();
    world.fake.arm(
        Op::ContainerStart,
        "-browser-",
        Fault::PortAllocated,
        Times::Always,
    );
    let failure = runtime
        .provision_browser(&lease, &scope)
        .await
        .err()
        .unwrap()
        .failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Infra, true),
        "{failure:?}"
    );
    runtime.settle().await;
    assert_eq!(world.fake.containers().len(), 3, "{:?}", world.fake.containers());
}
