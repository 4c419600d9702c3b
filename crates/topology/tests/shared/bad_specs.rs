//! Specs that can't run, for whichever engine they are tried on.

use everdict_contracts::{ErrorCode, FailureClass, ServiceHarness, decode};
use everdict_topology::runtime::{CaseScope, DockerTopologyRuntime, TopologyRuntime as _};
use serde_json::{Value, json};

/// A valid spec with each kind of name in it, and a change at a JSON pointer.
pub fn changed(web: &str, at: &str, change: &Value) -> Value {
    let mut spec = json!({
        "id": "shop", "version": "1.0.0",
        "services": [
            {"name": "web", "image": web, "port": 8080, "needs": ["api"], "env": {"API": "{{api.url}}"}},
            {"name": "api", "image": web, "port": 8080},
            {"name": "job", "image": web},
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

/// Place of the change, the change, the path that the refusal begins with, and words of the way out.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn refused() -> Vec<(&'static str, Value, &'static str, &'static str)> {
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

/// Tries a spec, and gives out the words of its refusal: the schema's, whose place stands under the same path, or the
/// runtime's. `None` when it was taken.
pub async fn refusal(runtime: &DockerTopologyRuntime, spec: Value, scope: &CaseScope) -> Option<String> {
    let spec = match decode::<ServiceHarness>(spec) {
        Err(error) => return Some(format!("harnessSpec.{error}").replace("at `", "")),
        Ok(spec) => spec,
    };
    let fault = runtime.ensure_topology(&spec, scope).await.err()?;
    let failure = fault.failure();
    assert_eq!(
        (failure.class, failure.retryable, fault.code),
        (FailureClass::Config, false, ErrorCode::BadRequest),
        "{fault:?}"
    );
    Some(fault.message)
}
