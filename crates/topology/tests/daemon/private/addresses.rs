//! A daemon whose address ranges run out.

use std::time::Duration;

use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};
use everdict_contracts::{FailureClass, ServiceHarness};
use everdict_topology::runtime::{TopologyLease, TopologyRuntime as _};
use futures_util::future::join_all;
use serde_json::json;

use super::world::{PrivateWorld, in_private_world};
use crate::case::harness_of;
use crate::program::front_door;

/// Four ranges, one of which is the default bridge's.
const FOUR_RANGES: [&str; 1] = ["--default-address-pool=base=10.77.0.0/26,size=28"];

fn numbered(web: &str, number: usize) -> ServiceHarness {
    harness_of(web, |spec| spec["version"] = json!(format!("{number}.0.0")))
}

async fn member_s_network(world: &PrivateWorld, name: &str, subnet: Option<&str>) -> Result<(), String> {
    let ipam = subnet.map(|subnet| Ipam {
        config: Some(vec![IpamConfig {
            subnet: Some(subnet.to_owned()),
            ..IpamConfig::default()
        }]),
        ..Ipam::default()
    });
    let request = NetworkCreateRequest {
        name: name.to_owned(),
        ipam,
        ..NetworkCreateRequest::default()
    };
    let made = world.docker.create_network(request).await;
    made.map(drop).map_err(|error| error.to_string())
}

#[test]
fn more_topologies_than_the_daemon_has_ranges_for_stand_in_a_row_and_at_once() {
    in_private_world("more_topologies_than_ranges", &FOUR_RANGES, |world| async move {
        let web = world.publish("web", &front_door("web"));
        let runtime = world.runtime().await;
        let mut leases = Vec::new();
        for number in 0..6 {
            let scope = world.scope(&format!("r{number}"));
            leases.push(
                runtime
                    .ensure_topology(&numbered(&web, number), &scope)
                    .await
                    .unwrap(),
            );
        }
        let at_once = (6..14).map(|number| {
            let (runtime, web, scope) = (&runtime, &web, world.scope(&format!("r{number}")));
            async move { runtime.ensure_topology(&numbered(web, number), &scope).await }
        });
        for lease in join_all(at_once).await {
            leases.push(lease.unwrap());
        }
        let networks = world.engine.list_networks(&[]).await.unwrap();
        let own = networks
            .iter()
            .filter(|row| row.subnets.iter().any(|net| net.starts_with("10.77.")));
        assert_eq!(own.count(), 4, "the daemon's own ranges were used up");
        leases.into_iter().for_each(TopologyLease::release);
        runtime.sweep_idle(Duration::ZERO).await;
        assert_eq!(runtime.shut_down().await, []);
        assert_eq!(world.everything().await, [""; 0]);
    });
}

#[test]
fn ranges_that_others_have_used_up_are_named_and_how_few_are_ours() {
    in_private_world("ranges_used_up_by_others", &FOUR_RANGES, |world| async move {
        for number in 0..3 {
            member_s_network(&world, &format!("theirs-{number}"), None)
                .await
                .unwrap();
        }
        let words = member_s_network(&world, "one-too-many", None).await.unwrap_err();
        assert!(words.contains("address pool"), "there is none left: {words}");
        member_s_network(&world, "theirs-wide", Some("10.231.0.0/16"))
            .await
            .unwrap();
        let before = world.everything().await;

        let runtime = world.runtime().await;
        let spec = world.harness(|_| {});
        let result = runtime.ensure_topology(&spec, &world.scope("r1")).await;
        let failure = result.err().unwrap().failure();
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Infra, true),
            "{failure:?}"
        );
        for words in ["no address range is free", "ours: 0", "docker network prune"] {
            assert!(failure.message.contains(words), "{}", failure.message);
        }
        assert!(!failure.message.contains("predefined"), "{}", failure.message);
        runtime.settle().await;
        assert_eq!(
            world.everything().await,
            before,
            "what is theirs stays, nothing else is there"
        );
    });
}
