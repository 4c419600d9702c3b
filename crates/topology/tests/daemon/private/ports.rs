//! Host ports that are gone when the daemon binds them: it may choose among four, and others hold them.

use std::net::{Ipv4Addr, TcpListener};

use everdict_contracts::FailureClass;
use everdict_topology::runtime::TopologyRuntime as _;

use super::world::{PrivateWorld, in_prepared_world, until};

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const CHOICE: std::ops::RangeInclusive<u16> = 40_000..=40_003;

/// Everybody else has all ports again once the daemon is up.
struct Narrow;

impl Drop for Narrow {
    fn drop(&mut self) {
        std::fs::write(RANGE, "32768 60999").unwrap();
    }
}

/// The daemon reads at its start among which ports it may choose.
fn narrow() -> Narrow {
    std::fs::write(RANGE, format!("{} {}", CHOICE.start(), CHOICE.end())).unwrap();
    Narrow
}

/// Takes the ports that the daemon is left with.
fn take_all() -> Vec<TcpListener> {
    let take = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    CHOICE.map(take).collect()
}

/// How many starts the daemon had to give up.
fn failed_starts(world: &PrivateWorld) -> usize {
    let log = world.daemon.log();
    let failed =
        |line: &&str| line.contains("/start returned error") && line.contains("address already in use");
    log.lines().filter(failed).count()
}

#[test]
fn a_port_that_somebody_took_before_the_bind_is_tried_again() {
    in_prepared_world("port_taken_then_free", &[], narrow, |world| async move {
        let taken = take_all();
        let runtime = world.runtime().await;
        let (spec, scope) = (world.harness(|_| {}), world.scope("r1"));
        let free = async {
            until("a start has failed", || async { failed_starts(&world) > 0 }).await;
            drop(taken);
        };
        let (lease, ()) = tokio::join!(runtime.ensure_topology(&spec, &scope), free);
        let lease = lease.unwrap();
        let endpoint = &lease.endpoints()["web"];
        assert!(
            CHOICE
                .into_iter()
                .any(|port| endpoint.ends_with(&port.to_string())),
            "{endpoint}"
        );
        lease.release();
        assert_eq!(runtime.shut_down().await, []);
        assert_eq!(world.everything().await, [""; 0]);
    });
}

#[test]
fn ports_that_stay_taken_are_the_machines_fault_after_three_tries() {
    in_prepared_world("ports_stay_taken", &[], narrow, |world| async move {
        let taken = take_all();
        let runtime = world.runtime().await;
        let spec = world.harness(|_| {});
        let result = runtime.ensure_topology(&spec, &world.scope("r1")).await;
        let failure = result.err().unwrap().failure();
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Infra, true),
            "{failure:?}"
        );
        assert!(
            failure.message.contains("address already in use"),
            "{}",
            failure.message
        );
        assert_eq!(failed_starts(&world), 3);
        runtime.settle().await;
        assert_eq!(
            world.everything().await,
            [""; 0],
            "the container that was only created goes too"
        );
        drop(taken);
    });
}
