//! What registries say no with, in the words that the machine's daemon makes of it; and the disk budget.

use std::time::Duration;

use everdict_contracts::{ErrorCode, FailureClass};
use everdict_testkit::Registry;
use everdict_testkit::registry::{Refusal, Way};
use everdict_topology::labels::INSTALL;
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::{Value, json};

use crate::program::front_door;
use crate::registry::pull_as_the_member;
use crate::registry_world::{RegistryWorld, login, of_image, with_registry};
use crate::world::{eventually, harness};

/// Tries a harness of one image and gives out how it failed.
async fn failure(case: &RegistryWorld, image: &str) -> everdict_contracts::Fault {
    let runtime = case.world.runtime().await;
    let result = runtime
        .ensure_topology(&of_image(image), &case.world.scope("r1"))
        .await;
    let fault = result.err().unwrap();
    runtime.settle().await;
    assert_eq!(case.world.ours().await, [""; 0], "{image}");
    assert!(fault.message.contains("harnessSpec.services[0].image"), "{fault}");
    assert!(fault.message.contains(image), "{fault}");
    fault
}

const LIMITED: Refusal = Refusal {
    status: 429,
    code: "TOOMANYREQUESTS",
    message: "you have reached your pull rate limit",
};
const DENIED: Refusal = Refusal {
    status: 403,
    code: "DENIED",
    message: "requested access to the resource is denied",
};
const BROKEN: Refusal = Refusal {
    status: 503,
    code: "UNAVAILABLE",
    message: "the registry is being repaired",
};

