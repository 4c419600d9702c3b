//! Topologies of cases with a network policy of their own.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use everdict_contracts::{EvalCase, decode};
use everdict_topology::egress::{CaseNetwork, EgressMode};
use everdict_topology::runtime::{CaseScope, TopologyRuntime as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::egress::{METADATA, pair, reach, stranger, with_metadata};
use crate::world::{World, in_world, in_world_with};

fn declared(network: Value) -> CaseNetwork {
    let case = json!({"id": "c", "env": {"kind": "prompt"}, "task": "t", "graders": [], "network": network});
    CaseNetwork::of_case(&decode::<EvalCase>(case).unwrap()).unwrap()
}

fn scope(world: &World, run: &str, network: Value) -> CaseScope {
    CaseScope {
        network: declared(network),
        ..world.scope(run)
    }
}

async fn a_topology_reaches_what_its_case_declares(world: Arc<World>) {
    let runtime = world.runtime().await;
    let (stranger, other) = stranger(&world, "lan").await;
    let hub = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let port = hub.local_addr().unwrap().port();
    let (other, host) = (other.to_string(), "host.docker.internal");

    let only = scope(
        &world,
        "r1",
        json!({"mode": "allowlist", "allowedHosts": [METADATA]}),
    );
    let only = (runtime.ensure_topology(&pair(), &only).await.unwrap(), only);
    let none = scope(&world, "r2", json!({"mode": "none"}));
    let none = (runtime.ensure_topology(&pair(), &none).await.unwrap(), none);
    let public = runtime
        .ensure_topology(&pair(), &world.scope("r3"))
        .await
        .unwrap();
    // Each policy has a topology of its own.
    let mut names = vec![&only.0.plan().name, &none.0.plan().name, &public.plan().name];
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3);

    let webs = [&only, &none].map(|(lease, _)| lease.containers()["web"].to_owned());
    with_metadata(&world, &stranger, &[&webs[0], &webs[1]]).await;

    for ((lease, scope), to_declared) in [(&only, "open"), (&none, "refused")] {
        let web = lease.containers()["web"].to_owned();
        assert_eq!(reach(&world, &web, "peer", 8080).await, "open");
        assert_eq!(reach(&world, &web, METADATA, 8080).await, to_declared);
        for (place, port) in [(&*other, 8080), ("198.51.100.1", 80), (&*other, 53), (host, port)] {
            assert_eq!(
                reach(&world, &web, place, port).await,
                "refused",
                "{place}:{port}"
            );
        }
        // The case's own way back to the runner works under any policy.
        let limit = Duration::from_secs(60);
        runtime
            .open_to_callbacks(lease, scope, port, limit)
            .await
            .unwrap();
        assert_eq!(reach(&world, &web, host, port).await, "open");
        for endpoint in lease.endpoints().values() {
            let address = endpoint.trim_start_matches("http://");
            tokio::net::TcpStream::connect(address).await.unwrap();
        }
    }
    // The same policy again is the same topology.
    let again = scope(&world, "r4", json!({"mode": "none"}));
    let again = runtime.ensure_topology(&pair(), &again).await.unwrap();
    assert_eq!(again.containers(), none.0.containers());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topology_reaches_what_its_case_declares_and_nothing_else() {
    in_world("topology_policy", a_topology_reaches_what_its_case_declares).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topology_reaches_what_its_case_declares_and_nothing_else_by_helpers() {
    in_world_with(
        "topology_policy_gate",
        EgressMode::Gate,
        a_topology_reaches_what_its_case_declares,
    )
    .await;
}

/// A policy that nobody holds the topology to would make it another case.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_nobody_sees_to_is_refused_before_anything_is_made() {
    in_world_with("policy_is_refused", EgressMode::Open, |world| async move {
        let runtime = world.runtime().await;
        for network in [
            json!({"mode": "none"}),
            json!({"mode": "allowlist", "allowedHosts": ["192.0.2.7"]}),
        ] {
            let scope = scope(&world, "r1", network);
            let fault = runtime.ensure_topology(&pair(), &scope).await.err().unwrap();
            assert!(fault.message.starts_with("evalCase.network: "), "{fault}");
            assert!(fault.message.contains("topology.egress"), "{fault}");
        }
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}
