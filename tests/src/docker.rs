//! The Docker daemon as tests see it: over its socket, past everything that is under test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The image of the front door, as `cargo xtask images` builds it.
pub const FRONT_DOOR: &str = "everdict/front-door:dev";
/// The browser's image, as `cargo xtask images` builds it.
pub const BROWSER: &str = "chromedp/headless-shell:latest";
/// The stores' images.
const STORES: [&str; 2] = ["postgres:16-alpine", "redis:7-alpine"];

/// For one call to a daemon that is under load.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// A daemon that answers and has the images.
pub struct Docker {
    socket: PathBuf,
}

/// Something on the daemon, by kind and name.
pub type Object = (&'static str, String);

impl Docker {
    /// Finds the daemon.
    ///
    /// # Errors
    /// Why a test that needs one can't run.
    pub async fn find() -> Result<Self, String> {
        let host = std::env::var("DOCKER_HOST").unwrap_or_default();
        let path = host.strip_prefix("unix://").unwrap_or("/var/run/docker.sock");
        let docker = Self {
            socket: PathBuf::from(path),
        };
        if docker.try_call("GET", "/_ping", None).await.is_none() {
            return Err(format!("no Docker daemon answers at {path}"));
        }
        for image in [FRONT_DOOR, BROWSER].iter().chain(&STORES) {
            let (status, _) = docker.call("GET", &format!("/images/{image}/json"), None).await;
            if status != 200 {
                return Err(format!(
                    "the image {image} is missing; cargo xtask images builds it"
                ));
            }
        }
        Ok(docker)
    }

    /// The daemon's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// One call; status and JSON (`null` when the answer is none).
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let answer = self.try_call(method, path, body).await;
        answer.unwrap_or_else(|| panic!("the daemon doesn't answer {method} {path}"))
    }

    async fn try_call(&self, method: &str, path: &str, body: Option<Value>) -> Option<(u16, Value)> {
        let exchange = async {
            let mut stream = UnixStream::connect(&self.socket).await.ok()?;
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            // HTTP/1.0: the daemon closes after the answer, so nothing has to be parsed but the head.
            let head = format!(
                "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.ok()?;
            stream.write_all(body.as_bytes()).await.ok()?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.ok()?;
            let text = String::from_utf8_lossy(&answer).into_owned();
            let status = text.split(' ').nth(1)?.parse().ok()?;
            let (_, body) = text.split_once("\r\n\r\n")?;
            Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
        };
        tokio::time::timeout(CALL_LIMIT, exchange).await.ok()?
    }

    /// The containers with a label (`key=value`), as the daemon lists them.
    pub async fn containers(&self, label: &str) -> Vec<Value> {
        let (_, list) = self
            .call(
                "GET",
                &format!("/containers/json?all=1&filters={}", filter(label)),
                None,
            )
            .await;
        list.as_array().cloned().unwrap_or_default()
    }

    /// Everything with a label.
    pub async fn labelled(&self, label: &str) -> Vec<Object> {
        let mut found = Vec::new();
        for row in self.containers(label).await {
            found.push(("container", text(&row["Names"][0])));
        }
        let (_, networks) = self
            .call("GET", &format!("/networks?filters={}", filter(label)), None)
            .await;
        for row in networks.as_array().into_iter().flatten() {
            found.push(("network", text(&row["Name"])));
        }
        let (_, volumes) = self
            .call("GET", &format!("/volumes?filters={}", filter(label)), None)
            .await;
        for row in volumes["Volumes"].as_array().into_iter().flatten() {
            found.push(("volume", text(&row["Name"])));
        }
        found
    }

    /// The anonymous volumes of the containers with a label: nothing else tells whose they are.
    pub async fn anonymous_volumes(&self, label: &str) -> BTreeSet<String> {
        let mounts = self
            .containers(label)
            .await
            .into_iter()
            .flat_map(|row| row["Mounts"].as_array().cloned().unwrap_or_default());
        mounts
            .filter(|mount| mount["Type"] == "volume")
            .map(|mount| text(&mount["Name"]))
            .collect()
    }

    /// Whether a volume is there.
    pub async fn has_volume(&self, name: &str) -> bool {
        self.call("GET", &format!("/volumes/{name}"), None).await.0 == 200
    }
}

/// Things on the daemon that aren't the runner's; [`Bystanders::remove`] them in the end.
pub struct Bystanders {
    tag: String,
    container: String,
    before: Value,
}

impl Bystanders {
    /// Makes a running container, a network and a volume of somebody else, and a container of another installation.
    pub async fn make(docker: &Docker, tag: &str) -> Self {
        let name = format!("bystander-{tag}");
        let labels = json!({"bystander": tag});
        let (status, _) = docker
            .call(
                "POST",
                "/networks/create",
                Some(json!({"Name": name, "Labels": labels})),
            )
            .await;
        assert_eq!(status, 201);
        let (status, _) = docker
            .call(
                "POST",
                "/volumes/create",
                Some(json!({"Name": name, "Labels": labels})),
            )
            .await;
        assert_eq!(status, 201);
        let body = json!({"Image": FRONT_DOOR, "Labels": labels, "HostConfig": {
            "NetworkMode": name, "Binds": [format!("{name}:/data")]}});
        let container = create(docker, &name, body).await;
        let (status, _) = docker
            .call("POST", &format!("/containers/{container}/start"), None)
            .await;
        assert_eq!(status, 204);
        let foreign = json!({"bystander": tag, "everdict.install": "another", "everdict.runner": "other",
            "everdict.owner-pid": "1", "everdict.owner-start": "1", "everdict.owner-boot": "1"});
        create(
            docker,
            &format!("{name}-foreign"),
            json!({"Image": FRONT_DOOR, "Labels": foreign}),
        )
        .await;
        let before = Self::look(docker, tag, &container).await;
        Self {
            tag: tag.to_owned(),
            container,
            before,
        }
    }

    async fn look(docker: &Docker, tag: &str, container: &str) -> Value {
        let (_, row) = docker
            .call("GET", &format!("/containers/{container}/json"), None)
            .await;
        json!({
            "objects": docker.labelled(&format!("bystander={tag}")).await,
            "state": row["State"]["Status"], "pid": row["State"]["Pid"], "started": row["State"]["StartedAt"],
        })
    }

    /// Asserts that all of them are as they were.
    pub async fn are_untouched(&self, docker: &Docker) {
        let now = Self::look(docker, &self.tag, &self.container).await;
        assert_eq!(
            self.before["objects"].as_array().map(Vec::len),
            Some(4),
            "{}",
            self.before
        );
        assert_eq!(now, self.before, "what isn't ours is as it was");
    }

    /// Removes them.
    pub async fn remove(docker: &Docker, tag: &str) {
        let name = format!("bystander-{tag}");
        for container in [name.clone(), format!("{name}-foreign")] {
            docker
                .call("DELETE", &format!("/containers/{container}?force=1&v=1"), None)
                .await;
        }
        docker.call("DELETE", &format!("/networks/{name}"), None).await;
        docker
            .call("DELETE", &format!("/volumes/{name}?force=1"), None)
            .await;
    }
}

async fn create(docker: &Docker, name: &str, body: Value) -> String {
    let (status, reply) = docker
        .call("POST", &format!("/containers/create?name={name}"), Some(body))
        .await;
    assert_eq!(status, 201, "{reply}");
    text(&reply["Id"])
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_default()
        .trim_start_matches('/')
        .to_owned()
}

/// A label filter, written for a URL.
fn filter(label: &str) -> String {
    let filters = json!({"label": [label]}).to_string();
    let mut out = String::new();
    for byte in filters.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
