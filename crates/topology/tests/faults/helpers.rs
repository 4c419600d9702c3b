//! Helper containers that can't be had.

use everdict_testkit::fake_engine::Op;
use everdict_topology::egress::{Egress, EgressMode};
use everdict_topology::runtime::TopologyRuntime as _;

use crate::world::{World, full_harness};

/// The services run on, and the job's log says once why nobody holds them.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_takes_no_helper_is_told_and_nothing_stays_frozen() {
    let world = World::new();
    let engine = world.engine().await.with_egress(EgressMode::Gate);
    let runtime = world.runtime_on(engine, |_| {}).await;
    let scope = world.scope("r1");
    let lease = runtime.ensure_topology(&full_harness(), &scope).await.unwrap();
    let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
    assert_eq!(
        world.fake.calls_of(Op::ContainerPause).len(),
        4,
        "each was frozen meanwhile"
    );
    assert_eq!(world.fake.frozen(), [""; 0]);
    let log = world.log();
    let told = "egress rules are not enforced on this engine: ";
    // Once for the topology and once for the browser.
    assert_eq!(log.matches(told).count(), 2, "{log}");
    assert!(
        log.contains(
            "a helper container can't do it either: import the helper's image: the fake imports nothing"
        ),
        "{log}"
    );
    browser.dispose().await.unwrap();
    drop(lease);
    assert_eq!(runtime.shut_down().await, []);
    assert_eq!(world.everything(), [""; 0]);
}

/// A helper is a program for one processor.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_on_another_processor_gets_no_helper() {
    let world = World::new();
    world.fake.set_architecture("riscv64");
    let engine = world.engine().await.with_egress(EgressMode::Gate);
    let Egress::Unenforced(why) = engine.egress().await.unwrap() else {
        panic!("nobody can see to it");
    };
    assert!(why.contains("the engine's machine is riscv64"), "{why}");
    assert_eq!(world.fake.calls_of(Op::ImageImport).len(), 0);
}
