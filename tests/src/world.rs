//! Processes and HTTP.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a process gets to end after SIGTERM before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(15);
/// Pause between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process of the binary under test; ended on drop.
pub struct Child {
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts `command` with both output streams going to the file `log`.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let out = std::fs::File::create(log).expect("log file");
        let err = out.try_clone().expect("log file");
        let process = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .expect("the binary under test starts");
        Self {
            process,
            log: log.to_owned(),
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal to this process alone.
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.process.id()).expect("pid fits");
        // SAFETY: plain kill(2) on a child that has not been waited for, so the id is still ours.
        unsafe { libc::kill(pid, signal) };
    }

    /// Kills without warning, as a crash would, and waits for the end.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits for the end; `None` when the deadline passed first.
    pub fn wait_for_exit(&mut self, deadline: Duration) -> Option<std::process::ExitStatus> {
        let end = Instant::now() + deadline;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    }

    /// What the process has printed so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal(libc::SIGTERM);
            if self.wait_for_exit(STOP_GRACE).is_none() {
                self.kill();
            }
        }
        if std::thread::panicking() {
            eprintln!("--- output of process {}\n{}", self.process.id(), self.output());
        }
    }
}

/// A hub process with an API key, in a folder of its own.
pub struct World {
    home: tempfile::TempDir,
    binary: PathBuf,
    hub_args: Vec<String>,
    port: u16,
    key: String,
    http: reqwest::Client,
    /// The hub process.
    pub hub: Child,
}

impl World {
    /// Starts a hub on a free loopback port; `hub_args` are added to its command line.
    pub async fn start(binary: &str, hub_args: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("temporary folder");
        Self::start_in(home, binary, hub_args).await
    }

    /// The same with a settings file.
    pub async fn start_with_settings(binary: &str, settings: &str) -> Self {
        let home = tempfile::tempdir().expect("temporary folder");
        let folder = home.path().join("config");
        std::fs::create_dir_all(&folder).expect("settings folder");
        std::fs::write(folder.join("settings.toml"), settings).expect("settings file");
        Self::start_in(home, binary, &[]).await
    }

