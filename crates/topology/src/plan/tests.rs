use std::collections::{BTreeMap, BTreeSet};

use everdict_contracts::{ErrorCode, StoreKind, decode};
use serde_json::{Value, json};

use super::*;
use crate::digest::DigestKey;

/// A context that owns what [`PlanContext`] borrows.
pub(crate) struct World {
    pub owner: Owner,
    pub tenant: String,
    pub pins: BTreeMap<String, String>,
    pub store_env: BTreeMap<String, String>,
    pub images: StockImages,
    pub policy: PlanPolicy,
    pub network: Reaching,
    key: DigestKey,
}

impl World {
    pub fn new() -> Self {
        Self {
            owner: Owner {
                install: "inst".to_owned(),
                runner: "rnr".to_owned(),
                pid: 7,
                start: "100".to_owned(),
                boot: "boot".to_owned(),
            },
            tenant: "acme".to_owned(),
            pins: BTreeMap::new(),
            store_env: BTreeMap::new(),
            images: StockImages::default(),
            policy: PlanPolicy::default(),
            key: DigestKey::new([3; 32]),
            network: Reaching::default(),
        }
    }

    pub fn plan(&self, spec: Value) -> Result<TopologyPlan, String> {
        let context = PlanContext {
            owner: &self.owner,
            tenant: &self.tenant,
            pins: &self.pins,
            store_env: &self.store_env,
            images: &self.images,
            policy: &self.policy,
            digest_key: &self.key,
            readiness: ReadinessPlan::default(),
            network: &self.network,
        };
        let spec: ServiceHarness = decode(spec).unwrap();
        TopologyPlan::from_spec(&spec, &context).map_err(|fault| {
            assert_eq!(fault.code, ErrorCode::BadRequest, "{fault}");
            fault.message
        })
    }
}

/// A spec with the given services and dependencies.
pub(crate) fn spec(services: Value, dependencies: Value) -> Value {
    json!({
        "id": "bu", "version": "1.0.0", "services": services, "dependencies": dependencies,
        "frontDoor": {"service": "web", "submit": "POST /runs"},
        "traceSource": {"kind": "otel", "endpoint": "http://localhost:1"}
    })
}

/// A front door on every store, with a browser.
fn full() -> Value {
    let mut full = spec(
        json!([
            {"name": "web", "image": "r.io/web:1", "port": 8080, "needs": ["migrate"], "env": {"KEY": "s3cret"}},
            {"name": "migrate", "image": "r.io/web:1"}
        ]),
        json!([
            {"store": "postgres", "role": "app", "isolateBy": "schema"},
            {"store": "redis", "role": "queue", "isolateBy": "key-prefix"},
            {"store": "redis", "role": "cache", "isolateBy": "key-prefix"},
            {"store": "minio", "role": "files", "isolateBy": "object-prefix"}
        ]),
    );
    full["target"] = json!({"kind": "browser", "engine": "chromium"});
    full
}

fn planned(spec: Value) -> TopologyPlan {
    World::new().plan(spec).unwrap()
}

#[test]
fn a_plan_has_each_store_once_and_every_service() {
    let plan = planned(full());
    assert_eq!(
        plan.stores.iter().map(|store| store.kind).collect::<Vec<_>>(),
        [StoreKind::Postgres, StoreKind::Redis, StoreKind::Minio]
    );
    assert_eq!(plan.store(StoreKind::Postgres).unwrap().alias, "bu-postgres");
    assert_eq!(plan.waves, [vec![1], vec![0]]);
    let web = plan.service("web").unwrap();
    assert_eq!((web.port, web.may_finish, web.needed), (Some(8080), false, false));
    let migrate = plan.service("migrate").unwrap();
    assert_eq!(
        (migrate.port, migrate.may_finish, migrate.needed),
        (None, true, true)
    );
    assert_eq!(web.aliases, ["web"]);
    let containers: BTreeSet<_> = plan.containers().collect();
    assert_eq!(containers.len(), 5);
    assert!(
        containers.iter().all(|name| name.starts_with(&plan.name)),
        "{containers:?}"
    );
}

#[test]
fn images_are_listed_once_with_their_place() {
    let plan = planned(full());
    let needs: Vec<_> = plan
        .images()
        .into_iter()
        .map(|need| (need.image, need.path))
        .collect();
    assert_eq!(needs.len(), 5, "{needs:?}");
    assert_eq!(
        needs[3],
        (
            "r.io/web:1".to_owned(),
            "harnessSpec.services[0].image".to_owned()
        )
    );
    assert!(needs[4].0.starts_with("chromedp/headless-shell@sha256:"));
}

