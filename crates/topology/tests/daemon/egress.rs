//! What containers reach, and what they don't: each refusal is shown beside a container that the same rules leave alone.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HostConfig, Ipam, IpamConfig,
    NetworkConnectRequest, NetworkCreateRequest,
};
use bollard::query_parameters::StartContainerOptions;
use everdict_contracts::{EvalCase, ServiceHarness, decode};
use everdict_topology::case_container::CaseSpec;
use everdict_topology::egress::{Egress, EgressMode, Through};
use everdict_topology::engine::ExecRequest;
use everdict_topology::labels::INSTALL;
use everdict_topology::prepared;
use everdict_topology::process::this_owner;
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::case_image::containers;
use crate::world::{FRONT_DOOR, World, eventually, harness, in_world, in_world_with};

pub const METADATA: &str = "169.254.169.254";

/// Two services that know each other.
pub fn pair() -> ServiceHarness {
    harness(|spec| {
        spec["services"] = json!([
            {"name": "web", "image": FRONT_DOOR, "port": 8080},
            {"name": "peer", "image": FRONT_DOOR, "port": 8080},
        ]);
    })
}

/// Tries to connect from within a container: `open`, `refused` when it is told at once that it may not, else what it met.
pub async fn reach(world: &World, container: &str, host: &str, port: u16) -> String {
    let script = format!(
        "import socket,errno\n\
         try:\n  socket.create_connection(('{host}', {port}), 4); print('open')\n\
         except OSError as e:\n  print('refused' if e.errno == errno.EHOSTUNREACH else repr(e))\n"
    );
    let argv = ["python3".to_owned(), "-c".to_owned(), script];
    let request = ExecRequest::new(argv, Duration::from_secs(20));
    let outcome = world.engine.exec(container, request).await.unwrap();
    let text = [outcome.stdout, outcome.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// A container of nobody's topology that answers on ports 8080 and 53, on the default bridge.
pub async fn stranger(world: &World, name: &str) -> (String, IpAddr) {
    let serve = "import threading,http.server as h\n\
                 f=lambda p: h.HTTPServer(('',p),h.SimpleHTTPRequestHandler).serve_forever()\n\
                 threading.Thread(target=f,args=(53,)).start(); f(8080)";
    let body = ContainerCreateBody {
        image: Some(FRONT_DOOR.to_owned()),
        entrypoint: Some(vec!["python3".to_owned()]),
        cmd: Some(vec!["-c".to_owned(), serve.to_owned()]),
        labels: Some([(INSTALL.to_owned(), world.install.clone())].into()),
        host_config: Some(HostConfig {
            init: Some(true),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = bollard::query_parameters::CreateContainerOptionsBuilder::default()
        .name(&format!("{name}-{}", world.tag()))
        .build();
    let id = world
        .docker
        .create_container(Some(options), body)
        .await
        .unwrap()
        .id;
    world
        .docker
        .start_container(&id, None::<StartContainerOptions>)
        .await
        .unwrap();
    let view = world.engine.inspect_container(&id).await.unwrap();
    let address = *view.addresses.values().next().unwrap();
    eventually("the stranger listens", Duration::from_secs(20), || async {
        reach(world, &id, "127.0.0.1", 8080).await == "open"
    })
    .await;
    (id, address)
}

/// Puts a stranger at the address where clouds have their credentials, and a container beside it.
pub async fn with_metadata(world: &World, stranger: &str, containers: &[&str]) {
    let network = NetworkCreateRequest {
        name: format!("metadata-{}", world.tag()),
        ipam: Some(Ipam {
            config: Some(vec![IpamConfig {
                subnet: Some("169.254.169.0/24".to_owned()),
                ..IpamConfig::default()
            }]),
            ..Ipam::default()
        }),
        labels: Some([(INSTALL.to_owned(), world.install.clone())].into()),
        ..NetworkCreateRequest::default()
    };
    // There can be only one such network, and another test may have it.
    let end = std::time::Instant::now() + Duration::from_secs(90);
    let id = loop {
        match world.docker.create_network(network.clone()).await {
            Ok(made) => break made.id,
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let connect = async |container: &str, address: Option<&str>| {
        let endpoint = EndpointSettings {
            ipam_config: address.map(|address| EndpointIpamConfig {
                ipv4_address: Some(address.to_owned()),
                ..EndpointIpamConfig::default()
            }),
            ..EndpointSettings::default()
        };
        let request = NetworkConnectRequest {
            container: container.to_owned(),
            endpoint_config: Some(endpoint),
        };
        world.docker.connect_network(&id, request).await.unwrap();
    };
    connect(stranger, Some(METADATA)).await;
    for container in containers {
        connect(container, None).await;
    }
}

/// Who is to see to it: a process without rights has a helper do it.
async fn enforced(world: &World, by: Through) {
    use std::os::unix::fs::MetadataExt as _;
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let by = if root { by } else { Through::Gate };
    let egress = world.engine.egress().await.unwrap();
    assert_eq!(
        egress,
        Egress::Enforced(by),
        "these tests need the means to enforce"
    );
}

async fn services_reach_their_peers(world: Arc<World>, by: Through) {
    enforced(&world, by).await;
    let (runtime, scope) = (world.runtime().await, world.scope("r1"));
    let lease = runtime.ensure_topology(&pair(), &scope).await.unwrap();
    let web = lease.containers()["web"].to_owned();
    let view = world.engine.inspect_container(&web).await.unwrap();
    let gateway = *view.gateways.values().next().unwrap();
    let (stranger, _) = stranger(&world, "cloud").await;

    // The same image with the same network, which nobody holds back.
    let free = world.loose(lease.network()).await;
    with_metadata(&world, &stranger, &[&web, &free]).await;
    let hub = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let port = hub.local_addr().unwrap().port();

    let tries = [
        (gateway.to_string(), port),
        ("host.docker.internal".to_owned(), port),
        (METADATA.to_owned(), 8080),
    ];
    for (host, port) in tries {
        assert_eq!(reach(&world, &web, &host, port).await, "refused", "{host}");
        assert_eq!(reach(&world, &free, &host, port).await, "open", "{host}");
    }
    assert_eq!(reach(&world, &web, "peer", 8080).await, "open");
    assert_eq!(reach(&world, &web, "127.0.0.1", 8080).await, "open");
    // Name servers may be anywhere.
    assert_eq!(reach(&world, &web, METADATA, 53).await, "open");
    // Published ports go on working, and so does the runner's own way in.
    for endpoint in lease.endpoints().values() {
        let address = endpoint.trim_start_matches("http://");
        tokio::net::TcpStream::connect(address).await.unwrap();
    }
    assert!(
        !world.said("egress rules"),
        "it works, so there is nothing to say"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn services_reach_their_peers_and_neither_the_machine_nor_metadata() {
    in_world("services_reach_their_peers", |world| {
        services_reach_their_peers(world, Through::Runner)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_reach_their_peers_and_neither_the_machine_nor_metadata_by_a_helper() {
    in_world_with("services_reach_their_peers_gate", EgressMode::Gate, |world| {
        services_reach_their_peers(world, Through::Gate)
    })
    .await;
}

/// The way to the listener is open to the case's containers while the case waits, and only its port.
async fn a_callback_opens_its_port(world: Arc<World>, by: Through) {
    enforced(&world, by).await;
    let (runtime, scope) = (world.runtime().await, world.scope("r1"));
    let lease = runtime.ensure_topology(&pair(), &scope).await.unwrap();
    let web = lease.containers()["web"].to_owned();
    let listen = async || TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let (ours, other) = (listen().await, listen().await);
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let host = "host.docker.internal";
    assert_eq!(reach(&world, &web, host, port(&ours)).await, "refused");

    let limit = Duration::from_secs(60);
    runtime
        .open_to_callbacks(&lease, &scope, port(&ours), limit)
        .await
        .unwrap();
    assert_eq!(reach(&world, &web, host, port(&ours)).await, "open");
    assert_eq!(reach(&world, &web, host, port(&other)).await, "refused");
    // Another process that finds the topology puts the rules up again: what is open stays so.
    let second = world
        .runtime_of(this_owner(world.install.clone(), "second"))
        .await;
    drop(second.ensure_topology(&pair(), &scope).await.unwrap());
    assert_eq!(reach(&world, &web, host, port(&ours)).await, "open");

    runtime
        .close_to_callbacks(&lease, &scope, port(&ours))
        .await
        .unwrap();
    assert_eq!(reach(&world, &web, host, port(&ours)).await, "refused");
    runtime
        .open_to_callbacks(&lease, &scope, port(&ours), Duration::from_secs(1))
        .await
        .unwrap();
    eventually(
        "an open port closes by itself",
        Duration::from_secs(20),
        || async { reach(&world, &web, host, port(&ours)).await == "refused" },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_opens_its_port_and_no_other() {
    in_world("a_callback_opens_its_port", |world| {
        a_callback_opens_its_port(world, Through::Runner)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_opens_its_port_and_no_other_by_a_helper() {
    in_world_with("a_callback_opens_its_port_gate", EgressMode::Gate, |world| {
        a_callback_opens_its_port(world, Through::Gate)
    })
    .await;
}

fn case(network: &Value) -> CaseSpec {
    let mut case =
        json!({"id": "c", "env": {"kind": "prompt"}, "task": "t", "graders": [], "image": FRONT_DOOR});
    if !network.is_null() {
        case["network"] = network.clone();
    }
    CaseSpec::of_case(&decode::<EvalCase>(case).unwrap())
        .unwrap()
        .unwrap()
}

async fn a_case_reaches_no_neighbour(world: Arc<World>, by: Through) {
    enforced(&world, by).await;
    let (_, lan) = stranger(&world, "lan").await;
    let (_, other) = stranger(&world, "other").await;
    let hub = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
    let port = hub.local_addr().unwrap().port();
    let cases = containers(&world, this_owner(world.install.clone(), "runner"));
    let scope = world.scope("r1");
    let host = "host.docker.internal";

    let plain = cases.start(&case(&Value::Null), &scope).await.unwrap();
    assert_eq!(reach(&world, plain.id(), &lan.to_string(), 8080).await, "refused");
    assert_eq!(reach(&world, plain.id(), &lan.to_string(), 53).await, "open");
    assert_eq!(reach(&world, plain.id(), host, port).await, "refused");

    let declared = json!({"mode": "allowlist", "allowedHosts": [lan.to_string()]});
    let declared = cases.start(&case(&declared), &scope).await.unwrap();
    assert_eq!(reach(&world, declared.id(), &lan.to_string(), 8080).await, "open");
    assert_eq!(
        reach(&world, declared.id(), &other.to_string(), 8080).await,
        "refused"
    );
    // A list is all that there is: no internet, no name servers beside it.
    assert_eq!(reach(&world, declared.id(), "198.51.100.1", 80).await, "refused");
    assert_eq!(
        reach(&world, declared.id(), &other.to_string(), 53).await,
        "refused"
    );
    assert_eq!(reach(&world, declared.id(), host, port).await, "refused");

    let machine = json!({"mode": "allowlist", "allowedHosts": [host]});
    let machine = cases.start(&case(&machine), &scope).await.unwrap();
    assert_eq!(reach(&world, machine.id(), host, port).await, "open");
    for container in [plain, declared, machine] {
        assert_eq!(container.remove().await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_reaches_no_neighbour_unless_it_declares_one() {
    in_world("a_case_reaches_no_neighbour", |world| {
        a_case_reaches_no_neighbour(world, Through::Runner)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_reaches_no_neighbour_unless_it_declares_one_by_a_helper() {
    in_world_with("a_case_reaches_no_neighbour_gate", EgressMode::Gate, |world| {
        a_case_reaches_no_neighbour(world, Through::Gate)
    })
    .await;
}

/// A list of hosts that nobody holds the case to would make it another case.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_hosts_is_refused_where_the_member_has_opened_the_network() {
    in_world("a_list_of_hosts_is_refused", |world| async move {
        let open = world.engine.clone().with_egress(EgressMode::Open);
        let cases = everdict_topology::case_container::CaseContainers::new(
            open,
            crate::case_image::images(&world),
            this_owner(world.install.clone(), "runner"),
        );
        let declared = json!({"mode": "allowlist", "allowedHosts": ["192.0.2.7"]});
        let fault = cases
            .start(&case(&declared), &world.scope("r1"))
            .await
            .unwrap_err();
        assert!(fault.message.starts_with("evalCase.network: "), "{fault}");
        assert!(fault.message.contains("topology.egress"), "{fault}");
        assert_eq!(world.ours().await, Vec::<String>::new());

        let hub = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = hub.local_addr().unwrap().port();
        let plain = cases
            .start(&case(&Value::Null), &world.scope("r2"))
            .await
            .unwrap();
        assert_eq!(
            reach(&world, plain.id(), "host.docker.internal", port).await,
            "open"
        );
        assert_eq!(plain.remove().await, None);
    })
    .await;
}

/// The helper's image is made once, from nothing, and `gc` may take it away: the next helper brings it back.
#[tokio::test(flavor = "multi_thread")]
async fn the_helpers_image_is_made_once_and_again_when_it_went() {
    in_world_with("helpers_image", EgressMode::Gate, |world| async move {
        let (runtime, scope) = (world.runtime().await, world.scope("r1"));
        let name = runtime
            .ensure_topology(&pair(), &scope)
            .await
            .unwrap()
            .plan()
            .name
            .clone();
        let made = prepared::list(&world.engine, &world.install).await.unwrap();
        assert_eq!(made.len(), 1, "{made:?}");
        assert!(
            made[0].image.starts_with("everdict-gate:") && made[0].bytes < 16 * 1024,
            "{made:?}"
        );
        eventually("the helpers are gone", Duration::from_secs(10), || async {
            world
                .ours()
                .await
                .iter()
                .all(|name| !name.starts_with("everdict-gate"))
        })
        .await;
        assert!(prepared::remove(&world.engine, &made[0]).await.unwrap());
        assert!(runtime.teardown(&name).await);
        drop(runtime.ensure_topology(&pair(), &scope).await.unwrap());
        assert_eq!(
            prepared::list(&world.engine, &world.install).await.unwrap().len(),
            1
        );
        assert!(
            !world.said("egress rules"),
            "it works, so there is nothing to say"
        );
    })
    .await;
}

/// No socket, no privileges, no capability by which anything in a container could undo its rules.
#[tokio::test(flavor = "multi_thread")]
async fn every_container_is_confined() {
    in_world("every_container_is_confined", |world| async move {
        let (runtime, scope) = (world.runtime().await, world.scope("r1"));
        let lease = runtime
            .ensure_topology(&crate::world::full_harness(), &scope)
            .await
            .unwrap();
        let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
        let cases = containers(&world, this_owner(world.install.clone(), "runner"));
        let case = cases.start(&case(&Value::Null), &scope).await.unwrap();
        let ids = world.container_ids().await;
        assert_eq!(ids.len(), 5, "{ids:?}");
        for (name, id) in &ids {
            let view = world.docker.inspect_container(id, None).await.unwrap();
            let host = view.host_config.unwrap();
            assert_eq!(host.privileged, Some(false), "{name}");
            assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]), "{name}");
            let added = host.cap_add.unwrap_or_default();
            for more in ["NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE"] {
                assert!(!added.iter().any(|cap| cap.ends_with(more)), "{name}: {added:?}");
            }
            assert!(host.pids_limit.unwrap() > 0, "{name}");
            assert!(host.memory.unwrap() > 0, "{name}");
            assert_eq!(host.memory, host.memory_swap, "{name}");
            let options = host.security_opt.unwrap_or_default();
            assert!(
                options.iter().any(|option| option == "no-new-privileges"),
                "{name}"
            );
            let mounts = view.mounts.unwrap_or_default();
            for mount in &mounts {
                let source = mount.source.clone().unwrap_or_default();
                assert!(!source.contains("docker.sock"), "{name}: {source}");
            }
            let none = ["pid_mode", "ipc_mode"];
            let (pid, ipc) = (
                host.pid_mode.unwrap_or_default(),
                host.ipc_mode.unwrap_or_default(),
            );
            assert!(pid != "host" && ipc != "host", "{name}: {none:?}");
        }
        assert_eq!(case.remove().await, None);
        browser.dispose().await.unwrap();
    })
    .await;
}

impl World {
    /// A container on a network of ours that no rules were made for.
    async fn loose(&self, network: &str) -> String {
        let body = ContainerCreateBody {
            image: Some(FRONT_DOOR.to_owned()),
            labels: Some([(INSTALL.to_owned(), self.install.clone())].into()),
            host_config: Some(HostConfig {
                network_mode: Some(network.to_owned()),
                extra_hosts: Some(vec!["host.docker.internal:host-gateway".to_owned()]),
                ..HostConfig::default()
            }),
            networking_config: Some(bollard::models::NetworkingConfig {
                endpoints_config: Some(HashMap::from([(network.to_owned(), EndpointSettings::default())])),
            }),
            ..ContainerCreateBody::default()
        };
        let id = self.docker.create_container(None, body).await.unwrap().id;
        self.docker
            .start_container(&id, None::<StartContainerOptions>)
            .await
            .unwrap();
        id
    }

    fn said(&self, text: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|line| line.contains(text))
    }
}
