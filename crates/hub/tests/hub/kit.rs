//! A hub on a free port, and clients for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[cfg(all(unix, feature = "postgres"))]
use everdict_contracts::SecretText;
use everdict_contracts::WorkspaceId;
use everdict_hub::{Hub, HubConfig, Role};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Long enough for a busy machine, short enough to notice a hang.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct World {
    pub hub: Arc<Hub>,
    pub address: SocketAddr,
    pub key: String,
    config: HubConfig,
    folder: TempDir,
    database: Option<Arc<Database>>,
    stop: CancellationToken,
    server: JoinSet<()>,
}

impl World {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut HubConfig)) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let mut config = HubConfig::new(folder.path().join("data"));
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        change(&mut config);
        let database = database(&mut config);
        let hub = Hub::open(config.clone()).await.unwrap();
        let key = hub
            .create_api_key(&WorkspaceId::from("acme"), Role::Admin)
            .await
            .unwrap();
        let mut world = Self {
            hub: Arc::new(hub),
            address: config.listen,
            key: key.expose().to_owned(),
            config,
            folder,
            database,
            stop: CancellationToken::new(),
            server: JoinSet::new(),
        };
        world.serve().await;
        world
    }

    /// Another hub on the same database, with the same key.
    #[cfg(all(unix, feature = "postgres"))]
    pub async fn peer(&self) -> Self {
        let mut config = self.config.clone();
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let hub = Hub::open(config.clone()).await.unwrap();
        let mut world = Self {
            hub: Arc::new(hub),
            address: config.listen,
            key: self.key.clone(),
            config,
            folder: tempfile::tempdir().unwrap(),
            database: self.database.clone(),
            stop: CancellationToken::new(),
            server: JoinSet::new(),
        };
        world.serve().await;
        world
    }

    async fn serve(&mut self) {
        let listener = self.hub.bind().await.unwrap();
        self.address = listener.local_addr().unwrap();
        let (hub, stop) = (self.hub.clone(), self.stop.clone());
        self.server
            .spawn(async move { hub.serve(listener, stop).await.unwrap() });
    }

    /// Stops the server; returns once it has.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        while self.server.join_next().await.is_some() {}
        self.hub.close().await;
    }

    /// Stops the hub and opens another one on the same folder.
    pub async fn restart(mut self) -> Self {
        self.stop().await;
        let Self {
            hub,
            key,
            config,
            folder,
            database,
            server,
            ..
        } = self;
        drop(hub);
        drop(server);
        let hub = Hub::open(config.clone()).await.unwrap();
        let mut world = Self {
            hub: Arc::new(hub),
            address: config.listen,
            key,
            config,
            folder,
            database,
            stop: CancellationToken::new(),
            server: JoinSet::new(),
        };
        world.serve().await;
        world
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn http(&self) -> Http {
        self.http_as(&self.key)
    }

    pub fn http_as(&self, credential: &str) -> Http {
        Http {
            client: reqwest::Client::new(),
            base: self.url(""),
            credential: credential.to_owned(),
        }
    }

    pub async fn key(&self, workspace: &str, role: Role) -> String {
        let key = self
            .hub
            .create_api_key(&WorkspaceId::from(workspace), role)
            .await
            .unwrap();
        key.expose().to_owned()
    }

    /// Pairs a runner that can use git, and opens its session.
    pub async fn runner(&self) -> Runner {
        let body = json!({"label": "lab", "capabilities": ["git"]});
        let (status, paired) = self.http().post("/runners", &body).await;
        assert_eq!(status, StatusCode::OK, "{paired}");
        let token = paired["token"].as_str().unwrap().to_owned();
        Runner {
            id: paired["runner"]["id"].as_str().unwrap().to_owned(),
            mcp: Mcp::connect(self, &token).await,
            token,
        }
    }

    pub async fn submit(&self, target: &str) -> String {
        let (status, run) = self.http().post("/runs", &run_on(target)).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{run}");
        run["id"].as_str().unwrap().to_owned()
    }

    /// Fetches a run until it has this status.
    pub async fn run_with(&self, id: &str, status: &str) -> Value {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let (_, run) = self.http().get(&format!("/runs/{id}")).await;
            if run["status"] == status {
                return run;
            }
            assert!(tokio::time::Instant::now() < until, "still not {status}: {run}");
            tokio::task::yield_now().await;
        }
    }
}

/// What holds a database for a test.
#[cfg(all(unix, feature = "postgres"))]
pub type Database = everdict_testkit::Postgres;
#[cfg(not(all(unix, feature = "postgres")))]
pub type Database = ();

/// The suite runs on SQLite, and once more on PostgreSQL with `EVERDICT_TEST_DATABASE=postgres`.
#[cfg(all(unix, feature = "postgres"))]
#[expect(
    clippy::disallowed_methods,
    reason = "the test script says in the environment which store to run on"
)]
fn database(config: &mut HubConfig) -> Option<Arc<Database>> {
    if config.database.is_some() || std::env::var("EVERDICT_TEST_DATABASE").as_deref() != Ok("postgres") {
        return None;
    }
    let server = everdict_testkit::Postgres::start(everdict_testkit::postgres::Durability::None).unwrap();
    config.database = Some(SecretText::new(server.url()));
    Some(Arc::new(server))
}
#[cfg(not(all(unix, feature = "postgres")))]
fn database(_: &mut HubConfig) -> Option<Arc<Database>> {
    None
}

