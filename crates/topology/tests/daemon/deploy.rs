use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use everdict_contracts::ErrorCode;
use everdict_topology::Origin;
use everdict_topology::egress::EgressMode;
use everdict_topology::labels::Owner;
use everdict_topology::process::this_owner;
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::json;

use crate::world::{World, eventually, full_harness, harness, in_world};

#[tokio::test(flavor = "multi_thread")]
async fn cold_deploy_and_warm_reuse() {
    in_world("cold_deploy_and_warm_reuse", |world| async move {
        let runtime = world.runtime().await;
        let spec = full_harness();
        let begin = Instant::now();
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let cold = begin.elapsed();
        let before = world.container_ids().await;
        assert_eq!(before.len(), 3, "{before:?}");
        assert_eq!(lease.origin(), Origin::Deployed);
        let begin = Instant::now();
        let again = runtime.ensure_topology(&spec, &world.scope("r2")).await.unwrap();
        eprintln!("cold {cold:?}, warm {:?}", begin.elapsed());
        assert_eq!(world.container_ids().await, before, "nothing was made anew");
        assert_eq!(again.endpoints(), lease.endpoints());
        let answer = http_get(&lease.endpoints()["web"], "/healthz").await;
        assert!(
            answer.contains("200 OK"),
            "the front door reaches both stores: {answer}"
        );
    })
    .await;
}

/// A bare GET: this crate has no HTTP client.
async fn http_get(base: &str, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = base.trim_start_matches("http://");
    let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = connection.read_to_string(&mut answer).await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn three_concurrent_ensures_make_one_deploy() {
    in_world("three_concurrent_ensures_make_one_deploy", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|_| {});
        let scopes = [world.scope("r1"), world.scope("r2"), world.scope("r3")];
        let (one, two, three) = tokio::join!(
            runtime.ensure_topology(&spec, &scopes[0]),
            runtime.ensure_topology(&spec, &scopes[1]),
            runtime.ensure_topology(&spec, &scopes[2]),
        );
        let (one, two, three) = (one.unwrap(), two.unwrap(), three.unwrap());
        assert_eq!(one.containers(), two.containers());
        assert_eq!(one.containers(), three.containers());
        assert_eq!(world.ours().await.len(), 2, "one container and one network");
        let deploys = world
            .lines
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.starts_with("deploying"))
            .count();
        assert_eq!(deploys, 1);
    })
    .await;
}

