use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bollard::models::ContainerCreateBody;
use everdict_topology::Origin;
use everdict_topology::engine::NetworkRequest;
use everdict_topology::labels::{self, Kind, Owner};
use everdict_topology::lock::LockFolder;
use everdict_topology::process::this_owner;
use everdict_topology::reaper::{Verdict, report};
use everdict_topology::runtime::TopologyRuntime as _;

use crate::process::Runner;
use crate::world::{FRONT_DOOR, World, eventually, full_harness, in_world};

/// What a killed runner may leave behind for, at most.
const LIMIT: Duration = Duration::from_secs(15);

async fn nothing_is_left(world: &World) {
    let end = Instant::now() + LIMIT;
    loop {
        let ours = world.ours().await;
        if ours.is_empty() {
            return;
        }
        let log = std::fs::read_to_string(world.state.path().join("watchdog.log"));
        assert!(
            Instant::now() < end,
            "left of the dead runner: {ours:?}; its watchdog: {log:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_killed_while_driving_leaves_nothing() {
    in_world("killed_while_driving", |world| async move {
        let mut runner = Runner::start_to(&world, true, "keep");
        runner.wait_for("driving");
        assert_eq!(
            world.ours().await.len(),
            6,
            "three containers, a browser, a network, a volume"
        );
        let volumes = world.mounted_volumes().await;
        assert_eq!(volumes.len(), 2, "a store's, and the one for files: {volumes:?}");
        runner.kill();
        nothing_is_left(&world).await;
        let left = world.volume_names().await;
        assert!(volumes.iter().all(|volume| !left.contains(volume)), "{volumes:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_killed_in_mid_deploy_leaves_nothing() {
    in_world("killed_in_mid_deploy", |world| async move {
        let mut caught = 0;
        for round in 0..8 {
            let mut runner = Runner::start(&world, true);
            runner.wait_for("deploying");
            caught += kill_after(&world, &mut runner, Duration::from_millis(round * 170)).await;
            nothing_is_left(&world).await;
        }
        assert!(
            caught > 8,
            "the kills came in the middle: {caught} objects were there"
        );
    })
    .await;
}

/// Helper containers, started or not, go like everything else, and a frozen service does too.
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_killed_while_helpers_put_up_rules_leaves_nothing() {
    in_world("killed_with_gates", |world| async move {
        let mut helpers = 0;
        for round in 0..8 {
            let mut runner = Runner::start_with_gates(&world);
            runner.wait_for("deploying");
            let end = Instant::now() + LIMIT;
            // The first helper, and somewhat later in each round.
            while !world
                .ours()
                .await
                .iter()
                .any(|name| name.starts_with("everdict-gate-"))
            {
                assert!(Instant::now() < end, "no helper was started");
            }
            kill_after(&world, &mut runner, Duration::from_millis(round * 40)).await;
            helpers += 1;
            nothing_is_left(&world).await;
        }
        assert_eq!(helpers, 8);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_killed_in_mid_teardown_leaves_nothing() {
    in_world("killed_in_mid_teardown", |world| async move {
        let mut caught = 0;
        for round in 0..4 {
            let mut runner = Runner::start_to(&world, true, "leave");
            runner.wait_for("leaving");
            caught += kill_after(&world, &mut runner, Duration::from_millis(round * 80)).await;
            nothing_is_left(&world).await;
        }
        assert!(
            caught > 4,
            "the kills came in the middle: {caught} objects were there"
        );
    })
    .await;
}

/// Kills a runner some time from now, and counts what it had on the daemon just before.
async fn kill_after(world: &World, runner: &mut Runner, pause: Duration) -> usize {
    let end = Instant::now() + pause;
    eventually("its time comes", LIMIT, || async { Instant::now() >= end }).await;
    let count = world.ours().await.len();
    runner.kill();
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_watchdog_the_next_start_sweeps() {
    in_world("next_start_sweeps", |world| async move {
        let mut runner = Runner::start_to(&world, false, "keep");
        runner.wait_for("driving");
        let runtime = world.runtime().await;
        let alive = runtime.sweep().await;
        assert_eq!(alive.removed, Vec::new(), "its owner is alive");
        assert!(
            alive.found.iter().all(|found| found.verdict == Verdict::Owned),
            "{:?}",
            alive.found
        );
        let volumes = world.mounted_volumes().await;
        assert_eq!(volumes.len(), 2, "a store's, and the one for files: {volumes:?}");
        runner.kill();
        let begin = Instant::now();
        let dead = runtime.sweep().await;
        assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
        assert_eq!(dead.removed.len(), 6, "{dead:?}");
        assert_eq!(world.ours().await, Vec::<String>::new());
        let left = world.volume_names().await;
        assert!(volumes.iter().all(|volume| !left.contains(volume)), "{volumes:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_living_process_has_adopted_outlives_its_maker() {
    in_world("adopted_outlives_its_maker", |world| async move {
        let mut maker = Runner::start(&world, true);
        maker.wait_for("driving");
        let runtime = world.runtime().await;
        let lease = runtime
            .ensure_topology(&full_harness(), &world.scope("r2"))
            .await
            .unwrap();
        assert_eq!(lease.origin(), Origin::Adopted);
        maker.kill();
        // The dead process' browser goes, and nothing else.
        eventually("its browser goes", LIMIT, || async {
            world.ours().await.len() == 4
        })
        .await;
        let swept = runtime.sweep().await;
        assert!(
            swept.found.iter().all(|found| found.verdict == Verdict::Used),
            "{:?}",
            swept.found
        );
        let again = runtime
            .ensure_topology(&full_harness(), &world.scope("r3"))
            .await
            .unwrap();
        assert_eq!(again.containers(), lease.containers());
        drop((lease, again));
        runtime.sweep().await;
        assert_eq!(world.ours().await, Vec::<String>::new());
    })
    .await;
}

/// An object with the labels of some owner, and nothing running.
async fn container(world: &World, name: &str, labels: BTreeMap<String, String>) -> String {
    let labels = labels::of_kind(&labels, Kind::Case, None);
    let body = ContainerCreateBody {
        image: Some(FRONT_DOOR.to_owned()),
        labels: Some(labels.into_iter().collect()),
        ..Default::default()
    };
    let name = format!("everdict-test-{name}-{}", world.tag());
    let options = bollard::query_parameters::CreateContainerOptionsBuilder::default()
        .name(&name)
        .build();
    world
        .docker
        .create_container(Some(options), body)
        .await
        .unwrap()
        .id
}

#[expect(clippy::too_many_lines, reason = "one story")]
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_takes_only_what_is_proved_to_be_lost() {
    in_world("proved_to_be_lost", |world| async move {
        let me = this_owner(world.install.clone(), "runner");
        let dead = Owner {
            start: "1".to_owned(),
            ..me.clone()
        };
        let rebooted = Owner {
            boot: "00000000.1".to_owned(),
            ..me.clone()
        };
        let elsewhere = Owner {
            boot: format!("{}9", me.boot),
            ..me.clone()
        };
        let foreign = Owner {
            install: format!("{}-other", me.install),
            ..dead.clone()
        };
        let alive = container(&world, "alive", me.labels()).await;
        let lost = container(&world, "dead", dead.labels()).await;
        let before_boot = container(&world, "rebooted", rebooted.labels()).await;
        let unknown = container(&world, "elsewhere", elsewhere.labels()).await;
        let mut half = me.labels();
        half.remove(labels::OWNER_START);
        let unlabelled = container(&world, "half", half).await;
        let other = container(&world, "other", foreign.labels()).await;
        // The member's own: no label of ours at all.
        let own = container(&world, "own", BTreeMap::new()).await;
        let network_labels = labels::of_kind(&dead.labels(), Kind::Network, None);
        let request = NetworkRequest {
            name: "everdict-test-lost",
            labels: &network_labels,
        };
        let network = world.engine.create_network(&request).await.unwrap();

        let runtime = world.runtime().await;
        let daemon = world.engine.info().await.unwrap().id;
        let locks = LockFolder::open(world.state.path(), &daemon).unwrap();
        let planned = report(&world.engine, &world.install, &locks).await.unwrap();
        let count = |verdict| planned.iter().filter(|found| found.verdict == verdict).count();
        let counts = (
            count(Verdict::Owned),
            count(Verdict::Lost),
            count(Verdict::Unverified),
        );
        let swept = runtime.sweep().await;
        let left = world.container_ids().await;
        let other_left = world.engine.inspect_container(&other).await;
        let own_left = world.engine.inspect_container(&own).await;
        for id in [&other, &own] {
            let _ = world.engine.remove_container(id).await;
        }

        assert_eq!(counts, (1, 3, 2), "{planned:?}");
        assert_eq!(swept.removed.len(), 3, "{swept:?}");
        for id in [&alive, &unknown, &unlabelled] {
            assert!(left.values().any(|kept| kept == id));
        }
        for id in [&lost, &before_boot] {
            assert!(!left.values().any(|kept| kept == id));
        }
        assert!(
            world
                .engine
                .network_members(&network)
                .await
                .unwrap_err()
                .is_not_found()
        );
        other_left.expect("another installation's container stays");
        own_left.expect("the member's container stays");
    })
    .await;
}
