//! A daemon of a test's own, which it may kill, stop and starve: a real `dockerd` in its own network and mount name
//! spaces, so that neither its addresses nor its packet rules are seen by the machine's.
//!
//! All threads of the test are in that network too: ports that this daemon publishes are on its loopback.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everdict_topology::engine::Engine;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const KEEPER: &str = include_str!("engine.sh");

/// A daemon is up in a second as a rule.
const UP_LIMIT: Duration = Duration::from_secs(30);

/// The daemon, its folder and its name spaces, until it is dropped.
pub struct PrivateEngine {
    folder: tempfile::TempDir,
    group: String,
    flags: Vec<String>,
    keeper: Child,
    /// The keeper tidies up when this is closed, also by our death.
    leash: Option<ChildStdin>,
    network: Arc<File>,
    daemon: Mutex<Option<Child>>,
}

#[expect(clippy::disallowed_methods, reason = "tests start their own helper processes")]
fn command(name: &str) -> Command {
    Command::new(name)
}

impl PrivateEngine {
    /// Makes the name spaces; the daemon itself isn't started yet. Tells why when that can't be done here.
    pub fn prepare(flags: &[&str]) -> Result<Self, String> {
        let found = command("dockerd").arg("--version").output();
        found.map_err(|error| format!("no dockerd to start: {error}"))?;
        let folder = tempfile::tempdir().unwrap();
        let name = folder
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace('.', "");
        let group = format!("everdict-test-{name}");
        let mut keeper = command("unshare")
            .args(["--mount", "--net", "sh", "-c", KEEPER, "keeper"])
            .arg(folder.path())
            .arg(&group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("no name spaces of its own for a daemon: {error}"))?;
        let mut line = String::new();
        let _ = BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line);
        if line.trim() != "ready" {
            let _ = keeper.wait();
            return Err("no name spaces of its own for a daemon: needs root".to_owned());
        }
        let network = File::open(format!("/proc/{}/ns/net", keeper.id())).unwrap();
        Ok(Self {
            folder,
            group,
            flags: flags.iter().map(ToString::to_string).collect(),
            leash: keeper.stdin.take(),
            keeper,
            network: Arc::new(network),
            daemon: Mutex::default(),
        })
    }

    /// What a thread does to be in the daemon's network.
    pub fn entrance(&self) -> impl Fn() + Send + Sync + 'static {
        let network = Arc::clone(&self.network);
        move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where it listens, as [`Engine::connect`] takes it.
    pub fn address(&self) -> String {
        format!("unix://{}", self.path("docker.sock").display())
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Starts the daemon, or starts it again, and waits until it answers.
    pub async fn start(&self) -> Engine {
        self.launch();
        let end = Instant::now() + UP_LIMIT;
        loop {
            if let Ok(engine) = Engine::connect(&self.address()).await
                && engine.ping().await.is_ok()
            {
                return engine;
            }
            let ended = self.daemon.lock().unwrap().as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < end,
                "{ended:?}: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    fn launch(&self) {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.path("log"))
            .unwrap();
        // A killed daemon leaves them, and the numbers may be other processes' by now.
        for stale in ["docker.pid", "run/containerd/containerd.pid"] {
            let _ = std::fs::remove_file(self.path(stale));
        }
        let flag = |name: &str, value: &str| format!("--{name}={value}");
        let path = |name: &str| self.path(name).display().to_string();
        let child = command("nsenter")
            .args([
                "--target",
                &self.keeper.id().to_string(),
                "--net",
                "--mount",
                "dockerd",
            ])
            .args([
                flag("host", &self.address()),
                flag("data-root", &path("data")),
                flag("exec-root", &path("run")),
                flag("pidfile", &path("docker.pid")),
                flag("cgroup-parent", &format!("/{}", self.group)),
            ])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        *self.daemon.lock().unwrap() = Some(child);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let daemon = self.daemon.lock().unwrap();
        let id = rustix::process::Pid::from_child(daemon.as_ref().unwrap());
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Kills the daemon, as the system does when memory runs out. What its containers run goes on.
    pub fn kill(&self) {
        let below = std::fs::read_to_string(self.path("run/containerd/containerd.pid")).unwrap_or_default();
        self.signal(rustix::process::Signal::KILL);
        self.reap();
        // What it has started beside containers dies a moment later, and would be taken for alive by a daemon that is
        // started now.
        let end = Instant::now() + UP_LIMIT;
        let ours = self.folder.path().as_os_str().as_encoded_bytes();
        let lives = || {
            let line = std::fs::read(format!("/proc/{}/cmdline", below.trim())).unwrap_or_default();
            line.windows(ours.len()).any(|part| part == ours)
        };
        while lives() {
            assert!(Instant::now() < end, "process {below} outlives the daemon");
            std::thread::yield_now();
        }
    }

    /// Asks the daemon to end, which ends the containers first, and doesn't wait for it.
    pub fn ask_to_end(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Waits until it has ended.
    pub fn reap(&self) {
        let daemon = self.daemon.lock().unwrap().take();
        daemon.unwrap().wait().unwrap();
    }

    /// Stops the daemon: from now on it answers nothing, and hangs up on nobody.
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.keeper.wait();
        if let Some(daemon) = self.daemon.lock().unwrap().as_mut() {
            let _ = daemon.wait();
        }
    }
}

/// Switches the loopback interface of this thread's network on, which a new network has switched off.
pub fn loopback_up() {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 0x5;
    const UP: u32 = 1;
    let mut message = Vec::new();
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    // Sequence and port; then family and type, which don't matter.
    message.extend([0; 8]);
    message.extend([0; 4]);
    // It is the first interface of every network.
    message.extend(1_i32.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // Without a protocol it is the one of routes and interfaces.
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::send(&socket, &message, SendFlags::empty()).unwrap();
    let mut answer = [0; 256];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty()).unwrap();
    assert!(length >= 20, "an answer has a header and a code");
    let code = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
    assert_eq!(code, 0, "loopback comes up");
}
