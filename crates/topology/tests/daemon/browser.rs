use std::time::{Duration, Instant};

use everdict_topology::engine::ExecRequest;
use everdict_topology::runtime::TopologyRuntime as _;

use crate::world::{full_harness, harness, in_world};
use serde_json::json;

fn with_browser() -> everdict_contracts::ServiceHarness {
    harness(|spec| spec["target"] = json!({"kind": "browser", "engine": "chromium"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn browser_is_reached_from_a_container_and_from_the_host() {
    in_world("browser_is_reached_from_a_container_and_from_the_host", |world| async move {
        let runtime = world.runtime().await;
        let scope = world.scope("Run/1");
        let lease = runtime.ensure_topology(&with_browser(), &scope).await.unwrap();
        let begin = Instant::now();
        let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
        eprintln!("browser ready {:?}", begin.elapsed());
        let base = browser.cdp_base();
        let endpoint = everdict_browser::CdpEndpoint::new(base).unwrap();
        let version = endpoint.version().await.unwrap();
        eprintln!("{version:?}");
        let url = &browser.wiring()["target_cdp_url"];
        let web = lease.containers()["web"].to_owned();
        let fetch = |url: &str| {
            let code = format!(
                "import urllib.request as u; print(u.urlopen('{url}/json/version', timeout=5).read().decode())"
            );
            world.engine.exec(&web, ExecRequest::new(["python3", "-c", &code], Duration::from_secs(20)))
        };
        let outcome = fetch(url).await.unwrap();
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        assert!(text.contains("webSocketDebuggerUrl"), "{text} {:?}", String::from_utf8_lossy(&outcome.stderr));
        assert_eq!(runtime.browser_cdp_base("Run/1").await.as_deref(), Some(base));
        browser.dispose().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dispose_removes_the_browser_only() {
    in_world("dispose_removes_the_browser_only", |world| async move {
        let runtime = world.runtime().await;
        let lease = runtime
            .ensure_topology(&full_harness(), &world.scope("r1"))
            .await
            .unwrap();
        let before = world.ours().await;
        let one = runtime
            .provision_browser(&lease, &world.scope("r1"))
            .await
            .unwrap();
        let two = runtime
            .provision_browser(&lease, &world.scope("r2"))
            .await
            .unwrap();
        assert_eq!(world.ours().await.len(), before.len() + 2);
        let begin = Instant::now();
        one.dispose().await.unwrap();
        eprintln!("dispose {:?}", begin.elapsed());
        assert!(
            world.ours().await.contains(&two.container().to_owned()),
            "the other case's browser stays"
        );
        // Dropping is as good, only nobody waits for it.
        drop(two);
        runtime.settle().await;
        assert_eq!(world.ours().await, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leftover_browser_of_the_same_attempt_stands_in_nobodys_way() {
    in_world("a_leftover_browser", |world| async move {
        let runtime = world.runtime().await;
        let scope = world.scope("r1");
        let lease = runtime.ensure_topology(&with_browser(), &scope).await.unwrap();
        let leftover = runtime.provision_browser(&lease, &scope).await.unwrap();
        std::mem::forget(leftover);
        let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
        assert_eq!(
            world
                .ours()
                .await
                .iter()
                .filter(|name| name.contains("-browser-"))
                .count(),
            1
        );
        browser.dispose().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_nobody_waits_for_any_more_is_removed() {
    in_world("a_browser_that_nobody_waits_for", |world| async move {
        let runtime = world.runtime().await;
        let scope = world.scope("r1");
        let lease = runtime.ensure_topology(&with_browser(), &scope).await.unwrap();
        let before = world.ours().await;
        let provision = runtime.provision_browser(&lease, &scope);
        let dropped = tokio::time::timeout(Duration::from_millis(60), provision).await;
        assert!(dropped.is_err(), "a browser takes longer than this");
        runtime.settle().await;
        assert_eq!(world.ours().await, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_has_a_gigabyte_of_shared_memory() {
    in_world("a_browser_has_shared_memory", |world| async move {
        let runtime = world.runtime().await;
        let lease = runtime
            .ensure_topology(&with_browser(), &world.scope("r1"))
            .await
            .unwrap();
        let browser = runtime
            .provision_browser(&lease, &world.scope("r1"))
            .await
            .unwrap();
        let id = world.container_ids().await[browser.container()].clone();
        let view = world.docker.inspect_container(&id, None).await.unwrap();
        assert_eq!(view.host_config.unwrap().shm_size, Some(1 << 30));
        browser.dispose().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_browsers_some_cancelled_and_some_crashed_leave_no_process() {
    in_world("twenty_browsers", |world| async move {
        let runtime = world.runtime().await;
        let lease = runtime
            .ensure_topology(&with_browser(), &world.scope("r0"))
            .await
            .unwrap();
        let before = world.ours().await;
        let mut cdp_ports = Vec::new();
        for number in 1..=20 {
            let scope = world.scope(&format!("r{number}"));
            if number % 4 == 0 {
                let canceller = async {
                    tokio::task::yield_now().await;
                    scope.cancel.cancel();
                };
                let (result, ()) = tokio::join!(runtime.provision_browser(&lease, &scope), canceller);
                assert!(result.is_err());
                continue;
            }
            let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
            cdp_ports.push(browser.cdp_base().trim_start_matches("http://").to_owned());
            if number % 5 == 0 {
                let id = world.container_ids().await[browser.container()].clone();
                world.engine.kill_container(&id, "SIGKILL").await.unwrap();
            }
            browser.dispose().await.unwrap();
        }
        runtime.settle().await;
        assert_eq!(world.ours().await, before);
        for port in cdp_ports {
            assert!(
                tokio::net::TcpStream::connect(&port).await.is_err(),
                "{port} still answers"
            );
        }
    })
    .await;
}
