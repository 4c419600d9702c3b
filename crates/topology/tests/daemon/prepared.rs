use std::time::Instant;

use everdict_topology::engine::ExecRequest;
use everdict_topology::prepared;
use everdict_topology::runtime::TopologyRuntime as _;

use crate::world::{World, full_harness, in_world};

#[tokio::test(flavor = "multi_thread")]
async fn the_second_topology_starts_on_a_prepared_database() {
    in_world("prepared_database", |world| async move {
        let runtime = world.preparing_runtime().await;
        let spec = full_harness();
        let mut times = Vec::new();
        for round in 0..5 {
            let scope = world.scope(&format!("r{round}"));
            let begin = Instant::now();
            let lease = runtime.ensure_topology(&spec, &scope).await.unwrap();
            times.push(begin.elapsed().as_millis());
            let name = lease.plan().name.clone();
            let postgres = lease.containers()["postgres"].to_owned();
            let sql = [
                "psql",
                "-h",
                "127.0.0.1",
                "-U",
                "everdict",
                "-d",
                "everdict",
                "-tAc",
                "select 40 + 2",
            ];
            let mut query = ExecRequest::new(sql, std::time::Duration::from_secs(20));
            query.env = vec![("PGPASSWORD".to_owned(), "everdict".to_owned())];
            let answer = world.engine.exec(&postgres, query).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "42", "{answer:?}");
            let image = world
                .docker
                .inspect_container(&postgres, None)
                .await
                .unwrap()
                .config
                .unwrap()
                .image;
            let prepared = image.unwrap().starts_with("everdict-prepared:");
            assert_eq!(prepared, round > 0, "the first one prepares, the others have it");
            if prepared {
                one_in_use_stays(&world).await;
            }
            drop(lease);
            runtime.settle().await;
            assert_eq!(world.images().await.len(), 1);
            assert!(runtime.teardown(&name).await);
        }
        let idle = prepared::list(&world.engine, &world.install).await.unwrap();
        assert!(!idle[0].used, "{idle:?}");
        assert!(prepared::remove(&world.engine, &idle[0]).await.unwrap());
        assert_eq!(world.images().await, Vec::<String>::new());
        eprintln!("cold {times:?} ms");
        assert_eq!(
            world.ours().await,
            Vec::<String>::new(),
            "the maker's container is gone"
        );
    })
    .await;
}

async fn one_in_use_stays(world: &World) {
    let kept = prepared::list(&world.engine, &world.install).await.unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].used && kept[0].base == "postgres:16-alpine", "{kept:?}");
    assert!((1..200_000_000).contains(&kept[0].bytes), "{kept:?}");
    assert!(
        !prepared::remove(&world.engine, &kept[0]).await.unwrap(),
        "one in use stays"
    );
}