pub fn run_on(target: &str) -> Value {
    json!({
        "harness": {"id": "echo", "version": "1"},
        "harnessSpec": {"kind": "command", "id": "echo", "version": "1", "command": "echo {{task}}"},
        "case": {"id": "c-1", "env": {"kind": "prompt"}, "task": "say \"hi\"\n", "graders": [{"id": "steps"}]},
        "runtime": target,
    })
}

pub fn result() -> Value {
    json!({
        "caseId": "c-1", "harness": "echo@1", "evidenceVersion": 2,
        "trace": [{"t": 0, "kind": "message", "role": "assistant", "text": "hi"}],
        "snapshot": {"kind": "prompt", "output": "hi"},
        "scores": [{"graderId": "steps", "metric": "tool_calls", "value": 1}],
    })
}

pub struct Http {
    client: reqwest::Client,
    base: String,
    credential: String,
}

impl Http {
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if !self.credential.is_empty() {
            request = request.bearer_auth(&self.credential);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        read(self.send(Method::GET, path, None).await).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        read(self.send(Method::POST, path, Some(body)).await).await
    }

    pub async fn delete(&self, path: &str) -> (StatusCode, Value) {
        read(self.send(Method::DELETE, path, None).await).await
    }
}

async fn read(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = response.text().await.unwrap();
    let value = serde_json::from_str(&text).unwrap_or(Value::Null);
    (status, value)
}

#[derive(Clone)]
pub struct Mcp {
    pub client: reqwest::Client,
    pub url: String,
    pub token: String,
    pub session: String,
}

impl Mcp {
    pub async fn connect(world: &World, token: &str) -> Self {
        let mut mcp = Self {
            client: reqwest::Client::new(),
            url: world.url("/mcp"),
            token: token.to_owned(),
            session: String::new(),
        };
        let response = mcp.post(&initialize("2025-11-25")).await;
        assert_eq!(response.status(), StatusCode::OK);
        mcp.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        mcp
    }

    pub async fn post(&self, body: &Value) -> Response {
        self.request(body).send().await.unwrap()
    }

    pub fn request(&self, body: &Value) -> reqwest::RequestBuilder {
        let mut request = self
            .client
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .json(body);
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        request
    }

    /// The same session at another hub.
    #[cfg(all(unix, feature = "postgres"))]
    pub fn moved_to(&self, world: &World) -> Self {
        Self {
            url: world.url("/mcp"),
            ..self.clone()
        }
    }

    /// Ends the session.
    #[cfg(all(unix, feature = "postgres"))]
    pub async fn end(&self) {
        let request = self.client.delete(&self.url).bearer_auth(&self.token);
        let ended = request
            .header("mcp-session-id", &self.session)
            .send()
            .await
            .unwrap();
        assert_eq!(ended.status(), StatusCode::OK);
    }

    /// Says whether the hub takes calls in the session.
    #[cfg(all(unix, feature = "postgres"))]
    pub async fn is_known(&self) -> bool {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        self.post(&ping).await.status() == StatusCode::OK
    }

    /// Calls a tool and returns the whole result.
    pub async fn raw(&self, name: &str, arguments: Value) -> Value {
        let response = self.post(&tool_call(name, arguments)).await;
        assert_eq!(response.status(), StatusCode::OK);
        let frames = frames(&response.text().await.unwrap());
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames[0]["result"].clone()
    }

    /// Calls a tool that must not refuse, and reads its JSON text.
    pub async fn call(&self, name: &str, arguments: Value) -> Value {
        let result = self.raw(name, arguments).await;
        assert_eq!(result.get("isError"), None, "{result}");
        serde_json::from_str(text(&result)).unwrap()
    }

    /// Calls a tool that must refuse, and returns what it says.
    pub async fn refused(&self, name: &str, arguments: Value) -> String {
        let result = self.raw(name, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        text(&result).to_owned()
    }
}

pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

pub fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
    })
}

pub fn tool_call(name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

/// Reads the messages of an event stream.
pub fn frames(body: &str) -> Vec<Value> {
    body.split("\n\n")
        .filter(|frame| !frame.is_empty() && !frame.starts_with(':'))
        .map(|frame| {
            let data = frame.strip_prefix("event: message\ndata: ").unwrap();
            serde_json::from_str(data).unwrap()
        })
        .collect()
}

pub struct Runner {
    pub id: String,
    pub token: String,
    pub mcp: Mcp,
}

impl Runner {
    pub fn target(&self) -> String {
        format!("self:{}", self.id)
    }

    pub async fn lease(&self, wait_ms: u64) -> Value {
        self.mcp.call("lease_job", lease_args(wait_ms)).await
    }

    pub async fn submit(&self, job: &str, epoch: u64) -> Value {
        let args = json!({"jobId": job, "leaseEpoch": epoch, "result": result()});
        self.mcp.call("submit_job_result", args).await
    }

    pub async fn heartbeat(&self, job: &str, epoch: u64) -> Value {
        let args = json!({"jobId": job, "leaseEpoch": epoch, "capabilities": ["git"]});
        self.mcp.call("heartbeat_job", args).await
    }

    pub async fn log(&self, job: &str, epoch: u64, line: &str) -> Value {
        let args = json!({"jobId": job, "leaseEpoch": epoch, "line": line});
        self.mcp.call("report_case_log", args).await
    }
}

pub fn lease_args(wait_ms: u64) -> Value {
    json!({
        "wait_ms": wait_ms, "capabilities": ["git"], "os": "linux", "version": "0.1.0", "protocol": 2,
        "status": "idle", "statusLevel": "info",
    })
}
