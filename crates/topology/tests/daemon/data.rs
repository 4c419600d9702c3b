use everdict_contracts::{StoreFixture, StoreKind, decode};
use everdict_topology::runtime::TopologyRuntime as _;
use everdict_topology::stores::StoreQuery;
use serde_json::json;

use crate::world::{harness, in_world};

#[tokio::test(flavor = "multi_thread")]
async fn one_run_never_sees_the_rows_of_another_and_a_dropped_slice_is_empty() {
    in_world("rows_of_another", |world| async move {
        let runtime = world.runtime().await;
        let spec = harness(|spec| {
            spec["dependencies"] = json!([
                {"store": "postgres", "role": "db", "isolateBy": "schema", "purpose": "data"}
            ]);
        });
        let (one, two) = (world.scope("Case/T0"), world.scope("Case/T1"));
        let lease = runtime.ensure_topology(&spec, &one).await.unwrap();
        let fixtures: Vec<StoreFixture> = decode(json!([
            {"store": "postgres", "seed": {"inline": "create table t (n int); insert into t values (7);"}}
        ]))
        .unwrap();
        let query = |text: &'static str| StoreQuery {
            store: StoreKind::Postgres,
            role: None,
            query: text,
            path: "evalCase.graders[0].config",
        };
        runtime
            .seed_fixtures(&lease, &spec, &one, &fixtures)
            .await
            .unwrap();
        let rows = runtime
            .read_store_state(&lease, &spec, &one, &query("select n from t"))
            .await
            .unwrap();
        assert_eq!(rows.trim(), "7");
        let other = runtime
            .read_store_state(&lease, &spec, &two, &query("select n from t"))
            .await;
        assert!(other.unwrap_err().message.contains("does not exist"));
        runtime.drop_slices(&lease, &spec, &one).await.unwrap();
        let gone = runtime
            .read_store_state(&lease, &spec, &one, &query("select n from t"))
            .await;
        assert!(gone.is_err(), "dropped slices are gone");
    })
    .await;
}