#[test]
fn an_external_store_is_not_deployed_and_injects_nothing() {
    let plan = planned(spec(
        json!([{"name": "web", "image": "i", "port": 1}]),
        json!([{"store": "postgres", "role": "app", "isolateBy": "external"}]),
    ));
    assert!(plan.stores.is_empty());
    assert_eq!(plan.service("web").unwrap().env, EnvPairs::default());
}

#[test]
fn a_disposable_database_lives_in_memory_and_a_kept_one_does_not() {
    let store = |purpose: &str| {
        let plan = planned(spec(
            json!([{"name": "web", "image": "i", "port": 1}]),
            json!([{"store": "postgres", "role": "app", "isolateBy": "schema", "purpose": purpose}]),
        ));
        plan.stores[0].clone()
    };
    let plumbing = store("plumbing");
    assert_eq!(plumbing.env.get("POSTGRES_INITDB_ARGS"), Some("--no-sync"));
    assert_eq!(plumbing.cmd[..3], ["postgres", "-c", "fsync=off"]);
    let in_memory = i64::try_from(plumbing.tmpfs[0].size_bytes).unwrap();
    assert!(
        in_memory < plumbing.limits.memory_bytes,
        "the limit counts what is kept in memory"
    );
    let data = store("data");
    assert_eq!(data.env.get("POSTGRES_INITDB_ARGS"), None);
    assert!(data.cmd.is_empty() && data.tmpfs.is_empty());
    for store in [plumbing, data] {
        assert_eq!(store.env.get("POSTGRES_USER"), Some("everdict"));
        assert_eq!(store.readiness, StoreReadiness::PostgresWire { port: 5432 });
    }
}

#[test]
fn minio_is_asked_for_its_health() {
    let plan = planned(full());
    let minio = plan.store(StoreKind::Minio).unwrap();
    assert_eq!(
        minio.readiness,
        StoreReadiness::Http {
            port: 9000,
            path: "/minio/health/ready"
        }
    );
    assert_eq!(minio.cmd, ["server", "/data"]);
}

#[test]
fn a_browser_gets_the_origin_flag_and_an_extension_gets_nothing() {
    let browser = planned(full()).browser.unwrap();
    assert_eq!(browser.args, ["--remote-allow-origins=*"]);
    assert_eq!(browser.port, 9222);
    let mut extended = full();
    extended["target"]["extension"] = json!({"ref": "r.io/ext:2"});
    let browser = planned(extended).browser.unwrap();
    assert_eq!(
        (browser.image.as_str(), browser.args.len(), browser.extension),
        ("r.io/ext:2", 0, true)
    );
    let mut served = full();
    served["target"]["acquire"] =
        json!({"mode": "service", "service": "web", "open": "POST /s", "coordinates": {"u": "url"}});
    assert_eq!(planned(served).browser, None);
}

#[test]
fn everything_is_labelled_as_its_owners() {
    let plan = planned(full());
    assert_eq!(plan.labels[crate::labels::INSTALL], "inst");
    assert_eq!(plan.labels[crate::labels::OWNER_PID], "7");
    assert_eq!(plan.labels[crate::labels::TOPOLOGY], plan.name);
    assert_eq!(plan.labels[crate::labels::DIGEST], plan.digest.as_str());
    assert_eq!(plan.labels[crate::labels::KEY], "acme/bu@1.0.0");
}

mod identity {
    use super::*;

    #[test]
    fn the_same_spec_is_the_same_topology() {
        let (one, other) = (planned(full()), planned(full()));
        assert_eq!(one, other);
    }

    /// Each of these once shared a topology with the spec that it differs from.
    #[test]
    fn whatever_differs_in_what_runs_is_another_topology() {
        let change = |at: &str, value: Value| {
            let mut spec = full();
            *spec.pointer_mut(at).unwrap() = value;
            spec
        };
        let mut durable = full();
        durable["dependencies"][0]["purpose"] = json!("data");
        let kept = planned(durable);
        let mut other_tenant = World::new();
        other_tenant.tenant = "umbrella".to_owned();
        let mut other_overlay = World::new();
        other_overlay.store_env.insert("X".to_owned(), "1".to_owned());
        let mut other_store = World::new();
        other_store.images.redis = "redis:8".to_owned();
        let mut other_pin = World::new();
        other_pin.pins.insert("web".to_owned(), "r.io/web:2".to_owned());
        let plans = [
            planned(full()),
            planned(change("/version", json!("1.0+0"))),
            planned(change("/version", json!("1.0-0"))),
            planned(change("/services/0/env/KEY", json!("rotated"))),
            planned(change("/services/0/image", json!("r.io/web:2"))),
            planned(change("/services/0/port", json!(8081))),
            planned(change("/services/0/needs", json!([]))),
            kept,
            other_tenant.plan(full()).unwrap(),
            other_overlay.plan(full()).unwrap(),
            other_store.plan(full()).unwrap(),
            other_pin.plan(full()).unwrap(),
        ];
        let names: BTreeSet<_> = plans.iter().map(|plan| &plan.name).collect();
        let digests: BTreeSet<_> = plans.iter().map(|plan| &plan.digest).collect();
        assert_eq!(
            (names.len(), digests.len()),
            (plans.len(), plans.len()),
            "{names:?}"
        );
    }

