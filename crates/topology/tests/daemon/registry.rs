//! Genuine pulls by the machine's daemon, from a registry that counts what it is asked.

use std::time::{Duration, Instant};

use everdict_contracts::ErrorCode;
use everdict_testkit::RegistryImage;
use everdict_testkit::registry::{Asked, Flavour, Pace, TransferEnd};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use crate::program::{front_door, image, image_for, processors};
use crate::registry_world::{RegistryWorld, of_image, with_registry};
use crate::world::{eventually, harness};

const LIMIT: Duration = Duration::from_secs(20);

/// A layer of six megabytes, which nobody has.
fn heavy(image: RegistryImage, mark: &str) -> RegistryImage {
    let mut bytes = format!("{mark} {}", uuid::Uuid::new_v4()).into_bytes();
    bytes.resize(6_000_000, b'.');
    image.file("load", &bytes)
}

/// Asks that bring something about: manifests and blobs.
fn questions(case: &RegistryWorld, repository: &str) -> usize {
    let asked = case.registry.asked(repository);
    asked
        .iter()
        .filter(|one| one.is_manifest() || one.is_blob())
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_is_told_in_the_jobs_log_as_it_goes_and_done_once() {
    with_registry("pull_is_told", |case| async move {
        case.registry
            .publish("shop/web", "1", &heavy(front_door("told"), "told"));
        let pace = Pace {
            bytes: 600_000,
            pause: Duration::from_millis(250),
        };
        case.registry.slow_down("shop/web", pace);
        let web = case.registry.reference("shop/web", "1");
        let runtime = case.world.runtime().await;
        let (spec, scope) = (of_image(&web), case.world.scope("r1"));
        runtime.ensure_topology(&spec, &scope).await.unwrap().release();
        let lines = case.world.lines.lock().unwrap().clone();
        let shares: Vec<u64> = lines
            .iter()
            .filter_map(|line| {
                line.strip_prefix(&format!("pulling {web}: "))?
                    .split_once(" % (")?
                    .0
                    .parse()
                    .ok()
            })
            .collect();
        assert!(shares.len() >= 2 && shares.is_sorted(), "{lines:?}");
        assert!(shares.iter().any(|share| (1..100).contains(share)), "{lines:?}");
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with(&format!("pulled {web} in "))),
            "{lines:?}"
        );
        assert_eq!(
            case.sent("shop/web").len(),
            3,
            "two layers and a configuration, once each"
        );

        let asked = questions(&case, "shop/web");
        let other = harness(|spec| {
            spec["version"] = json!("2.0.0");
            spec["services"][0]["image"] = json!(web);
        });
        runtime
            .ensure_topology(&other, &case.world.scope("r2"))
            .await
            .unwrap()
            .release();
        assert_eq!(
            questions(&case, "shop/web"),
            asked,
            "an image that is there isn't asked about"
        );
        runtime.shut_down().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_by_digest_is_pulled_once_and_never_asked_about_again() {
    with_registry("pinned", |case| async move {
        let digest = case.registry.publish("shop/pinned", "1", &front_door("pinned"));
        let pinned = format!("{}/shop/pinned@{digest}", case.registry.host());
        let keeper = case.keeper(|options| options.refresh_after = Some(Duration::ZERO));
        assert!(case.ensure(&keeper, &pinned).await, "it wasn't there");
        let asked = case.registry.asked("").len();
        // Where its tag points to by now doesn't matter.
        case.registry.publish("shop/pinned", "1", &front_door("moved"));
        for _ in 0..3 {
            assert!(!case.ensure(&keeper, &pinned).await);
        }
        let runtime = case.world.runtime().await;
        let scope = case.world.scope("r1");
        runtime
            .ensure_topology(&of_image(&pinned), &scope)
            .await
            .unwrap()
            .release();
        assert_eq!(case.registry.asked("").len(), asked, "not one request more");
        runtime.shut_down().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_of_ours_that_has_moved_is_pulled_again_and_the_members_is_not() {
    with_registry("moved_tag", |case| async move {
        let (ours, theirs) = (
            case.registry.reference("shop/ours", "1"),
            case.registry.reference("shop/theirs", "1"),
        );
        for name in ["shop/ours", "shop/theirs"] {
            case.registry.publish(name, "1", &front_door(name));
        }
        pull_as_the_member(&case, &theirs).await;
        let keeper = case.keeper(|options| options.refresh_after = Some(Duration::ZERO));
        assert!(case.ensure(&keeper, &ours).await);
        assert!(!case.ensure(&keeper, &ours).await, "it hasn't moved");
        for name in ["shop/ours", "shop/theirs"] {
            case.registry
                .publish(name, "1", &front_door(&format!("{name} moved")));
        }
        assert!(case.ensure(&keeper, &ours).await);
        assert!(
            !case.ensure(&keeper, &theirs).await,
            "the member's stays as it is"
        );
    })
    .await;
}

/// As `docker pull` does.
pub async fn pull_as_the_member(case: &RegistryWorld, image: &str) {
    use futures_util::StreamExt as _;
    let options = bollard::query_parameters::CreateImageOptionsBuilder::default()
        .from_image(image)
        .build();
    let events: Vec<_> = case
        .world
        .docker
        .create_image(Some(options), None, None)
        .collect()
        .await;
    assert!(events.iter().all(Result::is_ok), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_want_an_image_at_once_share_one_pull() {
    with_registry("single_flight", |case| async move {
        let pace = Pace {
            bytes: 600_000,
            pause: Duration::from_millis(100),
        };
        for name in ["shop/alone", "shop/shared"] {
            case.registry.publish(name, "1", &heavy(front_door(name), name));
            case.registry.slow_down(name, pace);
        }
        let keeper = case.keeper(|_| {});
        let (alone, shared) = (
            case.registry.reference("shop/alone", "1"),
            case.registry.reference("shop/shared", "1"),
        );
        assert!(case.ensure(&keeper, &alone).await);
        let (one, other) = tokio::join!(case.ensure(&keeper, &shared), case.ensure(&keeper, &shared));
        assert!(one && other, "both waited for it");
        let paths = |name: &str| -> Vec<String> {
            let asked = case.registry.asked(name);
            let what = |one: &Asked| {
                format!(
                    "{} {}",
                    one.method,
                    one.path.split('/').nth(4).unwrap_or_default()
                )
            };
            asked.iter().map(what).collect()
        };
        assert_eq!(paths("shop/shared"), paths("shop/alone"), "as much as for one");

        // The same through topologies: two of them, one image.
        case.registry
            .publish("shop/both", "1", &heavy(front_door("both"), "both"));
        case.registry.slow_down("shop/both", pace);
        let both = case.registry.reference("shop/both", "1");
        let runtime = case.world.runtime().await;
        let second = harness(|spec| {
            spec["version"] = json!("2.0.0");
            spec["services"][0]["image"] = json!(both);
        });
        let (first, scopes) = (of_image(&both), [case.world.scope("r1"), case.world.scope("r2")]);
        let (one, other) = tokio::join!(
            runtime.ensure_topology(&first, &scopes[0]),
            runtime.ensure_topology(&second, &scopes[1])
        );
        one.unwrap().release();
        other.unwrap().release();
        assert_eq!(questions(&case, "shop/both"), questions(&case, "shop/alone"));
        runtime.shut_down().await;
    })
    .await;
}

/// C08: a pull that would take a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_a_slow_pull_hangs_up_within_three_seconds_and_leaves_nothing() {
    with_registry("cancel_in_slow_pull", |case| async move {
        case.registry
            .publish("shop/slow", "1", &heavy(front_door("slow"), "slow"));
        let pace = Pace {
            bytes: 100_000,
            pause: Duration::from_secs(1),
        };
        case.registry.slow_down("shop/slow", pace);
        let slow = case.registry.reference("shop/slow", "1");
        let runtime = case.world.runtime().await;
        let (spec, scope) = (of_image(&slow), case.world.scope("r1"));
        let under_way = || {
            let transfers = case.registry.transfers();
            let heavy = |end: fn(&TransferEnd) -> bool| {
                transfers
                    .iter()
                    .any(|one| one.size > 5_000_000 && one.sent > 0 && end(&one.end))
            };
            (
                heavy(|end| *end == TransferEnd::Sending),
                heavy(|end| matches!(end, TransferEnd::Dropped(_))),
            )
        };
        let cancel = async {
            eventually("the layer is under way", LIMIT, || async { under_way().0 }).await;
            scope.cancel.cancel();
            Instant::now()
        };
        let (result, cancelled) = tokio::join!(runtime.ensure_topology(&spec, &scope), cancel);
        assert!(
            cancelled.elapsed() < Duration::from_secs(3),
            "{:?}",
            cancelled.elapsed()
        );
        assert_eq!(result.err().unwrap().code, ErrorCode::Cancelled);
        eventually("the daemon hangs up on the registry", LIMIT, || async {
            under_way().1
        })
        .await;
        let dropped = case
            .registry
            .transfers()
            .into_iter()
            .find_map(|one| match one.end {
                TransferEnd::Dropped(at) if one.size > 5_000_000 => Some(at),
                _ => None,
            });
        let took = dropped.unwrap().saturating_duration_since(cancelled);
        assert!(
            took < Duration::from_secs(3),
            "the pull was dropped after {took:?}"
        );
        runtime.settle().await;
        assert!(cancelled.elapsed() < Duration::from_secs(15));
        assert_eq!(case.world.ours().await, [""; 0]);
        assert!(!case.has(&slow).await, "half an image is none");
        runtime.shut_down().await;
    })
    .await;
}

/// Whether the daemon tells an image's platform before it pulls it.
async fn told_before(case: &RegistryWorld, image: &str) -> bool {
    let known = case.world.docker.inspect_registry_image(image, None).await;
    !known.unwrap().platforms.is_empty()
}

/// C70, in each of the forms that a manifest has.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_for_another_processor_is_refused_before_a_layer_is_sent() {
    with_registry("another_processor", |case| async move {
        let (own, other) = processors();
        let foreign = |mark: &str| image_for(other, &["serve", "8080"], mark);
        let docker = |mark: &str| foreign(mark).flavour(Flavour::Docker);
        case.registry.publish("other/docker", "1", &docker("d"));
        case.registry.publish("other/oci", "1", &foreign("o"));
        case.registry
            .publish_list("other/docker-list", "1", &[docker("dl")]);
        case.registry
            .publish_list("other/oci-list", "1", &[foreign("ol")]);
        let runtime = case.world.runtime().await;
        for name in ["other/docker", "other/oci", "other/docker-list", "other/oci-list"] {
            let image = case.registry.reference(name, "1");
            let result = runtime
                .ensure_topology(&of_image(&image), &case.world.scope("r1"))
                .await;
            let fault = result.err().unwrap();
            assert_eq!(fault.code, ErrorCode::BadRequest, "{name}: {fault}");
            for words in [
                format!("needs linux/{other}"),
                format!("runs linux/{own}"),
                "harnessSpec.services[0].image".to_owned(),
            ] {
                assert!(fault.message.contains(&words), "{name}: {fault}");
            }
            let sent = case.registry.transfers();
            let layers = sent
                .iter()
                .filter(|one| one.repository == name && one.size > 1_000);
            if told_before(&case, &image).await {
                assert_eq!(layers.count(), 0, "{name}: {sent:?}");
            } else {
                assert_eq!(
                    name, "other/oci",
                    "the one form that engine 20.10 doesn't look into"
                );
            }
            assert!(
                !case.has(&image).await,
                "{name}: what was fetched in vain is gone"
            );
            assert_eq!(case.world.ours().await, [""; 0], "{name}");
        }

        // A list that has this processor too is fine, and only its layers are sent.
        let both = [foreign("both"), image(&["serve", "8080"], "both")];
        case.registry.publish_list("other/both", "1", &both);
        let image = case.registry.reference("other/both", "1");
        let lease = runtime
            .ensure_topology(&of_image(&image), &case.world.scope("r2"))
            .await;
        lease.unwrap().release();
        assert_eq!(case.sent("other/both").len(), 2, "a layer and a configuration");
        runtime.shut_down().await;
    })
    .await;
}
