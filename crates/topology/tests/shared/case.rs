//! Harnesses and cases, for whichever engine they are tried on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use everdict_contracts::{ServiceHarness, decode};
use everdict_topology::egress::CaseNetwork;
use everdict_topology::runtime::CaseScope;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The case of a run whose log goes into `lines`.
pub fn scope_of(run: &str, lines: &Arc<Mutex<Vec<String>>>) -> CaseScope {
    let lines = Arc::clone(lines);
    CaseScope {
        tenant: "acme".to_owned(),
        run_id: run.to_owned(),
        attempt: format!("{run}.1"),
        progress: Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned())),
        cancel: CancellationToken::new(),
        deadline: None,
        pins: BTreeMap::new(),
        credentials: Vec::new(),
        network: CaseNetwork::default(),
    }
}

/// A harness with one front door of this image, and what `change` makes of it.
pub fn harness_of(web: &str, change: impl FnOnce(&mut Value)) -> ServiceHarness {
    let mut spec = json!({
        "id": "shop",
        "version": "1.0.0",
        "services": [{"name": "web", "image": web, "port": 8080}],
        "frontDoor": {"service": "web", "submit": "POST /runs"},
        "traceSource": {"kind": "otel", "endpoint": "http://127.0.0.1:1"}
    });
    change(&mut spec);
    decode::<ServiceHarness>(spec).unwrap()
}

/// The same with PostgreSQL, Redis and a browser.
pub fn full_harness_of(web: &str) -> ServiceHarness {
    harness_of(web, |spec| {
        spec["dependencies"] = json!([
            {"store": "postgres", "role": "db", "isolateBy": "schema"},
            {"store": "redis", "role": "cache", "isolateBy": "key-prefix"}
        ]);
        spec["target"] = json!({"kind": "browser", "engine": "chromium"});
    })
}