    #[test]
    fn what_only_a_case_sees_does_not_start_another_topology() {
        let mut spec = full();
        spec["frontDoor"]["submit"] = json!("POST /other");
        spec["services"][0]["readiness"] = json!({"timeoutMs": 5});
        spec["target"]["extension"] = json!({"ref": "ext"});
        assert_eq!(planned(spec).name, planned(full()).name);
    }

    #[test]
    fn a_digest_can_not_be_tried_against_guessed_secrets() {
        let mut other_machine = World::new();
        other_machine.key = DigestKey::new([4; 32]);
        assert_ne!(other_machine.plan(full()).unwrap().digest, planned(full()).digest);
    }

    #[test]
    fn secrets_do_not_show_in_a_plan() {
        let shown = format!("{:?}", planned(full()));
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("KEY"), "{shown}");
    }

    #[test]
    fn pins_make_a_version_of_their_own_and_reach_the_image() {
        let mut world = World::new();
        world.pins.insert("migrate".to_owned(), "r.io/web:9".to_owned());
        let plan = world.plan(full()).unwrap();
        assert!(plan.key.version.starts_with("1.0.0-pin-"), "{}", plan.key.version);
        assert_eq!(plan.key.version.len(), "1.0.0-pin-".len() + 8);
        assert_eq!(plan.service("migrate").unwrap().image, "r.io/web:9");
        assert_eq!(plan.service("web").unwrap().image, "r.io/web:1");
    }
}

mod refusals {
    use super::*;

    /// Plans a full spec with `change` made at the JSON pointer `at`; returns the refusal.
    fn refused(at: &str, change: Value) -> String {
        let mut spec = full();
        let (parent, field) = at.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[field] = change;
        World::new().plan(spec).expect_err("the spec was taken")
    }

    #[test]
    fn names_that_nobody_has() {
        let cases = [
            (
                "/services/0/needs",
                json!(["migrate", "nope"]),
                "harnessSpec.services[0].needs[1]: ",
            ),
            (
                "/services/0/wiring",
                json!([{"service": "nope"}]),
                "harnessSpec.services[0].wiring[0].service: ",
            ),
            (
                "/dependencies/1/service",
                json!("nope"),
                "harnessSpec.dependencies[1].service: ",
            ),
            (
                "/frontDoor/service",
                json!("nope"),
                "harnessSpec.frontDoor.service: ",
            ),
            (
                "/target/acquire",
                json!({"mode": "service", "service": "nope", "open": "POST /", "coordinates": {}}),
                "harnessSpec.target.acquire.service: ",
            ),
        ];
        for (at, change, path) in cases {
            let error = refused(at, change);
            assert_eq!(
                error,
                format!("{path}no service is named `nope`; the services are migrate, web")
            );
        }
    }

    #[test]
    fn a_front_door_that_can_not_be_called() {
        let error = refused("/frontDoor/service", json!("migrate"));
        assert!(error.starts_with("harnessSpec.frontDoor.service: "), "{error}");
        assert!(error.ends_with("give it a `port`"), "{error}");
    }

    #[test]
    fn a_cycle_of_needs() {
        let error = refused("/services/1/needs", json!(["web"]));
        assert!(error.contains("web → migrate → web"), "{error}");
    }

    #[test]
    fn names_that_clash_or_do_not_resolve() {
        for (name, why) in [
            ("WEB", "is also the name of harnessSpec.services[0]"),
            ("bu-redis", "is a host name of a store of this topology"),
            ("localhost", "is a host name of the runtime"),
            ("host.docker.internal", "is a host name of the runtime"),
            ("my svc", "can't be a host name"),
            ("-a", "can't be a host name"),
            ("", "can't be a host name"),
        ] {
            let mut spec = full();
            spec["services"][0]["needs"] = json!([]);
            spec["services"][1]["name"] = json!(name);
            let error = World::new().plan(spec).unwrap_err();
            assert!(
                error.starts_with(&format!("harnessSpec.services[1].name: `{name}` {why}")),
                "{error}"
            );
        }
        let mut spec = full();
        spec["services"][0]["needs"] = json!([]);
        spec["services"][1]["name"] = json!("browser-use");
        assert!(
            World::new().plan(spec).is_ok(),
            "only the browser of a run named `use` has this name"
        );
    }

