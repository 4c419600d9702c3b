//! What can't be removed is named, held against nobody, and paid for later.

use std::time::Duration;

use everdict_testkit::fake_engine::{FakeImage, Fault, Op, Times};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use crate::world::{World, full_harness, harness, timed};

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_never_answers_a_removal_leaves_names_holds_nothing_up_and_is_asked_again() {
    let world = World::new();
    let runtime = world.impatient_runtime().await;
    let lease = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .unwrap();
    world
        .fake
        .arm(Op::ContainerRemove, "", Fault::BlackHole, Times::Always);
    lease.release();
    let (_, took) = timed(runtime.sweep_idle(Duration::ZERO)).await;
    assert!(took < Duration::from_secs(6), "it gives up: {took:?}");
    let debts: Vec<String> = runtime.debts().iter().map(ToString::to_string).collect();
    let container = &world.fake.containers()[0];
    assert!(debts.iter().any(|debt| debt.contains(container)), "{debts:?}");

    let other = harness(|spec| spec["version"] = json!("2.0.0"));
    let (lease, took) = timed(runtime.ensure_topology(&other, &world.scope("r2"))).await;
    let lease = lease.unwrap();
    assert!(
        took < Duration::from_secs(5),
        "the next case isn't held up: {took:?}"
    );

    world.fake.disarm();
    runtime.sweep().await;
    assert_eq!(runtime.debts(), []);
    assert_eq!(
        world.fake.containers().len(),
        1,
        "the one in use stays: {:?}",
        world.fake.containers()
    );
    lease.release();
    runtime.shut_down().await;
    assert_eq!(world.everything(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_resists_is_owed_and_the_case_told() {
    let world = World::new();
    let runtime = world.impatient_runtime().await;
    let scope = world.scope("r1");
    let lease = runtime.ensure_topology(&full_harness(), &scope).await.unwrap();
    let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
    let name = browser.container().to_owned();
    world
        .fake
        .arm(Op::ContainerRemove, &name, Fault::BlackHole, Times::Always);
    let (result, took) = timed(browser.dispose()).await;
    let debt = result.unwrap_err();
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(debt.to_string().contains(&name), "{debt}");
    world.fake.disarm();
    runtime.sweep().await;
    assert!(!world.fake.containers().contains(&name));
    assert_eq!(runtime.debts(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_daemon_that_went_away_are_swept_when_it_is_back() {
    let world = World::new();
    let runtime = world.impatient_runtime().await;
    runtime
        .ensure_topology(&full_harness(), &world.scope("r1"))
        .await
        .unwrap()
        .release();
    world.fake.go_away();
    runtime.sweep_idle(Duration::ZERO).await;
    assert!(!runtime.debts().is_empty(), "what couldn't go is remembered");
    world.fake.come_back();
    runtime.sweep().await;
    assert_eq!(runtime.debts(), []);
    assert_eq!(world.everything(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_case_has_moved_into_again_is_not_removed_under_it() {
    let world = World::new();
    let runtime = world.impatient_runtime().await;
    runtime
        .ensure_topology(&full_harness(), &world.scope("r1"))
        .await
        .unwrap()
        .release();
    world
        .fake
        .arm(Op::ContainerRemove, "", Fault::BlackHole, Times::Always);
    assert_eq!(runtime.sweep_idle(Duration::ZERO).await, [""; 0], "it isn't gone");
    assert!(!runtime.debts().is_empty());
    let lease = runtime
        .ensure_topology(&full_harness(), &world.scope("r2"))
        .await
        .unwrap();
    world.fake.disarm();
    runtime.sweep().await;
    assert_eq!(runtime.debts(), []);
    assert_eq!(world.fake.running().len(), 3, "{:?}", world.fake.running());
    let again = runtime
        .ensure_topology(&full_harness(), &world.scope("r3"))
        .await
        .unwrap();
    assert_eq!(again.containers(), lease.containers());
    drop((lease, again));
    assert_eq!(runtime.shut_down().await, []);
    assert_eq!(world.everything(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_case_is_told_what_it_leaves_behind() {
    let world = World::new();
    world
        .fake
        .load(FakeImage::ending("fake/dying:1", Duration::from_millis(100), 1));
    world
        .fake
        .arm(Op::ContainerRemove, "", Fault::BlackHole, Times::Always);
    let runtime = world.impatient_runtime().await;
    let spec = harness(|spec| spec["services"][0]["image"] = json!("fake/dying:1"));
    let (result, took) = timed(runtime.ensure_topology(&spec, &world.scope("r1"))).await;
    assert!(result.is_err());
    assert!(took < Duration::from_secs(6), "{took:?}");
    let container = &world.fake.containers()[0];
    let log = world.log();
    assert!(
        log.contains("cleanup_incomplete") && log.contains(container),
        "{log}"
    );
    world.fake.disarm();
    runtime.sweep().await;
    assert_eq!(world.everything(), [""; 0]);
}

/// A browser that a crashed case left once pinned the network for ever: every attempt to heal met "exists already".
#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_browser_does_not_stand_in_the_way_of_healing_or_teardown() {
    let world = World::new();
    let runtime = world.runtime().await;
    let scope = world.scope("r1");
    let lease = runtime.ensure_topology(&full_harness(), &scope).await.unwrap();
    let name = lease.plan().name.clone();
    std::mem::forget(runtime.provision_browser(&lease, &scope).await.unwrap());
    drop(lease);
    // All of the topology dies but the orphan, which still holds the network.
    for container in world.fake.running() {
        if !container.contains("-browser-") {
            world
                .engine()
                .await
                .kill_container(&container, "SIGKILL")
                .await
                .unwrap();
        }
    }
    assert_eq!(world.fake.running().len(), 1, "{:?}", world.fake.running());
    let lease = runtime
        .ensure_topology(&full_harness(), &world.scope("r2"))
        .await
        .unwrap();
    assert!(lease.endpoints().contains_key("web"));
    drop(lease);
    assert!(runtime.teardown(&name).await);
    assert_eq!(runtime.debts(), []);
    assert_eq!(world.everything(), [""; 0]);
}

/// C10's number: what the tests above shorten.
#[tokio::test(flavor = "multi_thread")]
async fn a_whole_clean_up_has_a_minute_by_default() {
    let world = World::new();
    assert_eq!(world.engine().await.clean_up_limit(), Duration::from_secs(60));
}
