//! What can't run is refused with its place and the way out, and before anything is created on the daemon.

use everdict_contracts::{FailureClass, ServiceHarness, decode};
use everdict_testkit::fake_engine::{FakeImage, Op, PullScript};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::{Value, json};

use crate::bad_specs::{changed, refusal, refused};
use crate::world::{WEB, World, harness, stock};

/// Nothing was asked of the daemon that changes it.
fn nothing_was_made(world: &World, what: &str) {
    for op in [
        Op::ContainerCreate,
        Op::NetworkCreate,
        Op::VolumeCreate,
        Op::ContainerStart,
    ] {
        assert!(world.fake.calls_of(op).is_empty(), "{what}: {op:?}");
    }
    assert_eq!(world.everything(), [""; 0], "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spec_that_the_bad_ones_are_made_of_is_good() {
    let world = World::new();
    let runtime = world.runtime().await;
    let spec: ServiceHarness = decode(changed(WEB, "", &Value::Null)).unwrap();
    runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_spec_is_refused_with_its_path_and_the_way_out_before_anything_is_created() {
    let mut wrong = Vec::new();
    for (at, change, path, way_out) in refused() {
        let world = World::new();
        let runtime = world.runtime().await;
        let what = format!("{at} = {change}");
        let spec = changed(WEB, at, &change);
        let words = refusal(&runtime, spec, &world.scope("r1")).await;
        let words = words.unwrap_or_else(|| panic!("{what} was taken"));
        if !words.starts_with(path) || !words.contains(way_out) {
            wrong.push(format!("{what}: {words}"));
        }
        nothing_was_made(&world, &what);
        assert!(world.fake.pulls().is_empty(), "{what}");
    }
    assert_eq!(wrong, [""; 0], "without its place or the way out");
}

#[test]
fn an_unknown_store_is_refused_where_it_is_named_with_those_there_are() {
    let spec = changed(WEB, "/dependencies/0/store", &json!("mongodb"));
    let error = decode::<ServiceHarness>(spec).unwrap_err();
    assert_eq!(error.path, "dependencies[0].store");
    for known in ["postgres", "redis", "minio"] {
        assert!(error.message.contains(known), "{error}");
    }
}

/// Images that nobody can pull: known from the registry's answer, before the first container.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_can_not_be_had_is_refused_with_its_path_before_anything_is_created() {
    let cases = [
        (PullScript::NoSuchTag, "doesn't exist"),
        (PullScript::Unauthorized, "needs another login"),
        (PullScript::Denied, "isn't for everybody"),
        (PullScript::NoPlatform, "isn't made for this machine"),
    ];
    for (script, words) in cases {
        let world = World::without_images();
        for image in stock() {
            world.fake.publish(image);
        }
        world.fake.script_pull(WEB, script.clone());
        let runtime = world.runtime().await;
        let result = runtime
            .ensure_topology(&harness(|_| {}), &world.scope("r1"))
            .await;
        let failure = result.err().unwrap().failure();
        let what = format!("{script:?}");
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Config, false),
            "{what}: {failure:?}"
        );
        assert!(
            failure.message.contains(words) && failure.message.contains("harnessSpec.services[0].image"),
            "{what}: {}",
            failure.message
        );
        runtime.settle().await;
        nothing_was_made(&world, &what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_another_platform_is_refused_with_its_path_before_anything_is_created() {
    let world = World::without_images();
    world.fake.set_architecture("arm64");
    world.fake.publish(FakeImage::web(WEB));
    let runtime = world.runtime().await;
    let result = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await;
    let failure = result.err().unwrap().failure();
    assert!(
        failure.message.contains("needs linux/amd64")
            && failure.message.contains("harnessSpec.services[0].image"),
        "{}",
        failure.message
    );
    nothing_was_made(&world, "arm64");
    assert!(world.fake.pulls().is_empty());
}
