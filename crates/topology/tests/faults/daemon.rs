//! A daemon that goes away, comes back, or stays silent.

use std::time::Duration;

use everdict_contracts::FailureClass;
use everdict_testkit::fake_engine::{Behaviour, FakeImage, Fault, Op, Times};
use everdict_topology::engine::{Engine, EngineErrorKind};
use everdict_topology::runtime::TopologyRuntime as _;

use crate::world::{SOON, WEB, World, full_harness, harness, timed};

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_restarts_in_mid_deploy_is_the_machines_fault_and_leaves_nothing() {
    let world = World::without_images();
    world.fake.load(FakeImage::new(WEB, Behaviour::Deaf));
    let runtime = world.runtime().await;
    let (spec, scope) = (harness(|_| {}), world.scope("r1"));
    let restart = async {
        world
            .fake
            .until("it waits, and hears of a hang-up", SOON, |fake| {
                !fake.calls_of(Op::ContainerWait).is_empty() && !fake.calls_of(Op::Events).is_empty()
            })
            .await;
        world.fake.restart();
    };
    let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), restart);
    let failure = result.err().unwrap().failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Infra, true),
        "{failure:?}"
    );
    world.until_empty(SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_ends_containers_before_it_hangs_up_is_the_machines_fault_too() {
    let world = World::without_images();
    world.fake.load(FakeImage::new(WEB, Behaviour::Deaf));
    let runtime = world.runtime().await;
    let (spec, scope) = (harness(|_| {}), world.scope("r1"));
    let shut_down = async {
        world
            .fake
            .until("it waits, and hears of a hang-up", SOON, |fake| {
                !fake.calls_of(Op::ContainerWait).is_empty() && !fake.calls_of(Op::Events).is_empty()
            })
            .await;
        world.fake.stop_containers();
        // It answers for a moment longer.
        let asked = |fake: &everdict_testkit::FakeEngine| !fake.calls_of(Op::ContainerInspect).is_empty();
        world.fake.until("it was asked why", SOON, asked).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.fake.go_away();
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.fake.come_back();
    };
    let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), shut_down);
    let failure = result.err().unwrap().failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Infra, true),
        "{failure:?}"
    );
    world.until_empty(SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_restarts_under_a_topology_costs_one_case_and_the_next_is_well() {
    let world = World::new();
    let runtime = world.runtime().await;
    let scope = world.scope("r1");
    let lease = runtime.ensure_topology(&full_harness(), &scope).await.unwrap();
    world.fake.go_away();
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
    drop(lease);
    let failure = runtime
        .ensure_topology(&full_harness(), &world.scope("r2"))
        .await
        .err()
        .unwrap()
        .failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Infra, true),
        "{failure:?}"
    );

    world.fake.come_back();
    assert_eq!(world.fake.running(), [""; 0], "containers have no restart policy");
    let scope = world.scope("r3");
    let lease = runtime.ensure_topology(&full_harness(), &scope).await.unwrap();
    assert_eq!(
        world.fake.containers().len(),
        3,
        "the dead went: {:?}",
        world.fake.containers()
    );
    assert_eq!(world.fake.running().len(), 3);
    runtime
        .provision_browser(&lease, &scope)
        .await
        .unwrap()
        .dispose()
        .await
        .unwrap();
    drop(lease);
    assert_eq!(runtime.shut_down().await, []);
    assert_eq!(world.everything(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_not_there_is_unreachable_at_once_and_found_when_it_is() {
    let world = World::new();
    world.fake.go_away();
    let (result, took) = timed(Engine::connect(&world.fake.address())).await;
    assert_eq!(result.unwrap_err().kind, EngineErrorKind::Unreachable);
    assert!(took < Duration::from_secs(2), "{took:?}");
    world.fake.come_back();
    world.engine().await.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_never_comes_ends_with_the_cases_time() {
    let world = World::new();
    let runtime = world.runtime().await;
    world
        .fake
        .arm(Op::ContainerCreate, "web", Fault::BlackHole, Times::Always);
    let mut scope = world.scope("r1");
    scope.deadline = Some(tokio::time::Instant::now() + Duration::from_millis(800));
    let (result, took) = timed(runtime.ensure_topology(&harness(|_| {}), &scope)).await;
    let failure = result.err().unwrap().failure();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(failure.class, FailureClass::Infra, "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_clock_is_hours_off_is_found_at_the_start() {
    let world = World::new();
    world.fake.set_clock_behind(Duration::from_secs(2 * 3600));
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
    assert!(failure.message.contains("clock"), "{}", failure.message);
    assert!(failure.message.contains("behind"), "{}", failure.message);
    assert_eq!(world.everything(), [""; 0], "nothing was begun");
    world.fake.set_clock_behind(Duration::ZERO);
    runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r2"))
        .await
        .unwrap();
}
