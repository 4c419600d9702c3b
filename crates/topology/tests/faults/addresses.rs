//! Networks when the daemon has no room for more.

use everdict_contracts::FailureClass;
use everdict_testkit::fake_engine::{Fault, Op, Times};
use everdict_topology::runtime::TopologyRuntime as _;
use futures_util::future::join_all;
use serde_json::json;

use crate::world::{World, full_harness, harness};

const NO_POOL: &str = "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network";

#[tokio::test(flavor = "multi_thread")]
async fn used_up_pools_are_no_obstacle_while_there_are_addresses() {
    let world = World::new();
    world.fake.limit_pools(0);
    let runtime = world.runtime().await;
    let lease = runtime
        .ensure_topology(&full_harness(), &world.scope("r1"))
        .await
        .unwrap();
    assert!(
        !world.fake.calls_of(Op::ExecStart).is_empty(),
        "stores out of reach are asked by a command inside"
    );
    drop(lease);
    assert_eq!(runtime.shut_down().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_topologies_in_a_row_and_eight_at_once_fit_a_daemon_with_31_networks() {
    let world = World::new();
    // One is the daemon's own bridge.
    world.fake.limit_pools(30);
    let runtime = world.runtime().await;
    let spec = |number: usize| harness(move |spec| spec["version"] = json!(format!("{number}.0.0")));
    for number in 0..40 {
        let scope = world.scope(&format!("r{number}"));
        runtime
            .ensure_topology(&spec(number), &scope)
            .await
            .unwrap()
            .release();
    }
    let at_once = (40..48).map(|number| {
        let (runtime, scope) = (&runtime, world.scope(&format!("r{number}")));
        async move {
            runtime
                .ensure_topology(&spec(number), &scope)
                .await
                .map(everdict_topology::runtime::TopologyLease::release)
        }
    });
    for result in join_all(at_once).await {
        result.unwrap();
    }
    assert_eq!(runtime.shut_down().await, []);
    assert_eq!(world.everything(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_others_have_used_up_are_named_and_how_few_are_ours() {
    let world = World::new();
    let overlap = "Pool overlaps with other one on this address space";
    world.fake.arm(
        Op::NetworkCreate,
        "",
        Fault::Answer(404, NO_POOL.to_owned()),
        Times::Once,
    );
    world.fake.arm(
        Op::NetworkCreate,
        "",
        Fault::Answer(403, overlap.to_owned()),
        Times::Always,
    );
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
    assert!(
        failure.message.contains("no address range is free"),
        "{}",
        failure.message
    );
    assert!(failure.message.contains("ours: 0"), "{}", failure.message);
    assert!(
        failure.message.contains("docker network prune"),
        "{}",
        failure.message
    );
}
