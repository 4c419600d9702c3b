//! One store container per test, started as a plan says, and removed however the test ends.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
};
use everdict_contracts::{Fault, ServiceHarness, StoreFixture, decode};
use everdict_topology::digest::DigestKey;
use everdict_topology::egress::Reaching;
use everdict_topology::engine::{Engine, ExecRequest};
use everdict_topology::labels::Owner;
use everdict_topology::plan::{PlanContext, PlanPolicy, ReadinessPlan, StorePlan, TopologyPlan};
use everdict_topology::stores::{StockImages, StoreExec, StoreQuery, drops, plan_seeds, read};
use futures_util::FutureExt as _;
use serde_json::{Value, json};

pub use crate::skip::skip;

pub const DAEMON: &str = "unix:///var/run/docker.sock";
/// A store is up in three seconds; the rest is for a machine that does other things.
const READY: Duration = Duration::from_secs(60);
/// For one command in a store.
const EXEC: Duration = Duration::from_secs(60);

/// A running store of a harness.
pub struct Store {
    pub harness: ServiceHarness,
    engine: Engine,
    container: String,
}

/// Runs a test against the one store of `dependency`; skips it when no daemon or no image is there.
pub async fn with_store<F: Future<Output = Store>>(
    test: &str,
    dependency: Value,
    ready: &[&str],
    body: impl FnOnce(Store) -> F,
) {
    let Some((engine, docker)) = connect(test).await else {
        return;
    };
    let harness = harness(&dependency);
    let plan = plan(&harness).stores.remove(0);
    if docker.inspect_image(&plan.image).await.is_err() {
        skip(test, &format!("image {} isn't there", plan.image));
        return;
    }
    let name = format!("everdict-test-{test}-{}", std::process::id());
    let container = start(&docker, &name, &plan).await;
    let store = Store {
        harness,
        engine,
        container: container.clone(),
    };
    let run = AssertUnwindSafe(async {
        store.wait(ready).await;
        body(store).await;
    });
    let result = run.catch_unwind().await;
    let options = RemoveContainerOptionsBuilder::default()
        .force(true)
        .v(true)
        .build();
    docker
        .remove_container(&container, Some(options))
        .await
        .expect("the container is removed");
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// Connects to the daemon, or lists the test as skipped.
pub async fn connect(test: &str) -> Option<(Engine, Docker)> {
    match Engine::connect(DAEMON).await {
        Ok(engine) => {
            let docker =
                Docker::connect_with_unix(DAEMON, 60, bollard::API_DEFAULT_VERSION).expect("a client");
            Some((engine, docker.negotiate_version().await.expect("a daemon")))
        }
        Err(error) => {
            skip(test, &error.to_string());
            None
        }
    }
}

fn harness(dependency: &Value) -> ServiceHarness {
    decode(json!({
        "id": "bu", "version": "1", "services": [{"name": "web", "image": "i", "port": 1}],
        "dependencies": [dependency],
        "frontDoor": {"service": "web", "submit": "POST /"},
        "traceSource": {"kind": "otel", "endpoint": "http://localhost:1"}
    }))
    .expect("a harness")
}

fn plan(harness: &ServiceHarness) -> TopologyPlan {
    let owner = Owner {
        install: "stores-test".to_owned(),
        runner: "r".to_owned(),
        pid: std::process::id(),
        start: "s".to_owned(),
        boot: "b".to_owned(),
    };
    let context = PlanContext {
        owner: &owner,
        tenant: "acme",
        pins: &BTreeMap::new(),
        store_env: &BTreeMap::new(),
        images: &StockImages {
            minio: "minio/minio:latest".to_owned(),
            ..StockImages::default()
        },
        policy: &PlanPolicy::default(),
        digest_key: &DigestKey::new([0; 32]),
        readiness: ReadinessPlan::default(),
        network: &Reaching::default(),
    };
    TopologyPlan::from_spec(harness, &context).expect("a plan")
}

async fn start(docker: &Docker, name: &str, plan: &StorePlan) -> String {
    let tmpfs: HashMap<String, String> = plan
        .tmpfs
        .iter()
        .map(|folder| {
            (
                folder.target.clone(),
                format!("size={},mode={}", folder.size_bytes, folder.mode),
            )
        })
        .collect();
    let body = ContainerCreateBody {
        image: Some(plan.image.clone()),
        env: Some(plan.env.to_engine()),
        cmd: (!plan.cmd.is_empty()).then(|| plan.cmd.clone()),
        labels: Some(HashMap::from([("everdict.test".to_owned(), "stores".to_owned())])),
        host_config: Some(HostConfig {
            memory: Some(plan.limits.memory_bytes),
            pids_limit: Some(plan.limits.pids),
            tmpfs: Some(tmpfs),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    let id = docker
        .create_container(Some(options), body)
        .await
        .expect("a container")
        .id;
    docker
        .start_container(&id, None::<StartContainerOptions>)
        .await
        .expect("it starts");
    id
}

impl Store {
    async fn wait(&self, ready: &[&str]) {
        let end = Instant::now() + READY;
        loop {
            let looked = self
                .engine
                .exec(&self.container, ExecRequest::new(ready.to_vec(), EXEC))
                .await
                .expect("exec");
            if looked.success() {
                return;
            }
            assert!(
                Instant::now() < end,
                "never ready: {}",
                String::from_utf8_lossy(&looked.stderr)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Runs a plain command in the container.
    pub async fn run(&self, argv: &[&str]) -> String {
        let outcome = self
            .engine
            .exec(&self.container, ExecRequest::new(argv.to_vec(), EXEC))
            .await
            .expect("exec");
        assert!(
            outcome.success(),
            "{argv:?}: {}",
            String::from_utf8_lossy(&outcome.stderr)
        );
        String::from_utf8(outcome.stdout).expect("text")
    }

    async fn exec(&self, exec: &StoreExec) -> Result<String, Fault> {
        let outcome = self
            .engine
            .exec(&self.container, exec.request(EXEC))
            .await
            .expect("exec");
        exec.judge(&outcome)
    }

    pub async fn seed(&self, run: &str, text: &str) -> Result<String, Fault> {
        let store = self.harness.dependencies[0].store;
        let fixture: StoreFixture =
            decode(json!({"store": store, "seed": {"inline": text}})).expect("a fixture");
        self.exec(&plan_seeds(&self.harness, &[fixture], run)?[0].exec()?)
            .await
    }

    pub async fn read(&self, run: &str, query: &str) -> Result<String, Fault> {
        let store = self.harness.dependencies[0].store;
        let query = StoreQuery {
            store,
            role: None,
            query,
            path: "evalCase.graders[0]",
        };
        self.exec(&read(&self.harness, run, &query)?).await
    }

    pub async fn drop_slices(&self, run: &str) -> Result<(), Fault> {
        for exec in drops(&self.harness, run) {
            self.exec(&exec).await?;
        }
        Ok(())
    }
}
