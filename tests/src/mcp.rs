//! A bare MCP client: JSON-RPC over POST, so that tests see what is on the wire and can misbehave.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// One MCP session.
pub struct McpClient {
    http: reqwest::Client,
    url: String,
    token: String,
    session: String,
    next_id: AtomicU64,
}

/// A tool's reply: the JSON of its text content, or the text of a refusal.
pub type Reply = Result<Value, String>;

impl McpClient {
    /// Opens a session.
    pub async fn connect(base: &str, token: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(70))
            .build()
            .expect("client");
        let mut client = Self {
            http,
            url: format!("{base}/mcp"),
            token: token.to_owned(),
            session: String::new(),
            next_id: AtomicU64::new(1),
        };
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "acceptance", "version": "0.0.0"},
        });
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = client.post(&message).await;
        assert_eq!(response.status(), 200);
        let session = response.headers().get("mcp-session-id").expect("session id");
        client.session = session.to_str().expect("ascii").to_owned();
        let _ = response.text().await;
        let done = client
            .post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        assert_eq!(done.status(), 202);
        client
    }

    /// Sends one JSON-RPC message with this session's headers.
    pub async fn post(&self, message: &Value) -> reqwest::Response {
        let mut request = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream")
            .json(message);
        if !self.session.is_empty() {
            request = request
                .header("mcp-session-id", &self.session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        request.send().await.expect("the hub answers")
    }

    /// Calls a tool; returns the raw `result` object.
    pub async fn call_raw(&self, tool: &str, arguments: Value) -> Value {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let params = json!({"name": tool, "arguments": arguments});
        let response = self
            .post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            .await;
        assert_eq!(response.status(), 200);
        let body = response.text().await.expect("body");
        let data: String = body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .collect();
        let message: Value =
            serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error} in {body:?}"));
        assert_eq!(message["id"], json!(id), "{message}");
        message["result"].clone()
    }

    /// Calls a tool; returns the JSON in its text content.
    ///
    /// # Errors
    /// The text of an `isError` result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        let result = self.call_raw(tool, arguments).await;
        let text = result["content"][0]["text"]
            .as_str()
            .expect("text content")
            .to_owned();
        if result["isError"] == json!(true) {
            return Err(text);
        }
        Ok(serde_json::from_str(&text).expect("JSON in the text content"))
    }
}
