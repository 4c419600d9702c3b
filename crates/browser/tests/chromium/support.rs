//! A real headless Chromium and a small web site, both on loopback and both gone with the test.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::response::{Html, Redirect};
use axum::routing::get;
use everdict_browser::{CdpEndpoint, TrackSink};
use everdict_contracts::TrackEntry;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Where Debian and others put a Chromium that needs no screen.
const BINARIES: &[&str] = &[
    "/usr/bin/chromium-headless-shell",
    "/usr/lib/chromium/chromium-headless-shell",
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// Chromium starts in half a second; a shared machine under load needs much more.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Time for something to show up in a recording.
pub const SOON: Duration = Duration::from_secs(20);

pub struct Chromium {
    pub endpoint: CdpEndpoint,
    process: Process,
    _profile: tempfile::TempDir,
}

/// A process group that ends with the test, however the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self
            .0
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
        {
            // Fails only when it is gone already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Chromium {
    /// Starts a browser, or says aloud that the test is skipped.
    pub async fn start(test: &str) -> Option<Self> {
        let Some(binary) = BINARIES.iter().find(|path| Path::new(path).exists()) else {
            skipped(test, "no Chromium on this machine");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "the test's own browser, ended with the test"
        )]
        let process = Command::new(binary)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args(["--disable-dev-shm-usage", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Debian's program is a shell script around the real one: they end together.
            .process_group(0)
            .spawn()
            .unwrap();
        let process = Process(process);
        let port_file = profile.path().join("DevToolsActivePort");
        let port = until(START_LIMIT, "Chromium names its port", || {
            let text = std::fs::read_to_string(&port_file).ok()?;
            text.lines().next()?.parse::<u16>().ok()
        })
        .await;
        let endpoint = CdpEndpoint::new(&format!("http://127.0.0.1:{port}")).unwrap();
        let end = Instant::now() + START_LIMIT;
        while endpoint.version().await.is_err() {
            assert!(Instant::now() < end, "Chromium never answered");
            sleep(Duration::from_millis(20)).await;
        }
        Some(Self {
            endpoint,
            process,
            _profile: profile,
        })
    }

    /// Kills the browser as a crash would.
    pub async fn kill(&mut self) {
        let group = rustix::process::Pid::from_raw(self.process.0.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        self.process.0.wait().await.unwrap();
    }
}

fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED {test}: {why}");
    eprintln!("{line}");
    #[expect(
        clippy::disallowed_methods,
        reason = "the suite names the file in which skips are counted"
    )]
    let log = std::env::var_os("EVERDICT_SKIP_LOG");
    if let Some(path) = log {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// Polls until there is something, or fails naming what was waited for.
pub async fn until<T>(limit: Duration, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "timed out: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The web site that the tests visit.
pub struct Site {
    pub base: String,
    _tasks: JoinSet<()>,
}

const HOME: &str = "<!doctype html><title>home</title><h1 id=greeting>Grüß Gott</h1>\
    <script>console.log('hello', 42, {a: 1}); console.warn('careful');\
    fetch('/data'); fetch('/missing'); setTimeout(() => { throw new Error('broken on purpose'); }, 0);</script>";

const FORGED: &str = "<!doctype html><p id=truth>truth</p><script>\
    Object.defineProperty(Element.prototype, 'outerHTML', {get() { return '<p>forged</p>'; }});\
    String.prototype.slice = () => 'forged';</script>";

impl Site {
    pub async fn start() -> Self {
        let huge = || async { Html(format!("<!doctype html><p>{}</p>", "x".repeat(300_000))) };
        let app = Router::new()
            .route("/", get(|| async { Html(HOME) }))
            .route("/data", get(|| async { "{}" }))
            .route(
                "/plain",
                get(|| async { Html("<!doctype html><p id=plain>plain</p>") }),
            )
            .route("/moved", get(|| async { Redirect::temporary("/plain") }))
            .route("/forged", get(|| async { Html(FORGED) }))
            .route("/huge", get(huge))
            .route(
                "/opener",
                get(|| async { Html("<!doctype html><script>window.open('/second');</script>") }),
            )
            .route(
                "/second",
                get(|| async {
                    Html("<!doctype html><p>two</p><script>console.info('from the second tab');</script>")
                }),
            )
            .route(
                "/asks",
                get(|| async {
                    Html("<!doctype html><script>console.log('answer ' + confirm('sure?'));</script>")
                }),
            );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { base, _tasks: tasks }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// Keeps what a recorder reports.
#[derive(Default)]
pub struct Seen {
    pub entries: Mutex<Vec<TrackEntry>>,
    pub frames: Mutex<Vec<String>>,
}

impl TrackSink for Seen {
    fn track(&self, entry: TrackEntry) {
        self.entries.lock().unwrap().push(entry);
    }
    fn frame(&self, png_base64: String) {
        self.frames.lock().unwrap().push(png_base64);
    }
}

impl Seen {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Waits for an entry of which something can be made.
    pub async fn wait<T>(&self, what: &str, pick: impl Fn(&TrackEntry) -> Option<T>) -> T {
        until(SOON, what, || self.entries.lock().unwrap().iter().find_map(&pick)).await
    }

    pub async fn wait_for_url(&self, url: &str) {
        self.wait(&format!("navigation to {url}"), |entry| match entry {
            TrackEntry::Nav(nav) if nav.url == url => Some(()),
            _ => None,
        })
        .await;
    }

    pub async fn wait_for_line(&self, level: &str, part: &str) -> String {
        self.wait(&format!("{level} line with {part}"), |entry| match entry {
            TrackEntry::Console(line) if line.level == level && line.text.contains(part) => {
                Some(line.text.clone())
            }
            _ => None,
        })
        .await
    }
}
