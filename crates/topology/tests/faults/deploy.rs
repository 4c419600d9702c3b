//! Containers that end, and those that are never ready.

use std::time::Duration;

use everdict_contracts::{FailureClass, SIGNAL_OOM};
use everdict_testkit::fake_engine::{Behaviour, FakeHealth, FakeImage};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use crate::world::{WEB, World, full_harness, harness, timed};

const MIGRATE: &str = "fake/migrate:1";

#[tokio::test(flavor = "multi_thread")]
async fn a_full_topology_stands_and_goes_on_the_fake_as_on_a_real_daemon() {
    let world = World::new();
    let runtime = world.runtime().await;
    let scope = world.scope("r1");
    let lease = runtime.ensure_topology(&full_harness(), &scope).await.unwrap();
    assert_eq!(world.fake.running().len(), 3, "{:?}", world.fake.running());
    let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
    assert_eq!(world.fake.running().len(), 4);
    browser.dispose().await.unwrap();
    assert_eq!(world.fake.running().len(), 3);
    drop(lease);
    assert_eq!(runtime.shut_down().await, []);
    assert_eq!(world.everything(), [""; 0], "volumes too");
}

fn migrating() -> everdict_contracts::ServiceHarness {
    harness(|spec| {
        spec["services"] = json!([
            {"name": "web", "image": WEB, "port": 8080, "needs": ["migrate"]},
            {"name": "migrate", "image": MIGRATE}
        ]);
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_one_shot_starts_when_it_ends_well() {
    let world = World::new();
    world
        .fake
        .load(FakeImage::ending(MIGRATE, Duration::from_millis(300), 0).line("42 migrations"));
    let runtime = world.runtime().await;
    let (lease, took) = timed(runtime.ensure_topology(&migrating(), &world.scope("r1"))).await;
    let lease = lease.unwrap();
    assert!(
        took < Duration::from_secs(4),
        "its end is seen when it comes: {took:?}"
    );
    assert_eq!(
        world.fake.running().len(),
        1,
        "the migration has ended: {:?}",
        world.fake.running()
    );
    assert!(lease.endpoints().contains_key("web"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_one_shot_that_fails_fails_the_case_at_once_with_its_last_50_lines() {
    let world = World::new();
    let mut image = FakeImage::ending(MIGRATE, Duration::from_millis(200), 1);
    for number in 1..=80 {
        image = image.line(&format!("step {number:03}"));
    }
    world
        .fake
        .load(image.piece(Duration::from_millis(100), "fatal: no such table\n"));
    let runtime = world.runtime().await;
    let (result, took) = timed(runtime.ensure_topology(&migrating(), &world.scope("r1"))).await;
    let failure = result.err().unwrap().failure();
    assert!(took < Duration::from_millis(2200), "{took:?}");
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Harness, false),
        "{failure:?}"
    );
    assert!(failure.message.contains("service migrate"), "{}", failure.message);
    assert!(failure.message.contains("exit code 1"), "{}", failure.message);
    let log = failure.log_tail.unwrap();
    assert!(log.trim_end().ends_with("fatal: no such table"), "{log}");
    assert!(
        log.contains("step 040") && !log.contains("step 030"),
        "50 lines: {log}"
    );
    runtime.settle().await;
    assert_eq!(world.everything(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_dies_is_not_waited_for() {
    let world = World::without_images();
    let dying = Behaviour::Exit {
        after: Duration::from_secs(1),
        code: 3,
        oom: false,
    };
    world
        .fake
        .load(FakeImage::new(WEB, dying).line("fatal: missing API key"));
    let runtime = world.runtime().await;
    let (result, took) = timed(runtime.ensure_topology(&harness(|_| {}), &world.scope("r1"))).await;
    let failure = result.err().unwrap().failure();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(failure.class, FailureClass::Harness, "{failure:?}");
    assert!(failure.message.contains("exit code 3"), "{}", failure.message);
    assert_eq!(failure.log_tail.unwrap().trim_end(), "fatal: missing API key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_memory_says_so_by_name() {
    let world = World::without_images();
    let dying = Behaviour::Exit {
        after: Duration::from_millis(300),
        code: 137,
        oom: true,
    };
    world.fake.load(FakeImage::new(WEB, dying));
    let runtime = world.runtime().await;
    let failure = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .err()
        .unwrap()
        .failure();
    assert_eq!(failure.code, SIGNAL_OOM, "{failure:?}");
    assert!(
        failure.message.contains("ran out of memory"),
        "{}",
        failure.message
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_takes_connections_and_says_nothing_is_judged_by_the_health_check() {
    let world = World::without_images();
    let silent = FakeImage::new(WEB, Behaviour::Silent);
    world
        .fake
        .load(silent.health(FakeHealth::HealthyAfter(Duration::from_millis(2500))));
    let runtime = world.runtime().await;
    let (lease, took) = timed(runtime.ensure_topology(&harness(|_| {}), &world.scope("r1"))).await;
    lease.unwrap();
    assert!(
        took > Duration::from_millis(2400) && took < Duration::from_secs(8),
        "{took:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_never_ready_ends_at_its_own_deadline() {
    let world = World::without_images();
    world
        .fake
        .load(FakeImage::new(WEB, Behaviour::Deaf).line("still thinking"));
    let runtime = world.runtime().await;
    let spec =
        harness(|spec| spec["services"][0]["readiness"] = json!({"timeoutMs": 700, "intervalMs": 100}));
    let (result, took) = timed(runtime.ensure_topology(&spec, &world.scope("r1"))).await;
    let failure = result.err().unwrap().failure();
    assert!(
        took > Duration::from_millis(690) && took < Duration::from_secs(4),
        "{took:?}"
    );
    assert!(
        failure.message.contains("not ready within 0.7 s"),
        "{}",
        failure.message
    );
    assert_eq!(failure.log_tail.unwrap().trim_end(), "still thinking");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_comes_in_pieces_is_put_together_again() {
    let world = World::without_images();
    let dying = Behaviour::Exit {
        after: Duration::from_millis(200),
        code: 1,
        oom: false,
    };
    let image = FakeImage::new(WEB, dying)
        .piece(Duration::ZERO, "ready to ac")
        .piece(Duration::from_millis(50), "cept connections");
    world.fake.load(image);
    let runtime = world.runtime().await;
    let failure = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .err()
        .unwrap()
        .failure();
    assert_eq!(failure.log_tail.as_deref(), Some("ready to accept connections"));
}
