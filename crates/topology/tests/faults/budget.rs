//! The disk budget for images.

use std::path::Path;
use std::sync::Arc;

use everdict_testkit::fake_engine::{FakeImage, Op};
use everdict_topology::images::{ImageOptions, Images};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::{Value, json};

use crate::world::{WEB, World, harness};

const GB: u64 = 1_000_000_000;

fn ours(number: usize) -> String {
    format!("registry.example/ours:{number}")
}

fn sized(reference: &str) -> FakeImage {
    FakeImage {
        size: 5 * GB,
        ..FakeImage::web(reference)
    }
}

fn keeper(state: &Path) -> Arc<Images> {
    Arc::new(Images::new(ImageOptions {
        state_dir: state.to_owned(),
        budget_bytes: Some(20 * GB),
        refresh_after: None,
        emulates: false,
    }))
}

/// Puts the last use of every image days back, the higher the number the longer ago; nothing is evicted fresh.
fn age(state: &Path) {
    let path = state.join("images.json");
    let mut ledger: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for entry in ledger.as_object_mut().unwrap().values_mut() {
        let number: u64 = entry["reference"]
            .as_str()
            .unwrap()
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        entry["usedAt"] = json!(entry["usedAt"].as_u64().unwrap() - (1 + number) * 86_400);
    }
    std::fs::write(path, ledger.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_our_least_recently_used_images_go_and_what_that_frees_is_told() {
    let world = World::without_images();
    for number in 0..8 {
        world.fake.load(sized(&format!("members/own:{number}")));
    }
    for number in 0..5 {
        world.fake.publish(sized(&ours(number)));
    }
    let keeper = keeper(world.state.path());
    let runtime = world
        .runtime_with(|options| options.keeper = Arc::clone(&keeper))
        .await;
    let spec = |number: usize| {
        harness(move |spec| {
            spec["version"] = json!(number.to_string());
            spec["services"][0]["image"] = json!(ours(number));
        })
    };
    let mut leases = Vec::new();
    for number in 0..5 {
        let lease = runtime
            .ensure_topology(&spec(number), &world.scope("r1"))
            .await
            .unwrap();
        // The least recently used of all stays in use.
        if number == 4 {
            leases.push(lease);
        }
    }
    runtime.sweep_idle(std::time::Duration::ZERO).await;
    age(world.state.path());
    let before = keeper.usage(runtime.engine()).await.unwrap();
    assert_eq!(before.ours_bytes, 25 * GB);
    assert_eq!(before.evictable, [ours(3)], "4 is older, and in use");

    let trimmed = keeper.trim(runtime.engine()).await.unwrap();
    assert_eq!((trimmed.removed, trimmed.freed_bytes), (vec![ours(3)], 5 * GB));
    let left = world.fake.images();
    assert_eq!(left.len(), 8 + 4, "{left:?}");
    assert!(!left.contains(&ours(3)), "{left:?}");
    assert_eq!(
        keeper.trim(runtime.engine()).await.unwrap().removed,
        [""; 0],
        "within the budget now"
    );
    assert_eq!(
        world.fake.calls_of(Op::ImageRemove).len(),
        1,
        "nothing else was even tried"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_the_member_had_before_is_never_ours() {
    let world = World::without_images();
    world.fake.load(sized(WEB));
    let keeper = keeper(world.state.path());
    let runtime = world
        .runtime_with(|options| options.keeper = Arc::clone(&keeper))
        .await;
    runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await
        .unwrap()
        .release();
    let usage = keeper.usage(runtime.engine()).await.unwrap();
    assert_eq!((usage.ours.len(), usage.ours_bytes), (0, 0));
}