    async fn start_in(home: tempfile::TempDir, binary: &str, hub_args: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let binary = PathBuf::from(binary);
        let output = Command::new(&binary)
            .args([
                "hub",
                "key",
                "create",
                "--workspace",
                "acme",
                "--role",
                "admin",
                "--json",
                "--data-dir",
            ])
            .arg(home.path().join("hub"))
            .env("EVERDICT_HOME", home.path())
            .output()
            .expect("the binary under test starts");
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "hub key create: {error}: {}",
                String::from_utf8_lossy(&output.stderr)
            )
        });
        let key = reply["apiKey"].as_str().expect("apiKey").to_owned();
        let port = free_port();
        let hub_args: Vec<String> = hub_args.iter().map(ToString::to_string).collect();
        let hub = start_hub(&binary, home.path(), port, &hub_args);
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(20))
            .build()
            .expect("client");
        let world = Self {
            home,
            binary,
            hub_args,
            port,
            key,
            http,
            hub,
        };
        world.hub_is_up().await;
        world
    }

    /// Ends the hub as a crash would and starts it again on the same port and data folder.
    pub async fn crash_and_restart_hub(&mut self) {
        self.hub.kill();
        self.hub = start_hub(&self.binary, self.home.path(), self.port, &self.hub_args);
        self.hub_is_up().await;
    }

    async fn hub_is_up(&self) {
        eventually("the hub answers /healthz", Duration::from_secs(20), || async {
            let reply = self
                .http
                .get(format!("{}/healthz", self.url()))
                .send()
                .await
                .ok()?;
            reply.status().is_success().then_some(())
        })
        .await;
    }

    /// The hub's base address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The folder of this world.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The admin key of this world's hub.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// One call with the world's key; returns status and JSON (`null` for an empty body).
    pub async fn call(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url()))
            .bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.expect("the hub answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("the hub answers");
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Pairs a runner; returns its id and token.
    pub async fn pair(&self, label: &str) -> (String, String) {
        let body = json!({"label": label, "capabilities": ["git"]});
        let (status, reply) = self.call(reqwest::Method::POST, "/runners", Some(body)).await;
        assert_eq!(status, 200, "{reply}");
        let text = |value: &Value| value.as_str().expect("pairing reply").to_owned();
        (text(&reply["runner"]["id"]), text(&reply["token"]))
    }

    /// Starts a runner process in the foreground form of the existing binary.
    pub fn runner(&self, token: &str, args: &[&str]) -> Child {
        self.runner_at(&self.url(), token, args)
    }

    /// The same against another address, such as a proxy before this world's hub.
    pub fn runner_at(&self, url: &str, token: &str, args: &[&str]) -> Child {
        let mut command = Command::new(&self.binary);
        command
            .args(["runner", "--api-url", url])
            .args(args)
            .env("EVERDICT_HOME", self.home.path())
            .env("EVERDICT_RUNNER_TOKEN", token);
        Child::start(
            command,
            &self.home.path().join(format!("runner-{}.log", free_port())),
        )
    }

    /// A runner that kills itself when it has taken this step of an attempt.
    pub fn runner_dying_at(&self, token: &str, args: &[&str], hop: &str) -> Child {
        let mut command = Command::new(&self.binary);
        command
            .args(["runner", "--api-url", &self.url()])
            .args(args)
            .env("EVERDICT_HOME", self.home.path())
            .env("EVERDICT_RUNNER_TOKEN", token)
            .env("EVERDICT_TEST_DIE_AT", hop);
        Child::start(
            command,
            &self.home.path().join(format!("doomed-{hop}-{}.log", free_port())),
        )
    }

    /// Runs a command of the binary to its end, and gives out the JSON that it prints.
    pub fn command(&self, args: &[&str]) -> Value {
        let mut command = Command::new(&self.binary);
        command.args(args).env("EVERDICT_HOME", self.home.path());
        let output = command.output().expect("the binary under test starts");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Submits a run and returns its id.
    pub async fn submit(&self, body: Value) -> String {
        let (status, reply) = self.call(reqwest::Method::POST, "/runs", Some(body)).await;
        assert_eq!(status, 202, "{reply}");
        reply["id"].as_str().expect("run id").to_owned()
    }

    /// The record of a run.
    pub async fn run(&self, id: &str) -> Value {
        self.call(reqwest::Method::GET, &format!("/runs/{id}"), None)
            .await
            .1
    }

    /// Waits until the run has one of the given states.
    pub async fn run_is(&self, id: &str, states: &[&str], deadline: Duration) -> Value {
        eventually(&format!("run {id} is one of {states:?}"), deadline, || async {
            let record = self.run(id).await;
            states.contains(&record["status"].as_str()?).then_some(record)
        })
        .await
    }

    /// The log lines of a run so far, joined.
    pub async fn log(&self, id: &str) -> String {
        self.call(reqwest::Method::GET, &format!("/runs/{id}/logs"), None)
            .await
            .1
            .to_string()
    }
}

fn start_hub(binary: &Path, home: &Path, port: u16, args: &[String]) -> Child {
    let mut command = Command::new(binary);
    command
        .args(["hub", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(home.join("hub"))
        .args(args)
        .env("EVERDICT_HOME", home);
    Child::start(command, &home.join("hub.log"))
}

/// Calls `look` until it answers; panics with `what` when the deadline passes first.
pub async fn eventually<T, F, Fut>(what: &str, deadline: Duration, mut look: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = look().await {
            return value;
        }
        assert!(
            Instant::now() < end,
            "within {deadline:?} it did not come true that {what}"
        );
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// How many processes on this machine have `marker` in their command line.
pub fn process_count(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(marker))
        .count()
}

/// The processes on this machine that have all of `words` among their arguments.
pub fn process_ids(words: &[&str]) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_all = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        words.iter().all(|word| line.contains(word))
    };
    processes
        .filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| has_all(&line)))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// A knob of the test run, from the environment.
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The folder with recorded traffic of the existing control plane, where there is one.
pub fn recorded_traffic() -> Option<PathBuf> {
    let named = std::env::var_os("EVERDICT_WIRE_DIR").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/wire");
    named.into_iter().chain([beside]).find(|folder| folder.is_dir())
}

/// Reports a test that cannot run here: listed at the end of `make test`.
pub fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("EVERDICT_SKIP_LOG") {
        use std::io::Write;
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        if let Ok(mut file) = file {
            let _ = file.write_all(line.as_bytes());
        }
    }
}
