use std::sync::Arc;
use std::time::Instant;

use everdict_topology::runtime::TopologyRuntime as _;

use crate::world::{full_harness, in_world};

#[tokio::test(flavor = "multi_thread")]
async fn cold_deploy_and_warm_reuse() {
    in_world("cold_deploy_and_warm_reuse", |world| async move {
        let runtime = world.runtime().await;
        let (spec, scope) = (full_harness(), world.scope("r1"));
        let begin = Instant::now();
        let lease = runtime.ensure_topology(&spec, &scope).await.unwrap();
        let cold = begin.elapsed();
        let before = world.container_ids().await;
        assert_eq!(before.len(), 3, "{before:?}");
        let url = &lease.endpoints()["web"];
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        let begin = Instant::now();
        let again = runtime.ensure_topology(&spec, &world.scope("r2")).await.unwrap();
        let warm = begin.elapsed();
        assert_eq!(world.container_ids().await, before, "nothing was made anew");
        assert_eq!(again.endpoints(), lease.endpoints());
        let begin = Instant::now();
        let browser = runtime.provision_browser(&lease, &scope).await.unwrap();
        let ready = begin.elapsed();
        let begin = Instant::now();
        browser.dispose().await.unwrap();
        eprintln!("cold {cold:?}, warm {warm:?}, browser {ready:?}, dispose {:?}", begin.elapsed());
        assert_eq!(world.container_ids().await, before);
    })
    .await;
}
