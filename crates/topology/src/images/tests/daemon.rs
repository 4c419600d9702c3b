//! A daemon that knows images only: a server on a socket with a script of pulls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What happens to the next pull.
pub(super) enum Script {
    /// Events, then the image with this id is there.
    Succeeds { id: &'static str, events: Vec<Value> },
    /// An answer with this status.
    Fails { status: u16, message: &'static str },
    /// A first event, then nothing until [`State::release`] or the client hangs up; then the image is there.
    Hangs { id: &'static str },
}

#[derive(Default)]
pub(super) struct State {
    /// The one image, once it is there.
    pub image: Option<Value>,
    pub distribution: Option<Value>,
    pub pulls: VecDeque<Script>,
    /// Query and login of each pull.
    pub pulled: Vec<(String, String)>,
    /// References that the registry was asked about.
    pub asked: Vec<String>,
    /// Pulls whose client hung up.
    pub hung_up: usize,
    pub release: Arc<Notify>,
    pub arch: &'static str,
    /// The list of all images, of containers, and what was removed.
    pub images: Vec<Value>,
    pub containers: Vec<Value>,
    pub removed: Vec<String>,
}

pub(super) struct Daemon {
    pub address: String,
    pub state: Arc<Mutex<State>>,
    _folder: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

pub(super) fn image(id: &str, architecture: &str) -> Value {
    json!({"Id": id, "Os": "linux", "Architecture": architecture, "Size": 5, "RepoDigests": [format!("r.io/web@sha256:{id}")]})
}

impl Daemon {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let state = Arc::new(Mutex::new(State {
            arch: "amd64",
            ..State::default()
        }));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            address: format!("unix://{}", path.display()),
            state,
            _folder: folder,
            _tasks: tasks,
        }
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }
}

async fn serve(mut stream: UnixStream, state: Arc<Mutex<State>>) {
    let mut buffer = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut buffer).await {
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let target = target
            .strip_prefix("/v1.")
            .and_then(|rest| rest.find('/').map(|at| &rest[at..]))
            .unwrap_or(target);
        if target.starts_with("/images/create") {
            pull(&mut stream, target, &head, &state).await;
            continue;
        }
        let (status, body) = answer(method, target, &mut state.lock().unwrap());
        write(&mut stream, status, &body.to_string()).await;
    }
}

async fn read_head(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(buffer.drain(..end + 4).collect()).unwrap();
            return Some(head);
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

fn answer(method: &str, target: &str, state: &mut State) -> (u16, Value) {
    let missing = |what: &str| (404, json!({"message": format!("No such image: {what}")}));
    if target.starts_with("/version") {
        return (
            200,
            json!({"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Arch": state.arch}),
        );
    }
    if let Some(rest) = target.strip_prefix("/distribution/") {
        state.asked.push(rest.trim_end_matches("/json").to_owned());
        return state
            .distribution
            .clone()
            .map_or_else(|| (500, json!({"message": "no such host"})), |known| (200, known));
    }
    if target.starts_with("/images/json") {
        return (200, json!(state.images));
    }
    if target.starts_with("/containers/json") {
        return (200, json!(state.containers));
    }
    match (method, target.strip_prefix("/images/")) {
        ("DELETE", Some(rest)) => {
            state
                .removed
                .push(rest.split('?').next().unwrap_or_default().to_owned());
            (200, json!([]))
        }
        (_, Some(rest)) => state
            .image
            .clone()
            .map_or_else(|| missing(rest), |image| (200, image)),
        _ => missing(target),
    }
}

async fn pull(stream: &mut UnixStream, target: &str, head: &str, state: &Arc<Mutex<State>>) {
    let login = head
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .starts_with("x-registry-auth: ")
                .then(|| line[17..].to_owned())
        })
        .unwrap_or_default();
    let script = {
        let mut state = state.lock().unwrap();
        state.pulled.push((target.to_owned(), login));
        state.pulls.pop_front().unwrap_or(Script::Fails {
            status: 500,
            message: "unscripted",
        })
    };
    match script {
        Script::Fails { status, message } => {
            write(stream, status, &json!({"message": message}).to_string()).await;
        }
        Script::Succeeds { id, events } => {
            state.lock().unwrap().image = Some(image(id, "amd64"));
            let body: String = events.iter().map(|event| format!("{event}\r\n")).collect();
            write(stream, 200, &body).await;
        }
        Script::Hangs { id } => hang(stream, id, state).await,
    }
}

async fn hang(stream: &mut UnixStream, id: &str, state: &Arc<Mutex<State>>) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let event = "{\"status\":\"Pulling fs layer\",\"id\":\"a\"}\r\n";
    let first = format!("{head}{:x}\r\n{event}\r\n", event.len());
    let _ = stream.write_all(first.as_bytes()).await;
    let release = Arc::clone(&state.lock().unwrap().release);
    let mut byte = [0];
    tokio::select! {
        () = release.notified() => {
            state.lock().unwrap().image = Some(image(id, "amd64"));
            let _ = stream.write_all(b"0\r\n\r\n").await;
        }
        _ = stream.read(&mut byte) => state.lock().unwrap().hung_up += 1,
    }
}

async fn write(stream: &mut UnixStream, status: u16, body: &str) {
    let text = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(text.as_bytes()).await;
}
