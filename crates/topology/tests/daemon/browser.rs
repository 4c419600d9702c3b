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
        let mut browsers = Vec::new();
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
            let id = world.container_ids().await[browser.container()].clone();
            assert!(processes_of(&id) > 0, "a browser has processes");
            // So its profile, with the lock of a crashed one, is its container's and goes with it.
            let view = world.docker.inspect_container(&id, None).await.unwrap();
            assert!(
                view.mounts.unwrap_or_default().is_empty(),
                "nothing is kept outside of it"
            );
            browsers.push(id.clone());
            if number % 5 == 0 {
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
        // Neither processes nor zombies, and with their containers the profiles went.
        for id in browsers {
            assert_eq!(processes_of(&id), 0, "{id} still has processes");
            assert!(
                world
                    .engine
                    .inspect_container(&id)
                    .await
                    .unwrap_err()
                    .is_not_found()
            );
        }
        assert_eq!(zombies_of_ours(), 0);
    })
    .await;
}

/// Processes in the control group of a container, zombies included.
fn processes_of(container: &str) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("cgroup")).ok())
        .filter(|groups| groups.contains(container))
        .count()
}

/// Children of this process that nobody has waited for.
fn zombies_of_ours() -> usize {
    let me = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| {
            // After the name, which may hold anything, come the state and the parent.
            let mut words = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            words.next() == Some("Z") && words.next() == Some(me.as_str())
        })
        .count()
}

/// C80.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_uses_200_mb_of_shared_memory_does_not_crash() {
    in_world("200_mb_of_shared_memory", |world| async move {
        let runtime = world.runtime().await;
        let scope = world.scope("r1");
        let lease = runtime.ensure_topology(&with_browser(), &scope).await.unwrap();
        let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
        let id = world.container_ids().await[browser.container()].clone();
        // The very thing that is short by default: 200 MB there, held open while the page works.
        let fill = "dd if=/dev/zero of=/dev/shm/held bs=1M count=200 2>&1 && stat -c %s /dev/shm/held";
        let filled = world
            .engine
            .exec(&id, ExecRequest::new(["sh", "-c", fill], Duration::from_secs(30)))
            .await
            .unwrap();
        let filled = String::from_utf8_lossy(&filled.stdout).into_owned();
        assert!(filled.trim_end().ends_with("209715200"), "{filled}");

        let endpoint = everdict_browser::CdpEndpoint::new(browser.cdp_base()).unwrap();
        let mut page = everdict_browser::ensure_live_page(&endpoint).await.unwrap();
        // Bitmaps of 200 MB go to the page's compositor through shared memory as well.
        let script = "(async () => {
            const kept = [];
            for (let i = 0; i < 13; i++) {
                const canvas = new OffscreenCanvas(2048, 2048);
                const context = canvas.getContext('2d');
                context.fillStyle = `rgb(${i}, 20, 30)`;
                context.fillRect(0, 0, 2048, 2048);
                kept.push(canvas.transferToImageBitmap());
            }
            const blob = new Blob([new Uint8Array(64 * 1024 * 1024)]);
            return kept.length + ' ' + (await blob.arrayBuffer()).byteLength;
        })()";
        let params = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let answer = page
            .call("Runtime.evaluate", params, Duration::from_secs(60))
            .await
            .expect("no page crashed");
        assert_eq!(answer["result"]["value"], "13 67108864", "{answer}");
        let shot = page
            .call(
                "Page.captureScreenshot",
                json!({"format": "png"}),
                Duration::from_secs(30),
            )
            .await
            .expect("the page is still there");
        assert!(shot["data"].as_str().unwrap().starts_with("iVBOR"));
        browser.dispose().await.unwrap();
    })
    .await;
}
