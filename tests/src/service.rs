//! A service case, and a world whose runner may use Docker.

use std::time::Duration;

use serde_json::{Value, json};

use crate::docker::{BROWSER, FRONT_DOOR};
use crate::world::{World, eventually};

/// Between the start of a runner and the hub's knowing what it offers.
const OFFER_LIMIT: Duration = Duration::from_secs(30);

/// A case on a front door, PostgreSQL, Redis and a browser, whose trace backend is dead.
pub fn service_run(case: &str, target: &str) -> Value {
    let task = format!("serve {case}");
    json!({
        "harness": {"id": "shop", "version": "1.0.0"},
        "harnessSpec": {
            "kind": "service", "id": "shop", "version": "1.0.0",
            "services": [{"name": "web", "image": FRONT_DOOR, "port": 8080, "perRun": ["schema", "key_prefix"]}],
            "dependencies": [
                {"store": "postgres", "role": "db", "isolateBy": "schema"},
                {"store": "redis", "role": "cache", "isolateBy": "key-prefix"},
            ],
            "target": {"kind": "browser", "engine": "chromium"},
            "frontDoor": {"service": "web", "submit": "POST /runs"},
            "traceSource": {"kind": "otel", "endpoint": "http://127.0.0.1:1"},
        },
        "case": {
            "id": case, "env": {"kind": "browser"}, "task": task,
            "graders": [
                {"id": "url-matches", "config": {"pattern": "/done\\?task=serve"}},
                {"id": "dom-contains", "config": {"text": format!("done: {task}")}},
                {"id": "store-state", "config": {"store": "postgres", "query": "SELECT text FROM answers",
                    "expect": format!("done: {task}"), "mode": "exact"}},
            ],
            "timeoutSec": 120, "placement": {"target": target},
        },
    })
}

impl World {
    /// Writes the settings of this world's runners; `topology` are the lines of that table.
    pub fn topology_settings(&self, topology: &str) {
        let folder = self.home().join("config");
        std::fs::create_dir_all(&folder).expect("config folder");
        std::fs::write(folder.join("settings.toml"), format!("[topology]\n{topology}\n")).expect("settings");
    }

    /// The same, for the images that are here, with nothing kept beyond the test.
    pub fn docker_settings(&self) {
        self.topology_settings(&format!(
            "browser_image = \"{BROWSER}\"\nprepare_databases = false\ndisk_floor_gb = 1"
        ));
    }

    /// The label that this world's runners give to what they make; they have to have run.
    pub fn install_label(&self) -> String {
        let id = std::fs::read_to_string(self.home().join("state/install-id")).expect("an installation");
        format!("everdict.install={id}")
    }

    async fn row(&self, runner: &str) -> Value {
        let (_, roster) = self.call(reqwest::Method::GET, "/runners", None).await;
        let rows = roster["runners"].as_array().cloned().unwrap_or_default();
        rows.into_iter()
            .find(|row| row["id"] == runner)
            .unwrap_or_default()
    }

    /// Whether the hub has heard from a runner, and with it what it offers.
    pub async fn has_called(&self, runner: &str) -> bool {
        self.row(runner).await["lastSeenAt"].is_string()
    }

    /// What the hub knows of a runner's capabilities.
    pub async fn capabilities(&self, runner: &str) -> Vec<String> {
        let row = self.row(runner).await;
        let words = row["capabilities"].as_array().cloned().unwrap_or_default();
        words
            .iter()
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    }

    /// Waits until the hub knows that a runner takes containers.
    pub async fn takes_containers(&self, runner: &str) {
        eventually("the runner offers docker", OFFER_LIMIT, || async {
            self.capabilities(runner)
                .await
                .contains(&"docker".to_owned())
                .then_some(())
        })
        .await;
    }
}