#[tokio::test(flavor = "multi_thread")]
async fn every_no_of_a_registry_is_understood_in_the_daemons_own_words() {
    with_registry("every_no", |case| async move {
        case.registry.publish("shop/web", "1", &front_door("every-no"));
        let refuse = |name: &str, refusal: Refusal| {
            case.registry.refuse(name, refusal);
            case.registry.reference(name, "1")
        };
        let nobody = Registry::start().await;
        let away = nobody.reference("shop/web", "1");
        drop(nobody);
        let (config, infra) = (FailureClass::Config, FailureClass::Infra);
        let cases = [
            (case.registry.reference("shop/web", "2"), config, "doesn't exist"),
            (case.registry.reference("shop/nope", "1"), config, "doesn't exist"),
            (refuse("shop/denied", DENIED), config, "credential"),
            (refuse("shop/limited", LIMITED), infra, "limits pulls"),
            (refuse("shop/broken", BROKEN), infra, "can't be pulled"),
            (away, infra, "the registry doesn't answer"),
        ];
        let verdicts = cases.map(|(image, class, words)| {
            let case = &case;
            async move {
                let fault = failure(case, &image).await;
                assert_eq!(fault.failure().class, class, "{image}: {fault}");
                assert!(fault.message.contains(words), "{image}: {fault}");
            }
        });
        // At once: some are tried again after a pause.
        futures_util::future::join_all(verdicts).await;
        assert_eq!(case.registry.transfers().len(), 0, "not a byte was sent");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_has_enough_for_a_moment_is_asked_again() {
    with_registry("asked_again", |case| async move {
        case.registry.publish("shop/web", "1", &front_door("asked-again"));
        case.registry.refuse("shop/web", LIMITED);
        let web = case.registry.reference("shop/web", "1");
        let runtime = case.world.runtime().await;
        let (spec, scope) = (of_image(&web), case.world.scope("r1"));
        let heal = async {
            let told = || async { case.log().contains("again in 2 s") };
            eventually("the job is told", Duration::from_secs(20), told).await;
            case.registry.heal("shop/web");
        };
        let (lease, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), heal);
        lease.unwrap().release();
        runtime.shut_down().await;
    })
    .await;
}

/// Words of a login, which no failure may repeat.
const RIGHT: &str = "right-6b1f";
const WRONG: &str = "wrong-6b1f";

#[tokio::test(flavor = "multi_thread")]
async fn a_login_goes_to_the_registry_it_is_for_and_only_the_right_one_opens_it() {
    with_registry("logins", |case| async move {
        for (way, name) in [(Way::Basic, "basic"), (Way::Token, "token")] {
            let closed = Registry::start().await;
            closed.publish("shop/private", "1", &front_door(&format!("private-{name}")));
            closed.close_to_all_but("ann", RIGHT, way);
            let public = front_door(&format!("public-{name}"));
            case.registry.publish("shop/public", name, &public);
            one_login_opens_it(&case, &closed, name).await;
            remove(&case, &closed.reference("shop/private", "1")).await;
        }
    })
    .await;
}

async fn one_login_opens_it(case: &RegistryWorld, closed: &Registry, name: &str) {
    let runtime = case.world.runtime().await;
    let spec = harness(|spec| {
        spec["version"] = json!(name);
        let private = closed.reference("shop/private", "1");
        let other = json!({"name": "private", "image": private, "port": 8080});
        spec["services"][0]["image"] = json!(case.registry.reference("shop/public", name));
        spec["services"].as_array_mut().unwrap().push(other);
    });
    // The right words for another place, none, and the wrong words for this one.
    let wrong = [
        vec![login("127.0.0.1:1", "ann", RIGHT)],
        vec![],
        vec![login(closed.host(), "ann", WRONG)],
    ];
    let hint = format!("credential for `{}`", closed.host());
    for credentials in wrong {
        let mut scope = case.world.scope("r1");
        scope.credentials = credentials;
        let fault = runtime.ensure_topology(&spec, &scope).await.err().unwrap();
        assert_eq!(fault.code, ErrorCode::BadRequest, "{name}: {fault}");
        for words in [&hint, "harnessSpec.services[1].image"] {
            assert!(fault.message.contains(words), "{name}: {fault}");
        }
        for secret in [RIGHT, WRONG] {
            assert!(!fault.message.contains(secret) && !case.log().contains(secret));
        }
        assert!(closed.transfers().is_empty(), "{name}: not a byte was sent");
    }
    let asked = closed.asked("").len();
    let mut scope = case.world.scope("r2");
    scope.credentials = vec![
        login("127.0.0.1:1", "bob", "other"),
        login(closed.host(), "ann", RIGHT),
    ];
    runtime.ensure_topology(&spec, &scope).await.unwrap().release();
    let users = |registry: &Registry, from: usize| -> Vec<String> {
        let asked = registry.asked("").split_off(from);
        asked.into_iter().filter_map(|one| one.user).collect()
    };
    let here = users(closed, asked);
    assert!(
        !here.is_empty() && here.iter().all(|user| user == "ann"),
        "{here:?}"
    );
    assert_eq!(
        users(&case.registry, 0),
        [""; 0],
        "the other registry hears nothing of it"
    );
    runtime.shut_down().await;
}

async fn remove(case: &RegistryWorld, image: &str) {
    let options = bollard::query_parameters::RemoveImageOptionsBuilder::default()
        .force(true)
        .build();
    case.world
        .docker
        .remove_image(image, Some(options), None)
        .await
        .unwrap();
}

/// Puts the last use of every image days back, the higher the number the longer ago; nothing is evicted fresh.
fn age(case: &RegistryWorld) {
    let path = case.world.state.path().join("images/images.json");
    let mut ledger: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for entry in ledger.as_object_mut().unwrap().values_mut() {
        let name = entry["reference"].as_str().unwrap().to_owned();
        let number: u64 = name
            .trim_end_matches(":1")
            .rsplit('-')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        entry["usedAt"] = json!(entry["usedAt"].as_u64().unwrap() - (1 + number) * 86_400);
    }
    std::fs::write(path, ledger.to_string()).unwrap();
}

async fn size(case: &RegistryWorld, image: &str) -> u64 {
    let found = case.world.docker.inspect_image(image).await.unwrap();
    found.size.unwrap().try_into().unwrap()
}

/// A container that is only created holds its image as much as one that runs.
async fn container_of(case: &RegistryWorld, image: &str) -> String {
    let body = bollard::models::ContainerCreateBody {
        image: Some(image.to_owned()),
        labels: Some([(INSTALL.to_owned(), case.world.install.clone())].into()),
        ..Default::default()
    };
    let options = None::<bollard::query_parameters::CreateContainerOptions>;
    case.world
        .docker
        .create_container(options, body)
        .await
        .unwrap()
        .id
}

/// C23 with megabytes for gigabytes.
#[tokio::test(flavor = "multi_thread")]
async fn over_budget_only_our_least_recently_used_images_go() {
    with_registry("image_budget", |case| async move {
        let publish = |name: String| {
            case.registry.publish(&name, "1", &front_door(&name));
            case.registry.reference(&name, "1")
        };
        let theirs: Vec<String> = (0..2)
            .map(|number| publish(format!("members/own-{number}")))
            .collect();
        let ours: Vec<String> = (0..5)
            .map(|number| publish(format!("shop/ours-{number}")))
            .collect();
        for image in &theirs {
            pull_as_the_member(&case, image).await;
        }
        let keeper = case.keeper(|_| {});
        for image in ours.iter().chain(&theirs) {
            case.ensure(&keeper, image).await;
        }
        let each = size(&case, &ours[0]).await;
        // Room for two and a half; the least recently used of all is what a container is made of.
        let keeper = case.keeper(|options| options.budget_bytes = Some(each * 5 / 2));
        let container = container_of(&case, &ours[4]).await;
        age(&case);
        let used = keeper.usage(&case.world.engine).await.unwrap();
        assert_eq!(
            (used.ours.len(), used.ours_bytes),
            (5, 5 * each),
            "the member's aren't ours"
        );
        let trimmed = keeper.trim(&case.world.engine).await.unwrap();
        assert_eq!(
            trimmed.removed,
            [ours[3].clone(), ours[2].clone(), ours[1].clone()]
        );
        assert_eq!(trimmed.freed_bytes, 3 * each);
        for image in theirs.iter().chain([&ours[0], &ours[4]]) {
            assert!(case.has(image).await, "{image} stays");
        }
        for image in &ours[1..4] {
            assert!(!case.has(image).await, "{image} went");
        }
        let again = keeper.trim(&case.world.engine).await.unwrap();
        assert_eq!(again.removed, [""; 0], "within the budget now");
        case.world.engine.remove_container(&container).await.unwrap();
    })
    .await;
}
