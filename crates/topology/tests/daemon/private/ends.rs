//! Containers that end, on a daemon that tells when they did; and what goes with them.

use std::time::Duration;

use everdict_contracts::{ErrorCode, Fault, ServiceHarness};
use everdict_testkit::RegistryImage;
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use super::world::{PrivateWorld, in_private_world, until};
use crate::program::{front_door, image};

/// How long ago the container of a member ended, by the daemon's own account.
async fn since_its_end(world: &PrivateWorld, member: &str) -> Duration {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let events = world.events().await;
    let end = events.into_iter().rev().find_map(|event| {
        let names = event.actor?.attributes?;
        let it = event.action.as_deref() == Some("die") && names.get("name")?.contains(member);
        it.then_some(event.time_nano?)
    });
    now.checked_sub(Duration::from_nanos(end.unwrap().try_into().unwrap()))
        .unwrap()
}

/// Fifty lines of the sixty that it printed.
fn has_the_last_fifty_lines(fault: &Fault) {
    let log = fault.extra.log_tail.as_deref().unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 50, "{log}");
    assert_eq!((lines[0], lines[49]), ("line 11", "line 60"), "{log}");
}

/// A front door that waits for a migration.
fn migrating(world: &PrivateWorld, migration: &str) -> ServiceHarness {
    world.harness(|spec| {
        spec["services"][0]["needs"] = json!(["migrate"]);
        let migrate = json!({"name": "migrate", "image": migration});
        spec["services"].as_array_mut().unwrap().push(migrate);
    })
}

/// C72, both halves.
#[test]
fn what_waits_for_a_migration_starts_after_a_good_end_and_a_bad_one_fails_within_two_seconds() {
    in_private_world("migrations", &[], |world| async move {
        let well = world.publish("well", &image(&["exit", "0", "500"], "well"));
        let badly = world.publish("badly", &image(&["exit", "1", "500"], "badly"));
        let runtime = world.runtime().await;
        let lease = runtime
            .ensure_topology(&migrating(&world, &well), &world.scope("r1"))
            .await
            .unwrap();
        let state = async |member: &str| {
            let id = lease.containers()[member].to_owned();
            world
                .docker
                .inspect_container(&id, None)
                .await
                .unwrap()
                .state
                .unwrap()
        };
        let (migrate, web) = (state("migrate").await, state("web").await);
        assert_eq!(migrate.exit_code, Some(0));
        assert!(migrate.finished_at <= web.started_at, "{migrate:?} {web:?}");
        lease.release();
        runtime.sweep_idle(Duration::ZERO).await;

        let result = runtime
            .ensure_topology(&migrating(&world, &badly), &world.scope("r2"))
            .await;
        let took = since_its_end(&world, "migrate").await;
        let fault = result.err().unwrap();
        assert!(took < Duration::from_secs(2), "{took:?} after its end");
        for words in ["service migrate", "exit code 1"] {
            assert!(fault.message.contains(words), "{fault}");
        }
        has_the_last_fifty_lines(&fault);
        let starts = world.events().await;
        let web = starts.iter().filter(|event| {
            let name = event
                .actor
                .as_ref()
                .and_then(|actor| actor.attributes.as_ref()?.get("name"));
            event.action.as_deref() == Some("start") && name.is_some_and(|name| name.contains("web"))
        });
        assert_eq!(web.count(), 1, "that of the first topology");
        assert_eq!(world.everything().await, [""; 0]);
    });
}

/// C73: it dies after a second, of a minute that it may take.
#[test]
fn a_service_that_dies_after_a_second_of_a_minute_fails_the_case_within_three() {
    in_private_world("dies_after_a_second", &[], |world| async move {
        let dying = world.publish("dying", &image(&["exit", "3", "1000"], "dying"));
        let runtime = world.runtime().await;
        let spec = world.harness(|spec| {
            spec["services"][0]["image"] = json!(dying);
            spec["services"][0]["readiness"] = json!({"timeoutMs": 60_000});
        });
        let result = runtime.ensure_topology(&spec, &world.scope("r1")).await;
        let took = since_its_end(&world, "web").await;
        let fault = result.err().unwrap();
        assert!(took < Duration::from_secs(2), "{took:?} after its end");
        for words in ["service web", "exit code 3"] {
            assert!(fault.message.contains(words), "{fault}");
        }
        assert_eq!(fault.code, ErrorCode::HarnessInstallFailed, "no memory to blame");
        has_the_last_fifty_lines(&fault);
        assert_eq!(world.everything().await, [""; 0]);
    });
}

async fn volumes(world: &PrivateWorld) -> usize {
    world.engine.list_volumes(&[]).await.unwrap().len()
}

fn with_volume(image: RegistryImage) -> RegistryImage {
    image.with("Volumes", json!({"/data": {}}))
}

/// C18: an image that declares a volume, and three ways in which a job ends.
#[test]
fn the_volumes_of_an_image_are_as_many_as_before_however_the_job_ends() {
    in_private_world("volumes_of_an_image", &[], |world| async move {
        let well = world.publish("well", &with_volume(front_door("well")));
        let deaf = world.publish("deaf", &with_volume(image(&["wait"], "deaf")));
        let runtime = world.runtime().await;
        let of = |image: &str, timeout: u64| {
            world.harness(|spec| {
                spec["services"][0]["image"] = json!(image);
                spec["services"][0]["readiness"] = json!({"timeoutMs": timeout});
            })
        };
        let lease = runtime
            .ensure_topology(&of(&well, 60_000), &world.scope("r1"))
            .await
            .unwrap();
        assert_eq!(volumes(&world).await, 1);
        lease.release();
        runtime.sweep_idle(Duration::ZERO).await;
        assert_eq!(world.everything().await, [""; 0], "after a good end");

        let scope = world.scope("r2");
        let spec = of(&deaf, 60_000);
        let cancel = async {
            until("it has its volume", || async { volumes(&world).await == 1 }).await;
            scope.cancel.cancel();
        };
        let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), cancel);
        assert_eq!(result.err().unwrap().code, ErrorCode::Cancelled);
        runtime.settle().await;
        assert_eq!(world.everything().await, [""; 0], "after a cancel");

        let result = runtime
            .ensure_topology(&of(&deaf, 1_000), &world.scope("r3"))
            .await;
        assert!(result.err().unwrap().message.contains("not ready within 1.0 s"));
        assert_eq!(world.everything().await, [""; 0], "after a time-out");
        let events = world.events().await;
        let made = events.iter().filter(|event| {
            let volume = event.typ.map(|kind| kind.to_string()).as_deref() == Some("volume");
            volume && event.action.as_deref() == Some("create")
        });
        assert_eq!(made.count(), 3, "there was one each time");
    });
}
