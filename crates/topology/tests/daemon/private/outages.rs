//! A daemon that is killed, or ends, under a topology and comes back.

use everdict_contracts::{FailureClass, Fault};
use everdict_topology::Origin;
use everdict_topology::runtime::{DockerTopologyRuntime, TopologyRuntime as _};
use serde_json::json;

use super::world::{PrivateWorld, in_private_world, until};
use crate::program::image;

/// Nothing of it is the harness' doing, and another try may do.
fn is_the_machines(fault: &Fault) {
    let failure = fault.failure();
    assert_eq!(
        (failure.class, failure.retryable),
        (FailureClass::Infra, true),
        "{failure:?}"
    );
}

/// After the daemon is back one sweep is enough, and the next case is well.
async fn all_is_well_again(world: &PrivateWorld, runtime: &DockerTopologyRuntime) {
    runtime.settle().await;
    runtime.sweep().await;
    assert_eq!(runtime.debts(), [], "leftovers are paid for");
    assert_eq!(world.everything().await, [""; 0]);
    let lease = runtime
        .ensure_topology(&world.harness(|_| {}), &world.scope("next"))
        .await
        .unwrap();
    assert_eq!(lease.origin(), Origin::Deployed);
    lease.release();
    assert_eq!(runtime.shut_down().await, []);
    assert_eq!(world.everything().await, [""; 0]);
}

/// A front door that never answers, so that the deployment goes on until something happens.
fn waiting(world: &PrivateWorld) -> everdict_contracts::ServiceHarness {
    let deaf = world.publish("deaf", &image(&["wait"], "deaf"));
    world.harness(|spec| spec["services"][0]["image"] = json!(deaf))
}

async fn one_runs(world: &PrivateWorld) {
    until("its container runs", || async {
        let rows = world.engine.list_containers(&[]).await.unwrap();
        rows.iter().any(|row| row.status.starts_with("Up"))
    })
    .await;
}

#[test]
fn a_daemon_killed_in_mid_deploy_is_the_machines_fault_and_leftovers_go_when_it_is_back() {
    in_private_world("daemon_killed_in_mid_deploy", &[], |world| async move {
        let runtime = world.impatient_runtime().await;
        let (spec, scope) = (waiting(&world), world.scope("r1"));
        let kill = async {
            one_runs(&world).await;
            world.daemon.kill();
        };
        let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), kill);
        is_the_machines(&result.err().unwrap());
        runtime.settle().await;
        assert!(!runtime.debts().is_empty(), "what couldn't go is remembered");
        let left = "cleanup_incomplete, to be tried again: everything of everdict-";
        assert!(world.log().contains(left), "{}", world.log());
        world.daemon.start().await;
        assert_ne!(
            world.everything().await,
            [""; 0],
            "the old containers are still there"
        );
        all_is_well_again(&world, &runtime).await;
    });
}

#[test]
fn a_daemon_that_ends_in_good_order_in_mid_deploy_is_the_machines_fault_too() {
    in_private_world("daemon_ends_in_mid_deploy", &[], |world| async move {
        let runtime = world.impatient_runtime().await;
        let (spec, scope) = (waiting(&world), world.scope("r1"));
        // It ends the containers first, and answers questions for a while longer.
        let end = async {
            one_runs(&world).await;
            world.daemon.ask_to_end();
        };
        let (result, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), end);
        is_the_machines(&result.err().unwrap());
        world.daemon.reap();
        world.daemon.start().await;
        all_is_well_again(&world, &runtime).await;
    });
}

#[test]
fn a_daemon_killed_under_a_topology_costs_one_case_and_the_next_is_well() {
    in_private_world("daemon_killed_under_a_topology", &[], |world| async move {
        let runtime = world.impatient_runtime().await;
        let spec = world.harness(|spec| spec["target"] = json!({"kind": "browser", "engine": "chromium"}));
        let scope = world.scope("r1");
        let lease = runtime.ensure_topology(&spec, &scope).await.unwrap();
        // As a case that is being driven: it learns of it by itself.
        let kill = async { world.daemon.kill() };
        let (broken, ()) = tokio::join!(runtime.broken(&lease), kill);
        is_the_machines(&broken);
        let browser = runtime.provision_browser(&lease, &scope).await;
        is_the_machines(&browser.err().unwrap());
        lease.release();
        let again = runtime.ensure_topology(&spec, &world.scope("r2")).await;
        is_the_machines(&again.err().unwrap());

        world.daemon.start().await;
        // Its containers have ended with it; no sweep comes first.
        let lease = runtime.ensure_topology(&spec, &world.scope("r3")).await.unwrap();
        assert_eq!(world.everything().await.len(), 2, "one container and its network");
        lease.release();
        runtime.sweep_idle(std::time::Duration::ZERO).await;
        all_is_well_again(&world, &runtime).await;
    });
}
