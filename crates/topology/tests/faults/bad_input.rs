//! What can't run is refused with its place and the way out, and before anything is created on the daemon.

use everdict_contracts::{ErrorCode, FailureClass, ServiceHarness, decode};
use everdict_testkit::fake_engine::{FakeImage, Op, PullScript};
use everdict_topology::runtime::TopologyRuntime as _;
use serde_json::{Value, json};

use crate::world::{WEB, World, harness, stock};

/// A valid spec with each kind of name in it, and a change at a JSON pointer.
fn changed(at: &str, change: &Value) -> Value {
    let mut spec = json!({
        "id": "shop", "version": "1.0.0",
        "services": [
            {"name": "web", "image": WEB, "port": 8080, "needs": ["api"], "env": {"API": "{{api.url}}"}},
            {"name": "api", "image": WEB, "port": 8080},
            {"name": "job", "image": WEB},
        ],
        "dependencies": [{"store": "redis", "role": "cache", "isolateBy": "key-prefix", "inject": [{"env": "CACHE"}]}],
        "frontDoor": {"service": "web", "submit": "POST /runs"},
        "traceSource": {"kind": "otel", "endpoint": "http://127.0.0.1:1"},
    });
    if !at.is_empty() {
        let (parent, field) = at.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[field] = change.clone();
    }
    spec
}

