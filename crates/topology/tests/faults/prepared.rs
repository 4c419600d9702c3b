//! Databases that are initialised beforehand, when that goes wrong.

use everdict_testkit::fake_engine::{Fault, Op, Times};
use everdict_topology::runtime::{DockerTopologyRuntime, TopologyRuntime as _};

use crate::world::{POSTGRES, World, full_harness};

/// Stands a topology up and takes it down; gives out the image of its database.
async fn round(world: &World, runtime: &DockerTopologyRuntime, run: &str) -> String {
    let lease = runtime
        .ensure_topology(&full_harness(), &world.scope(run))
        .await
        .unwrap();
    let postgres = lease.containers()["postgres"].to_owned();
    let name = lease.plan().name.clone();
    drop(lease);
    runtime.settle().await;
    let image = world.fake.image_of(&postgres).unwrap();
    assert!(runtime.teardown(&name).await);
    image
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_topology_gets_the_prepared_database() {
    let world = World::new();
    let runtime = world
        .runtime_with(|options| options.prepare_databases = true)
        .await;
    assert_eq!(round(&world, &runtime, "r1").await, POSTGRES);
    let prepared = round(&world, &runtime, "r2").await;
    assert!(prepared.starts_with("everdict-prepared:"), "{prepared}");
    assert_eq!(
        world.everything(),
        [""; 0],
        "the maker's container and its volume are gone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_prepared_costs_no_case_and_leaves_nothing() {
    let faults = [
        (
            Op::ContainerCommit,
            Fault::Answer(500, "no space left on device".to_owned()),
        ),
        (Op::ContainerCommit, Fault::HangUp),
        (
            Op::ContainerStop,
            Fault::Answer(500, "the process doesn't end".to_owned()),
        ),
        (Op::ExecCreate, Fault::HangUp),
    ];
    for (op, fault) in faults {
        let world = World::new();
        world.fake.arm(op, "prepared", fault.clone(), Times::Count(1));
        let runtime = world
            .runtime_with(|options| options.prepare_databases = true)
            .await;
        assert_eq!(round(&world, &runtime, "r1").await, POSTGRES, "{op:?} {fault:?}");
        assert_eq!(world.fake.armed(), 0, "it has struck: {op:?} {fault:?}");
        round(&world, &runtime, "r2").await;
        assert_eq!(world.everything(), [""; 0], "{op:?} {fault:?}");
    }
}
