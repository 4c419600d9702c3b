//! Logins, digests and tags that move.

use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{ErrorCode, RegistryAuth, decode};
use everdict_testkit::fake_engine::{FakeImage, Op, PullScript};
use everdict_topology::images::{ImageOptions, Images};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use crate::world::{WEB, World, harness};

const PRIVATE: &str = "registry.example/private/web:1";

fn login(host: &str) -> RegistryAuth {
    decode(json!({"host": host, "username": "u", "password": "p"})).unwrap()
}

fn of_image(image: &str) -> everdict_contracts::ServiceHarness {
    harness(|spec| spec["services"][0]["image"] = json!(image))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_goes_to_its_own_registry_and_to_no_other() {
    let world = World::without_images();
    world.fake.publish(FakeImage::web(PRIVATE));
    world.fake.publish(FakeImage::web(WEB));
    world.fake.script_pull(PRIVATE, PullScript::NeedsLogin);
    let runtime = world.runtime().await;
    let spec = harness(|spec| {
        let other = json!({"name": "other", "image": PRIVATE, "port": 8081});
        spec["services"].as_array_mut().unwrap().push(other);
    });
    let mut scope = world.scope("r1");
    scope.credentials = vec![login("elsewhere.example"), login("registry.example")];
    runtime.ensure_topology(&spec, &scope).await.unwrap();
    let pulls = world.fake.pulls();
    let login_of = |image: &str| {
        pulls
            .iter()
            .find(|pull| pull.reference.ends_with(image))
            .unwrap()
            .login
            .as_str()
    };
    assert!(!login_of(PRIVATE).is_empty());
    assert_eq!(login_of(WEB), "", "Docker Hub hears nothing of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_login_the_job_is_told_which_registry_wants_one() {
    let world = World::without_images();
    world.fake.publish(FakeImage::web(PRIVATE));
    world.fake.script_pull(PRIVATE, PullScript::NeedsLogin);
    let runtime = world.runtime().await;
    let mut scope = world.scope("r1");
    scope.credentials = vec![login("elsewhere.example")];
    let fault = runtime
        .ensure_topology(&of_image(PRIVATE), &scope)
        .await
        .err()
        .unwrap();
    assert_eq!(fault.code, ErrorCode::BadRequest, "{fault}");
    assert!(
        fault.message.contains("credential for `registry.example`"),
        "{fault}"
    );
    assert!(fault.message.contains("services[0].image"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_by_digest_that_is_there_is_asked_about_nowhere() {
    let world = World::without_images();
    let digest = FakeImage::web(WEB).digest();
    let pinned = format!("fake/web@{digest}");
    world.fake.load(FakeImage::web(&pinned));
    let runtime = world.runtime().await;
    runtime
        .ensure_topology(&of_image(&pinned), &world.scope("r1"))
        .await
        .unwrap();
    assert!(world.fake.pulls().is_empty());
    assert!(world.fake.calls_of(Op::Distribution).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_of_ours_that_has_moved_is_pulled_again_and_one_of_the_members_is_not() {
    let world = World::without_images();
    world.fake.publish(FakeImage::web(WEB));
    let keeper = Arc::new(Images::new(ImageOptions {
        state_dir: world.state.path().to_owned(),
        budget_bytes: None,
        refresh_after: Some(Duration::ZERO),
        emulates: false,
    }));
    let runtime = world
        .runtime_with(|options| options.keeper = Arc::clone(&keeper))
        .await;
    let run = async |run: &str, image: &str| {
        runtime
            .ensure_topology(&of_image(image), &world.scope(run))
            .await
            .unwrap()
            .release();
        runtime.sweep_idle(Duration::ZERO).await;
    };
    run("r1", WEB).await;
    run("r2", WEB).await;
    assert_eq!(world.fake.pulls().len(), 1, "it hasn't moved");
    world.fake.unpublish(WEB);
    world.fake.publish(FakeImage::web(WEB).revision("2"));
    run("r3", WEB).await;
    assert_eq!(world.fake.pulls().len(), 2);
    // A registry that can't be asked is no reason to fail.
    world.fake.script_pull(WEB, PullScript::NoSuchHost);
    run("r4", WEB).await;

    let members = "fake/members:1";
    world.fake.load(FakeImage::web(members));
    world.fake.publish(FakeImage::web(members).revision("2"));
    run("r5", members).await;
    assert_eq!(
        world.fake.pulls().len(),
        2,
        "what the member built stays as it is"
    );
}