/// Nothing was asked of the daemon that changes it.
fn nothing_was_made(world: &World, what: &str) {
    for op in [
        Op::ContainerCreate,
        Op::NetworkCreate,
        Op::VolumeCreate,
        Op::ContainerStart,
    ] {
        assert!(world.fake.calls_of(op).is_empty(), "{what}: {op:?}");
    }
    assert_eq!(world.everything(), [""; 0], "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spec_that_the_bad_ones_are_made_of_is_good() {
    let world = World::new();
    let runtime = world.runtime().await;
    let spec: ServiceHarness = decode(changed("", &Value::Null)).unwrap();
    runtime.ensure_topology(&spec, &world.scope("r1")).await.unwrap();
}

/// Place of the change, the change, the path that the refusal begins with, and words of the way out.
#[expect(clippy::too_many_lines, reason = "a table")]
fn refused() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    vec![
        // Unknown services, in each place that names one.
        (
            "/frontDoor/service",
            json!("nope"),
            "harnessSpec.frontDoor.service",
            "the services are api, job, web",
        ),
        (
            "/services/0/needs",
            json!(["nope"]),
            "harnessSpec.services[0].needs[0]",
            "the services are api, job, web",
        ),
        (
            "/dependencies/0/service",
            json!("nope"),
            "harnessSpec.dependencies[0].service",
            "the services are",
        ),
        (
            "/services/0/wiring",
            json!([{"service": "nope"}]),
            "harnessSpec.services[0].wiring[0].service",
            "the services are",
        ),
        // Peers that can't be reached.
        (
            "/services/0/env",
            json!({"A": "{{job.url}}"}),
            "harnessSpec.services[0].env.A",
            "`job`",
        ),
        (
            "/services/1/env",
            json!({"A": "{{web.url}}"}),
            "harnessSpec.services[1].env.A",
            "needs",
        ),
        // A field of a store that it doesn't have.
        (
            "/dependencies/0/inject",
            json!([{"env": "A", "template": "{database}"}]),
            "harnessSpec.dependencies[0].inject[0].template",
            "url",
        ),
        // A cycle.
        (
            "/services/1/needs",
            json!(["web"]),
            "harnessSpec.services",
            "needs",
        ),
        // Ports that can't be had, and a front door without one.
        (
            "/services/0/port",
            json!(0),
            "harnessSpec.services[0].port",
            "1 to 65535",
        ),
        (
            "/services/0/port",
            json!(70000),
            "harnessSpec.services[0].port",
            "1 to 65535",
        ),
        (
            "/frontDoor/service",
            json!("job"),
            "harnessSpec.frontDoor.service",
            "give it a `port`",
        ),
        // Two members of one name would take each other's address.
        (
            "/services/2/name",
            json!("WEB"),
            "harnessSpec.services[2].name",
            "each",
        ),
        (
            "/services/2/name",
            json!("shop-redis"),
            "harnessSpec.services[2].name",
            "choose another",
        ),
        // Images that are none.
        (
            "/services/1/image",
            json!("No Such Form"),
            "harnessSpec.services[1].image",
            "`No Such Form`",
        ),
        // Volumes that the member hasn't allowed.
        (
            "/services/1/volumes",
            json!(["/:/host"]),
            "harnessSpec.services[1].volumes[0]",
            "allow",
        ),
        (
            "/services/1/volumes",
            json!(["/var/run/docker.sock:/var/run/docker.sock"]),
            "harnessSpec.services[1].volumes[0]",
            "allow",
        ),
        (
            "/services/1/volumes",
            json!(["ok:/x", "../up:/y"]),
            "harnessSpec.services[1].volumes[1]",
            "`",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_spec_is_refused_with_its_path_and_the_way_out_before_anything_is_created() {
    let mut wrong = Vec::new();
    for (at, change, path, way_out) in refused() {
        let world = World::new();
        let runtime = world.runtime().await;
        let what = format!("{at} = {change}");
        // What the schema refuses never reaches the runtime; its words stand under the same path.
        let (words, code) = match decode::<ServiceHarness>(changed(at, &change)) {
            Err(error) => (
                format!("harnessSpec.{error}").replace("at `", ""),
                ErrorCode::BadRequest,
            ),
            Ok(spec) => {
                let fault = runtime
                    .ensure_topology(&spec, &world.scope("r1"))
                    .await
                    .err()
                    .unwrap_or_else(|| panic!("{what} was taken"));
                assert_eq!(
                    (fault.failure().class, fault.failure().retryable),
                    (FailureClass::Config, false),
                    "{what}: {fault:?}"
                );
                (fault.message.clone(), fault.code)
            }
        };
        assert_eq!(code, ErrorCode::BadRequest, "{what}: {words}");
        if !words.starts_with(path) || !words.contains(way_out) {
            wrong.push(format!("{what}: {words}"));
        }
        nothing_was_made(&world, &what);
        assert!(world.fake.pulls().is_empty(), "{what}");
    }
    assert_eq!(wrong, [""; 0], "without its place or the way out");
}

#[test]
fn an_unknown_store_is_refused_where_it_is_named_with_those_there_are() {
    let spec = changed("/dependencies/0/store", &json!("mongodb"));
    let error = decode::<ServiceHarness>(spec).unwrap_err();
    assert_eq!(error.path, "dependencies[0].store");
    for known in ["postgres", "redis", "minio"] {
        assert!(error.message.contains(known), "{error}");
    }
}

/// Images that nobody can pull: known from the registry's answer, before the first container.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_can_not_be_had_is_refused_with_its_path_before_anything_is_created() {
    let cases = [
        (PullScript::NoSuchTag, "doesn't exist"),
        (PullScript::Unauthorized, "needs another login"),
        (PullScript::Denied, "isn't for everybody"),
        (PullScript::NoPlatform, "isn't made for this machine"),
    ];
    for (script, words) in cases {
        let world = World::without_images();
        for image in stock() {
            world.fake.publish(image);
        }
        world.fake.script_pull(WEB, script.clone());
        let runtime = world.runtime().await;
        let result = runtime
            .ensure_topology(&harness(|_| {}), &world.scope("r1"))
            .await;
        let failure = result.err().unwrap().failure();
        let what = format!("{script:?}");
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Config, false),
            "{what}: {failure:?}"
        );
        assert!(
            failure.message.contains(words) && failure.message.contains("harnessSpec.services[0].image"),
            "{what}: {}",
            failure.message
        );
        runtime.settle().await;
        nothing_was_made(&world, &what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_another_platform_is_refused_with_its_path_before_anything_is_created() {
    let world = World::without_images();
    world.fake.set_architecture("arm64");
    world.fake.publish(FakeImage::web(WEB));
    let runtime = world.runtime().await;
    let result = runtime
        .ensure_topology(&harness(|_| {}), &world.scope("r1"))
        .await;
    let failure = result.err().unwrap().failure();
    assert!(
        failure.message.contains("needs linux/amd64")
            && failure.message.contains("harnessSpec.services[0].image"),
        "{}",
        failure.message
    );
    nothing_was_made(&world, "arm64");
    assert!(world.fake.pulls().is_empty());
}
