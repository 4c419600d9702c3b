//! A daemon that takes calls and never answers: the process is stopped, the socket is open.

use std::time::Duration;

use everdict_contracts::FailureClass;
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use super::world::{in_private_world, timed};

#[test]
fn a_clean_up_that_a_silent_daemon_never_answers_is_given_up_named_and_done_when_it_wakes() {
    in_private_world("daemon_silent_in_clean_up", &[], |world| async move {
        let runtime = world.impatient_runtime().await;
        let spec = world.harness(|_| {});
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let topology = lease.plan().name.clone();
        let before = world.everything().await;
        lease.release();
        world.daemon.freeze();
        let (taken, took) = timed(runtime.sweep_idle(Duration::ZERO)).await;
        assert_eq!(taken, [""; 0], "it isn't gone");
        // Two seconds are this runtime's limit for a whole clean-up.
        assert!((1..6).contains(&took.as_secs()), "it gives up: {took:?}");
        let debts: Vec<String> = runtime.debts().iter().map(ToString::to_string).collect();
        assert!(
            debts.iter().any(|debt| debt.contains(&topology)),
            "names what is left: {debts:?}"
        );

        // Whoever comes now isn't held up by the old debt, and is told in the case's own time that the machine is at fault.
        let other = world.harness(|spec| spec["version"] = json!("2.0.0"));
        let mut scope = world.scope("r2");
        scope.deadline = Some(tokio::time::Instant::now() + Duration::from_secs(2));
        let (result, took) = timed(runtime.ensure_topology(&other, &scope)).await;
        let failure = result.err().unwrap().failure();
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Infra, true),
            "{failure:?}"
        );

        world.daemon.thaw();
        assert_eq!(
            world.everything().await,
            before,
            "a removal that nobody answered was none"
        );
        let lease = runtime.ensure_topology(&other, &world.scope("r3")).await.unwrap();
        runtime.sweep().await;
        assert_eq!(runtime.debts(), []);
        assert_eq!(world.everything().await.len(), 2, "the one in use stays");
        lease.release();
        assert_eq!(runtime.shut_down().await, []);
        assert_eq!(world.everything().await, [""; 0]);
    });
}
