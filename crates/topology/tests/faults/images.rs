//! Registries that say no, say nothing, or say half of it.

use std::time::Duration;

use everdict_contracts::{ErrorCode, FailureClass};
use everdict_testkit::fake_engine::{FakeImage, Fault, Op, PullEnd, PullScript, Times};
use everdict_topology::runtime::TopologyRuntime as _;

use crate::world::{SOON, WEB, World, harness, stock, timed};

/// A minute of pulling.
const SLOW: PullScript = PullScript::Layers {
    steps: 600,
    pause: Duration::from_millis(100),
};

fn with_registry() -> World {
    let world = World::without_images();
    for image in stock() {
        world.fake.publish(image);
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_is_pulled_and_the_job_told() {
    let world = with_registry();
    let runtime = world.runtime().await;
    runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .unwrap()
        .release();
    assert_eq!(
        world.fake.pulls().iter().map(|pull| pull.end).collect::<Vec<_>>(),
        [PullEnd::Complete]
    );
    assert!(world.log().contains(&format!("pulled {WEB}")), "{}", world.log());
    runtime.shut_down().await;
    runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r2"))
        .await
        .unwrap();
    assert_eq!(world.fake.pulls().len(), 1, "never again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_mid_pull_drops_it_at_once_and_nothing_was_made() {
    let world = with_registry();
    world.fake.script_pull(WEB, SLOW);
    let runtime = world.runtime().await;
    let (spec, scope) = (harness(|_| {}), world.scope("r1"));
    let cancel = async {
        world
            .fake
            .until("it pulls", SOON, |fake| fake.pulls().len() == 1)
            .await;
        scope.cancel.cancel();
        let (_, took) = timed(world.fake.until("the pull is dropped", SOON, |fake| {
            fake.pulls()[0].end == PullEnd::Dropped
        }))
        .await;
        assert!(took < Duration::from_secs(3), "{took:?}");
    };
    let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), cancel);
    assert_eq!(result.err().unwrap().code, ErrorCode::Cancelled);
    runtime.settle().await;
    assert_eq!(world.everything(), [""; 0]);
    assert!(world.fake.calls_of(Op::ContainerCreate).is_empty());
    assert!(world.fake.calls_of(Op::NetworkCreate).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_leaves_does_not_take_the_pull_from_the_other() {
    let world = with_registry();
    world.fake.script_pull(
        WEB,
        PullScript::Layers {
            steps: 10,
            pause: Duration::from_millis(100),
        },
    );
    let runtime = world.runtime().await;
    let spec = harness(|_| {});
    let other = harness(|spec| spec["version"] = "2.0.0".into());
    let (leaves, stays) = (world.scope("r1"), world.scope("r2"));
    let cancel = async {
        world
            .fake
            .until("it pulls", SOON, |fake| !fake.pulls().is_empty())
            .await;
        leaves.cancel.cancel();
    };
    let (left, stayed, ()) = tokio::join!(
        runtime.ensure_topology(&spec, &leaves),
        runtime.ensure_topology(&other, &stays),
        cancel
    );
    assert_eq!(left.err().unwrap().code, ErrorCode::Cancelled);
    stayed.unwrap();
    assert_eq!(
        world.fake.pulls().len(),
        1,
        "single flight: {:?}",
        world.fake.pulls()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_for_another_processor_is_known_from_its_manifest_before_the_pull() {
    let world = World::without_images();
    world.fake.set_architecture("arm64");
    world.fake.publish(FakeImage::web(WEB));
    let runtime = world.runtime().await;
    let result = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await;
    let failure = result.err().unwrap().failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Config, false),
        "{failure:?}"
    );
    assert!(
        failure.message.contains("needs linux/amd64"),
        "{}",
        failure.message
    );
    assert!(
        failure.message.contains("services[0].image"),
        "{}",
        failure.message
    );
    assert!(world.fake.pulls().is_empty(), "not a byte was fetched");
    assert_eq!(world.everything(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_list_with_this_processor_is_fine() {
    let world = World::without_images();
    world.fake.set_architecture("arm64");
    world.fake.publish(FakeImage::web(WEB));
    world.fake.publish(FakeImage::web(WEB).for_architecture("arm64"));
    let runtime = world.runtime().await;
    runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_another_processor_that_is_on_the_machine_is_refused_too() {
    let world = World::without_images();
    world.fake.load(FakeImage::web(WEB).for_architecture("arm64"));
    let runtime = world.runtime().await;
    let failure = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .err()
        .unwrap()
        .failure();
    assert_eq!(failure.class, FailureClass::Config, "{failure:?}");
    assert!(
        failure.message.contains("needs linux/arm64"),
        "{}",
        failure.message
    );
    assert!(world.fake.calls_of(Op::ContainerStart).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_no_of_a_registry_says_whose_turn_it_is() {
    let late = PullScript::RateLimited {
        retry_after: Some(Duration::from_secs(3600)),
    };
    let cases = [
        (PullScript::NoSuchTag, FailureClass::Config, "doesn't exist"),
        (PullScript::Denied, FailureClass::Config, "isn't for everybody"),
        (
            PullScript::Unauthorized,
            FailureClass::Config,
            "needs another login",
        ),
        (late, FailureClass::Infra, "limits pulls"),
        (PullScript::NoSuchHost, FailureClass::Infra, "doesn't resolve"),
        (
            PullScript::NoPlatform,
            FailureClass::Config,
            "isn't made for this machine",
        ),
        (PullScript::DiskFull, FailureClass::Infra, "disk is full"),
    ];
    for (script, class, words) in cases {
        let world = with_registry();
        world.fake.script_pull(WEB, script.clone());
        let runtime = world.runtime().await;
        let result = runtime
            .ensure_topology(&harness(|_| {}), &world.scope("r1"))
            .await;
        let failure = result.err().unwrap().failure();
        assert_eq!(failure.class, class, "{script:?}: {failure:?}");
        assert!(failure.message.contains(words), "{script:?}: {}", failure.message);
        assert!(failure.message.contains(WEB), "{script:?}: {}", failure.message);
        runtime.settle().await;
        assert_eq!(world.everything(), [""; 0], "{script:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_asks_for_a_moment_gets_it() {
    let world = with_registry();
    world.fake.script_pull(
        WEB,
        PullScript::RateLimited {
            retry_after: Some(Duration::from_millis(1500)),
        },
    );
    let runtime = world.runtime().await;
    let (spec, scope) = (harness(|_| {}), world.scope("r1"));
    let heal = async {
        world
            .fake
            .until("it was refused", SOON, |fake| {
                fake.pulls()
                    .first()
                    .is_some_and(|pull| pull.end == PullEnd::Failed)
            })
            .await;
        world.fake.heal_pull(WEB);
    };
    let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), heal);
    result.unwrap();
    let ends: Vec<PullEnd> = world.fake.pulls().iter().map(|pull| pull.end).collect();
    assert_eq!(ends, [PullEnd::Failed, PullEnd::Complete]);
    assert!(world.log().contains("again in"), "{}", world.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_is_no_image() {
    for script in [PullScript::Garbled, PullScript::HangUp] {
        let world = with_registry();
        world.fake.script_pull(WEB, script.clone());
        let runtime = world.runtime().await;
        let result = runtime
            .ensure_topology(&harness(|_| {}), &world.scope("r1"))
            .await;
        let failure = result.err().unwrap().failure();
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Infra, true),
            "{script:?}: {failure:?}"
        );
        assert_eq!(world.everything(), [""; 0], "{script:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_does_not_tell_the_platform_is_no_reason_to_refuse() {
    let world = with_registry();
    let words = "the registry is having a bad day".to_owned();
    world
        .fake
        .arm(Op::Distribution, "", Fault::Answer(500, words), Times::Always);
    let runtime = world.runtime().await;
    runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .unwrap();
}
