//! A hub in the test's own process, as a team has one: it outlives the app.

use everdict_app::control::TokenPlace;
use everdict_app::{HubClient, HubHost, HubOptions};
use tokio::runtime::Runtime;

use super::Desktop;
use super::desktop::sleeper;

pub struct TeamHub {
    runtime: Runtime,
    hub: HubHost,
    client: HubClient,
}

impl TeamHub {
    /// Starts it, with its database in the desktop's folder.
    pub fn start(desktop: &Desktop) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let options = HubOptions {
            database: None,
            data_dir: desktop.folder().join("team"),
            listen: "127.0.0.1:0".parse().expect("an address"),
            lease_ttl: None,
            oidc: None,
        };
        // A hub's client needs what a control sets up once per process.
        desktop.with_control(async |_control| {});
        let (hub, key) = runtime.block_on(async {
            let hub = HubHost::start(&options).await.expect("a hub");
            let key = hub.create_api_key("default", "admin").await.expect("a key");
            (hub, key)
        });
        let client = HubClient::new(hub.url().clone(), Some(key)).expect("a client");
        Self { runtime, hub, client }
    }

    /// Pairs the app with it, as a member does.
    pub fn pair_app(&self, desktop: &Desktop) {
        let url = everdict_app::hub_url::text(self.hub.url());
        let key = self.runtime.block_on(self.hub.create_api_key("default", "admin"));
        let key = key.expect("a key");
        desktop.with_control(async |control| {
            control
                .pair_with_api_key(&url, key, "bench", TokenPlace::File)
                .await
                .expect("a pairing");
        });
    }

    /// Submits a case that sleeps.
    pub fn submit_sleeper(&self) {
        let submitted = self.runtime.block_on(self.client.submit(&sleeper()));
        submitted.expect("the hub takes it");
    }

    /// Submits a case that is over at once.
    pub fn submit_quick(&self) {
        let mut case = sleeper();
        case["harness"]["id"] = "quick".into();
        case["harnessSpec"]["id"] = "quick".into();
        case["harnessSpec"]["command"] = "true".into();
        let submitted = self.runtime.block_on(self.client.submit(&case));
        submitted.expect("the hub takes it");
    }

    /// Counts the runs that are over.
    pub fn ended(&self) -> usize {
        let runs = self.runtime.block_on(self.client.runs(50)).expect("the runs");
        runs.iter().filter(|run| run.status.is_final()).count()
    }

    /// Counts the runs whose lease somebody holds.
    pub fn running(&self) -> usize {
        let runs = self.runtime.block_on(self.client.runs(50)).expect("the runs");
        runs.iter().filter(|run| run.status.as_str() == "running").count()
    }
}