/// An owner as another process would be: alive, and not this one.
fn other_process(world: &World) -> Owner {
    Owner {
        runner: "other".to_owned(),
        ..this_owner(world.install.clone(), "other")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_runtime_adopts_and_kills_nobody() {
    in_world("another_runtime_adopts_and_kills_nobody", |world| async move {
        let (first, second) = (
            world.runtime().await,
            world.runtime_of(other_process(&world)).await,
        );
        let spec = full_harness();
        let lease = first.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let before = world.container_ids().await;
        let adopted = second.ensure_topology(&spec, &world.scope("r2")).await.unwrap();
        assert_eq!(adopted.origin(), Origin::Adopted);
        assert_eq!(adopted.endpoints(), lease.endpoints());
        assert_eq!(world.container_ids().await, before);
        // Neither takes down what the other uses.
        drop(lease);
        assert!(!first.teardown(&adopted.plan().name).await);
        assert_eq!(first.sweep_idle(Duration::ZERO).await, Vec::<String>::new());
        assert_eq!(world.container_ids().await, before);
        let name = adopted.plan().name.clone();
        drop(adopted);
        assert!(second.teardown(&name).await);
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runtimes_at_once_make_one_topology() {
    in_world("two_runtimes_at_once_make_one_topology", |world| async move {
        let (first, second) = (
            world.runtime().await,
            world.runtime_of(other_process(&world)).await,
        );
        let spec = harness(|_| {});
        let scopes = [world.scope("r1"), world.scope("r2")];
        let (one, two) = tokio::join!(
            first.ensure_topology(&spec, &scopes[0]),
            second.ensure_topology(&spec, &scopes[1])
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one.containers(), two.containers());
        assert_eq!(world.ours().await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_dead_topology_is_healed() {
    in_world("half_dead_topology_is_healed", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| {
            spec["dependencies"] = json!([{"store": "redis", "role": "cache", "isolateBy": "key-prefix"}]);
        });
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let (redis, web) = (
            lease.containers()["redis"].to_owned(),
            lease.containers()["web"].to_owned(),
        );
        world.engine.kill_container(&web, "SIGKILL").await.unwrap();
        let healed = runtime.ensure_topology(&spec, &world.scope("r2")).await.unwrap();
        assert_eq!(healed.origin(), Origin::Healed);
        assert_eq!(healed.containers()["redis"], redis, "what lives is kept");
        assert_ne!(healed.containers()["web"], web);
        assert!(http_get(&healed.endpoints()["web"], "/").await.contains("200 OK"));
        assert_eq!(world.ours().await.len(), 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_environment_is_never_served_by_the_old_container() {
    in_world("a_changed_environment", |world| async move {
        let runtime = world.runtime().await;
        let with = |value: &str| {
            let value = value.to_owned();
            harness(move |spec| spec["services"][0]["env"] = json!({"COLOUR": value}))
        };
        let (blue, red) = (with("blue"), with("red"));
        let scopes = [world.scope("r1"), world.scope("r2")];
        let (one, two) = tokio::join!(
            runtime.ensure_topology(&blue, &scopes[0]),
            runtime.ensure_topology(&red, &scopes[1])
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(
            http_get(&one.endpoints()["web"], "/env")
                .await
                .contains("\"COLOUR\": \"blue\"")
        );
        assert!(
            http_get(&two.endpoints()["web"], "/env")
                .await
                .contains("\"COLOUR\": \"red\"")
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn teardown_leaves_nothing() {
    in_world("teardown_leaves_nothing", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| {
            spec["dependencies"] = json!([
                {"store": "postgres", "role": "db", "isolateBy": "schema", "purpose": "data"},
                {"store": "redis", "role": "cache", "isolateBy": "key-prefix", "purpose": "data"}
            ]);
            spec["services"][0]["volumes"] = json!(["files:/files"]);
            spec["target"] = json!({"kind": "browser", "engine": "chromium"});
        });
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let browser = runtime
            .provision_browser(&lease, &world.scope("r1"))
            .await
            .unwrap();
        let volumes = world.mounted_volumes().await;
        assert!(
            volumes.len() >= 2,
            "an anonymous volume of a store and a named one: {volumes:?}"
        );
        let name = lease.plan().name.clone();
        assert!(!runtime.teardown(&name).await, "not while it is in use");
        drop(lease);
        // A browser that a crashed case has left must not pin the network.
        std::mem::forget(browser);
        assert!(runtime.teardown(&name).await);
        assert_eq!(world.ours().await, Vec::<String>::new());
        let left = world.volume_names().await;
        assert!(
            volumes.iter().all(|volume| !left.contains(volume)),
            "volumes stay: {volumes:?}"
        );
        assert_eq!(runtime.debts(), Vec::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exited_service_fails_at_once_with_its_log() {
    in_world("exited_service_fails_at_once_with_its_log", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| spec["services"][0]["env"] = json!({"FAIL_AT_START": "missing API key"}));
        let begin = Instant::now();
        let fault = runtime
            .ensure_topology(&spec, &world.scope("r1"))
            .await
            .err()
            .unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!(
            fault.message.contains("service web") && fault.message.contains("exit code 3"),
            "{fault}"
        );
        assert!(
            fault
                .extra
                .log_tail
                .as_deref()
                .unwrap()
                .contains("fatal: missing API key")
        );
        assert_eq!(fault.code, ErrorCode::HarnessInstallFailed);
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_never_ready_fails_at_its_deadline_and_says_what_was_seen() {
    in_world("never_ready", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| {
            spec["services"][0]["env"] = json!({"START_DELAY_S": "600"});
            spec["services"][0]["readiness"] = json!({"timeoutMs": 1500});
        });
        let begin = Instant::now();
        let fault = runtime
            .ensure_topology(&spec, &world.scope("r1"))
            .await
            .err()
            .unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert!(fault.message.contains("not ready within 1.5 s"), "{fault}");
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oom_is_reported() {
    in_world("oom_is_reported", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| {
            spec["services"][0]["env"] = json!({"EAT_MB": "512"});
            spec["services"][0]["resources"] = json!({"memoryMb": 64});
        });
        let fault = runtime
            .ensure_topology(&spec, &world.scope("r1"))
            .await
            .err()
            .unwrap();
        assert!(fault.message.contains("out of memory"), "{fault}");
        assert_eq!(fault.failure().code, "OOM_KILLED");
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[expect(clippy::too_many_lines, reason = "one story")]
#[tokio::test(flavor = "multi_thread")]
async fn ports_are_on_loopback_only_and_containers_confined() {
    in_world(
        "ports_are_on_loopback_only_and_containers_confined",
        |world| async move {
            let runtime = world.runtime().await;
            let spec = full_harness();
            let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
            let _browser = runtime
                .provision_browser(&lease, &world.scope("r1"))
                .await
                .unwrap();
            let containers = world.container_ids().await;
            assert_eq!(containers.len(), 4);
            for (name, id) in containers {
                let view = world.docker.inspect_container(&id, None).await.unwrap();
                let ports = view.network_settings.unwrap().ports.unwrap_or_default();
                let bindings = ports.into_values().flatten().flatten();
                for binding in bindings {
                    assert_eq!(binding.host_ip.as_deref(), Some("127.0.0.1"), "{name}");
                }
                let host = view.host_config.unwrap();
                assert_eq!(host.cap_drop.as_deref(), Some(&["ALL".to_owned()][..]), "{name}");
                let added = host.cap_add.unwrap_or_default();
                assert!(
                    !added
                        .iter()
                        .any(|cap| cap.contains("NET_RAW") || cap.contains("ADMIN")),
                    "{name} {added:?}"
                );
                assert_eq!(host.privileged, Some(false), "{name}");
                assert!(
                    host.security_opt
                        .unwrap()
                        .contains(&"no-new-privileges".to_owned()),
                    "{name}"
                );
                assert!(host.pids_limit.unwrap() > 0, "{name}");
                assert!(host.memory.unwrap() > 0, "{name}");
                assert_eq!(host.memory_swap, host.memory, "{name}");
                assert!(
                    host.binds
                        .unwrap_or_default()
                        .iter()
                        .all(|bind| !bind.contains("docker.sock")),
                    "{name}"
                );
                let log = host.log_config.unwrap();
                assert_eq!(log.typ.as_deref(), Some("json-file"), "{name}");
                let bounds: BTreeMap<_, _> = log.config.unwrap().into_iter().collect();
                assert_eq!(
                    (bounds["max-size"].as_str(), bounds["max-file"].as_str()),
                    ("10m", "3"),
                    "{name}"
                );
                let restart = host
                    .restart_policy
                    .and_then(|policy| policy.name)
                    .map(|name| name.to_string());
                assert!(
                    restart
                        .as_deref()
                        .is_none_or(|name| name.is_empty() || name == "no"),
                    "{name} {restart:?}"
                );
            }
        },
    )
    .await;
}

/// C75. Where somebody else has the port on the host already, that is as good.
#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_declare_the_port_that_a_server_of_the_member_s_has_and_all_are_well() {
    in_world("the_member_s_port", |world| async move {
        let members_server = std::net::TcpListener::bind("127.0.0.1:8080");
        let runtime = world.runtime().await;
        // `web` asks its peer by name, on the very port that both declare.
        let spec = |version: &str| {
            let version = version.to_owned();
            harness(move |spec| {
                spec["version"] = json!(version);
                let peer = json!({"name": "api", "image": crate::world::FRONT_DOOR, "port": 8080});
                spec["services"][0]["needs"] = json!(["api"]);
                spec["services"].as_array_mut().unwrap().push(peer);
            })
        };
        let (one, two) = (spec("1.0.0"), spec("2.0.0"));
        let scopes = [world.scope("r1"), world.scope("r2")];
        let (one, two) = tokio::join!(
            runtime.ensure_topology(&one, &scopes[0]),
            runtime.ensure_topology(&two, &scopes[1])
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        let endpoints: std::collections::BTreeSet<&String> =
            one.endpoints().values().chain(two.endpoints().values()).collect();
        assert_eq!(endpoints.len(), 4, "each its own: {endpoints:?}");
        for endpoint in endpoints {
            assert!(endpoint.starts_with("http://127.0.0.1:"), "{endpoint}");
            assert!(!endpoint.ends_with(":8080"), "{endpoint}");
            assert!(http_get(endpoint, "/").await.contains("200 OK"), "{endpoint}");
        }
        for lease in [&one, &two] {
            let ask = "import urllib.request as u; print(u.urlopen('http://api:8080/', timeout=5).status)";
            let request =
                everdict_topology::engine::ExecRequest::new(["python3", "-c", ask], Duration::from_secs(20));
            let outcome = world
                .engine
                .exec(lease.containers()["web"], request)
                .await
                .unwrap();
            assert_eq!(
                String::from_utf8_lossy(&outcome.stdout).trim(),
                "200",
                "{outcome:?}"
            );
        }
        drop(members_server);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_in_mid_deploy_leaves_nothing() {
    in_world("cancel_in_mid_deploy_leaves_nothing", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| {
            spec["dependencies"] = json!([{"store": "postgres", "role": "db", "isolateBy": "schema"}]);
            spec["services"][0]["env"] = json!({"START_DELAY_S": "600"});
        });
        let scope = world.scope("r1");
        let ensure = runtime.ensure_topology(&spec, &scope);
        let cancel = async {
            eventually(
                "the service's container is there",
                Duration::from_secs(30),
                || async { world.ours().await.iter().any(|name| name.ends_with("-web")) },
            )
            .await;
            scope.cancel.cancel();
            Instant::now()
        };
        let (result, cancelled) = tokio::join!(ensure, cancel);
        assert!(
            cancelled.elapsed() < Duration::from_secs(2),
            "the caller is free at once"
        );
        assert_eq!(result.err().unwrap().code, ErrorCode::Cancelled);
        runtime.settle().await;
        assert_eq!(world.ours().await, Vec::<String>::new());
        // Nothing of it is kept: the next one deploys anew.
        let spec = harness(|_| {});
        runtime.ensure_topology(&spec, &world.scope("r2")).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_leaves_does_not_take_the_deploy_from_the_others() {
    in_world("a_waiter_that_leaves", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| spec["services"][0]["env"] = json!({"START_DELAY_S": "1"}));
        let (leaving, staying) = (world.scope("r1"), world.scope("r2"));
        let one = runtime.ensure_topology(&spec, &leaving);
        let two = runtime.ensure_topology(&spec, &staying);
        let leave = async {
            eventually("the deploy is under way", Duration::from_secs(30), || async {
                !world.container_ids().await.is_empty()
            })
            .await;
            leaving.cancel.cancel();
        };
        let (one, two, ()) = tokio::join!(one, two, leave);
        assert_eq!(one.err().unwrap().code, ErrorCode::Cancelled);
        assert!(
            http_get(&two.unwrap().endpoints()["web"], "/")
                .await
                .contains("200 OK")
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_container_of_the_same_name_is_left_alone() {
    in_world("a_foreign_container", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|_| {});
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let name = lease.plan().services[0].container.clone();
        let topology = lease.plan().name.clone();
        drop(lease);
        assert!(runtime.teardown(&topology).await);
        let body = bollard::models::ContainerCreateBody {
            image: Some(crate::world::FRONT_DOOR.to_owned()),
            ..Default::default()
        };
        let options = bollard::query_parameters::CreateContainerOptionsBuilder::default()
            .name(&name)
            .build();
        let foreign = world
            .docker
            .create_container(Some(options), body)
            .await
            .unwrap()
            .id;
        let fault = runtime
            .ensure_topology(&spec, &world.scope("r2"))
            .await
            .err()
            .unwrap();
        let still = world.engine.inspect_container(&foreign).await;
        let _ = world.engine.remove_container(&foreign).await;
        assert!(fault.message.contains("isn't this runner's"), "{fault}");
        still.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_ends_in_mid_case_is_told_at_once() {
    in_world("ends_in_mid_case", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|_| {});
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        assert_eq!(runtime.diagnose(&lease).await, None);
        let web = lease.containers()["web"].to_owned();
        let end = async { world.engine.kill_container(&web, "SIGKILL").await.unwrap() };
        let (fault, ()) = tokio::join!(runtime.broken(&lease), end);
        assert!(
            fault.message.contains("web ended while the case was driven"),
            "{fault}"
        );
        assert!(
            fault
                .extra
                .log_tail
                .as_deref()
                .unwrap()
                .contains("front door listening")
        );
        let sick = runtime.diagnose(&lease).await.unwrap();
        assert!(
            sick.contains("service web has ended with exit code 137"),
            "{sick}"
        );
        let status = runtime.describe(&lease).await;
        assert!(!status.members[0].running, "{status:?}");
        let log = runtime.service_logs(&lease, "web", None).await.unwrap();
        assert!(log.contains("front door listening"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_appears_after_a_call_was_given_up_is_swept() {
    in_world("appears_later", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|_| {});
        let lease = runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let labels = lease.plan().labels.clone();
        let name = lease.plan().name.clone();
        drop(lease);
        assert!(runtime.teardown(&name).await);
        let labels =
            everdict_topology::labels::of_kind(&labels, everdict_topology::labels::Kind::Network, None);
        let request = everdict_topology::engine::NetworkRequest {
            name: &name,
            labels: &labels,
        };
        world.engine.create_network(&request).await.unwrap();
        runtime.sweep().await;
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_installations_have_the_same_harness_at_once() {
    in_world("two_installations", |world| async move {
        let other = World::join(format!("{}-other", world.install), EgressMode::Fence).await;
        let owner = Owner {
            install: other.install.clone(),
            ..this_owner(other.install.clone(), "runner")
        };
        let (first, second) = (world.runtime().await, other.runtime_of(owner).await);
        let spec = harness(|_| {});
        let scopes = [world.scope("r1"), other.scope("r1")];
        let (one, two) = tokio::join!(
            first.ensure_topology(&spec, &scopes[0]),
            second.ensure_topology(&spec, &scopes[1])
        );
        let swept = first.sweep().await;
        let different = one.as_ref().unwrap().containers() != two.as_ref().unwrap().containers();
        drop(two);
        second.shut_down().await;
        assert!(different);
        assert!(
            swept
                .found
                .iter()
                .all(|found| found.owner.as_ref().unwrap().install == world.install)
        );
        assert_eq!(
            world.ours().await.len(),
            2,
            "what is the other's went, and nothing else"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_member_of_a_topology_in_use_is_waited_for_and_not_killed() {
    in_world("slow_member_in_use", |world| async move {
        let (first, second) = (
            world.runtime().await,
            world.runtime_of(other_process(&world)).await,
        );
        let spec = harness(|spec| {
            spec["dependencies"] = json!([{"store": "redis", "role": "cache", "isolateBy": "key-prefix"}]);
        });
        let lease = first.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
        let redis = lease.containers()["redis"].to_owned();
        // A case that keeps the store busy for longer than one look waits.
        let busy = ["redis-cli", "debug", "sleep", "3"];
        let sleep = world.engine.exec(
            &redis,
            everdict_topology::engine::ExecRequest::new(busy, Duration::from_secs(20)),
        );
        let adopt = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            second.ensure_topology(&spec, &world.scope("r2")).await.unwrap()
        };
        let (slept, adopted) = tokio::join!(sleep, adopt);
        slept.unwrap();
        assert_eq!(adopted.origin(), Origin::Adopted);
        assert_eq!(adopted.containers(), lease.containers());
    })
    .await;
}