    #[test]
    fn what_this_runtime_can_not_give() {
        let cases = [
            (
                "/services/1/replicas",
                json!(2),
                "harnessSpec.services[1].replicas: 2 copies asked for",
            ),
            (
                "/services/1/requires",
                json!({"os": "windows"}),
                "harnessSpec.services[1].requires.os: ",
            ),
            (
                "/services/1/resources",
                json!({"gpu": 1}),
                "harnessSpec.services[1].resources.gpu: ",
            ),
            (
                "/services/1/resources",
                json!({"memoryMb": 1}),
                "harnessSpec.services[1].resources.memoryMb: ",
            ),
            (
                "/services/1/port",
                json!(0),
                "harnessSpec.services[1].port: 0 is no port",
            ),
            (
                "/services/1/port",
                json!(65536),
                "harnessSpec.services[1].port: 65536 is no port",
            ),
            (
                "/services/1/image",
                json!("Not An Image"),
                "harnessSpec.services[1].image: `Not An Image`",
            ),
            (
                "/services/1/volumes",
                json!(["/:/host"]),
                "harnessSpec.services[1].volumes[0]: the host path `/`",
            ),
            (
                "/services/1/volumes",
                json!(["ab:/x", "cd:/x"]),
                "harnessSpec.services[1].volumes[1]: something",
            ),
        ];
        for (at, change, start) in cases {
            let error = refused(at, change);
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn a_service_on_the_host() {
        let mut spec = full();
        spec["services"][1] = json!({"name": "migrate", "exec": {"kind": "host", "command": ["x"]}});
        let error = World::new().plan(spec).unwrap_err();
        assert!(
            error.starts_with("harnessSpec.services[1].exec.kind: `migrate` would run on the host"),
            "{error}"
        );
    }

    #[test]
    fn secrets_that_were_not_filled_in_are_all_named() {
        let mut spec = full();
        spec["services"][0]["env"] = json!({"A": {"secretRef": "a"}, "B": "plain"});
        spec["services"][1]["env"] = json!({"C": {"secretRef": "c"}});
        let error = World::new().plan(spec).unwrap_err();
        assert!(
            error.starts_with(
                "harnessSpec.services[0].env.A, harnessSpec.services[1].env.C: no value for the secret"
            ),
            "{error}"
        );
    }

    #[test]
    fn pins_that_no_service_takes() {
        let mut world = World::new();
        world.pins.insert("nope".to_owned(), "i".to_owned());
        let error = world.plan(full()).unwrap_err();
        assert_eq!(
            error,
            "imagePins.nope: no service has this name; the services are web, migrate"
        );
        let mut world = World::new();
        world.pins.insert("web".to_owned(), "Bad Image".to_owned());
        assert!(
            world
                .plan(full())
                .unwrap_err()
                .starts_with("harnessSpec.services[0].image: ")
        );
    }

    #[test]
    fn a_gpu_is_given_where_its_owner_allows_it() {
        let mut world = World::new();
        world.policy.gpus = true;
        let mut spec = full();
        spec["services"][0]["resources"] = json!({"gpu": 2, "cpu": 500});
        let plan = world.plan(spec).unwrap();
        let web = plan.service("web").unwrap();
        assert_eq!((web.gpus, web.limits.cpu_nanos), (Some(2), Some(500_000_000)));
    }

    #[test]
    fn equal_ports_of_two_services_are_no_conflict_since_each_has_its_own_network_stack() {
        let mut spec = full();
        spec["services"][1]["port"] = json!(8080);
        assert_eq!(planned(spec).services[1].port, Some(8080));
    }
}

#[test]
fn volumes_are_collected_once_and_named_after_the_topology() {
    let mut spec = full();
    spec["services"][0]["volumes"] = json!(["shared:/a", "own:/b:ro"]);
    spec["services"][1]["volumes"] = json!(["shared:/c"]);
    let plan = planned(spec);
    assert_eq!(
        plan.volumes,
        [format!("{}.own", plan.name), format!("{}.shared", plan.name)]
    );
    assert_ne!(plan.name, planned(full()).name, "mounts are part of the identity");
}

#[test]
fn a_services_own_readiness_wins_over_the_runtimes() {
    let mut spec = full();
    spec["services"][0]["readiness"] = json!({"timeoutMs": 30, "intervalMs": 10});
    let plan = planned(spec);
    assert_eq!(plan.services[0].readiness.timeout, Duration::from_millis(30));
    assert_eq!(plan.services[1].readiness, ReadinessPlan::default());
}
