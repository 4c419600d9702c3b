//! The variables that a run is told: who it is, what it is to do, where its target and its part of each store are.

use everdict_contracts::{IsolateBy, ServiceHarness};
use everdict_topology::stores;

use super::interpolate::Vars;

/// The id of the run.
pub(crate) const RUN_ID: &str = "run_id";
/// What is asked.
pub(crate) const TASK: &str = "task";
/// Where the topology tells that it is done.
pub(crate) const CALLBACK_URL: &str = "callback_url";
/// The DevTools address of the run's own browser.
pub(crate) const TARGET_CDP_URL: &str = "target_cdp_url";

/// The three that every run has, whatever stores there are.
const THREAD_ID: &str = "thread_id";
const STREAM_CHANNEL: &str = "stream_channel";
const MINIO_PREFIX: &str = "minio_prefix";

/// The run's own variables, without those of a target or a callback.
///
/// A store's variable is the very slice that is seeded, read and dropped.
pub(crate) fn vocabulary(spec: &ServiceHarness, run_id: &str, task: &str) -> Vars {
    let mut vars = Vars::new();
    let channel = slice(IsolateBy::ThreadId, run_id);
    vars.insert(THREAD_ID.to_owned(), channel.clone());
    vars.insert(STREAM_CHANNEL.to_owned(), channel);
    vars.insert(MINIO_PREFIX.to_owned(), slice(IsolateBy::ObjectPrefix, run_id));
    for dependency in &spec.dependencies {
        if let Some((name, value)) = stores::wiring(dependency.isolate_by, run_id) {
            vars.insert(name.to_owned(), value);
        }
    }
    vars.insert(RUN_ID.to_owned(), run_id.to_owned());
    vars.insert(TASK.to_owned(), task.to_owned());
    vars
}

/// The fields of a body that the harness gives no template for.
pub(crate) const DEFAULT_FIELDS: [&str; 4] = [TASK, THREAD_ID, STREAM_CHANNEL, MINIO_PREFIX];

fn slice(isolate_by: IsolateBy, run_id: &str) -> String {
    stores::wiring(isolate_by, run_id)
        .map(|(_, value)| value)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use everdict_contracts::decode;
    use serde_json::{Value, json};

    use super::*;

    fn vars(isolation: &[&str], run_id: &str) -> Vars {
        let dependencies: Vec<Value> = isolation
            .iter()
            .map(|by| json!({ "store": "postgres", "role": "r", "isolateBy": by }))
            .collect();
        let spec: ServiceHarness = decode(json!({
            "id": "h", "version": "1", "services": [], "dependencies": dependencies,
            "frontDoor": { "service": "web", "submit": "/" },
            "traceSource": { "kind": "otel", "endpoint": "http://127.0.0.1:1" },
        }))
        .unwrap();
        vocabulary(&spec, run_id, "do it")
    }

    #[test]
    fn every_run_knows_itself_and_its_channels() {
        let vars = vars(&["external"], "r1");
        let pairs: Vec<_> = vars
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("minio_prefix", "runs/r1/"),
                ("run_id", "r1"),
                ("stream_channel", "run-r1"),
                ("task", "do it"),
                ("thread_id", "run-r1"),
            ]
        );
    }

    #[test]
    fn each_way_of_isolation_has_its_variable() {
        let vars = vars(&["schema", "key-prefix", "object-prefix", "thread_id"], "r1");
        assert_eq!(vars["key_prefix"], "run-r1");
        assert_eq!(vars["object_prefix"], "runs/r1/");
        assert!(vars["schema"].starts_with("r_"), "{vars:?}");
    }

    /// A store folds or cuts such a name; two trials would meet in one schema.
    #[test]
    fn long_and_upper_case_run_ids_keep_schemas_of_their_own() {
        let schema = |run: &str| vars(&["schema"], run)["schema"].clone();
        let long = "evd-Batch-case-with-a-name-that-is-longer-than-an-identifier-may-be";
        let trials = [schema(&format!("{long}-t0")), schema(&format!("{long}-t1"))];
        assert_ne!(trials[0], trials[1]);
        assert!(
            trials
                .iter()
                .all(|name| name.len() <= 63 && *name == name.to_lowercase()),
            "{trials:?}"
        );
    }
}
