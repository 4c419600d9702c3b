//! An X server, a window manager and a session bus of the test's own.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use everdict_app::control::{Control, ControlOptions, Leave, TokenPlace};
use everdict_app::{
    ContainerOptions, EnvSecrets, HubClient, Paths, Registration, Registrations, SecretName, Settings,
    StoreKind, secrets,
};
use everdict_exec::HostEnv;
use tempfile::TempDir;

use super::{WINDOW_TITLE, wait_until};

/// Ends its process with the test, passed or failed.
pub(super) struct Guarded(pub(super) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The private desktop; everything in it ends with the value.
pub struct Desktop {
    // Fields drop in order: the window manager and the bus before the display, the folders last.
    guarded: Vec<Guarded>,
    display: String,
    bus_address: String,
    folder: TempDir,
}

impl Desktop {
    /// Starts everything; `None` (and a line that says so) where this machine lacks a program for it.
    pub fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &[])
    }

    /// As [`Desktop::start`], for a test that needs `more` programs.
    pub fn start_with(test: &str, more: &[&'static str]) -> Option<Self> {
        let missing: Vec<&str> = ["Xvfb", "dbus-daemon", "openbox", "wmctrl"]
            .into_iter()
            .chain(more.iter().copied())
            .filter(|program| !is_installed(program))
            .collect();
        if !missing.is_empty() {
            report_skipped(test, &missing);
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["run", "home"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        // A session bus and its clients refuse a runtime folder that others may enter.
        fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(0o700)).expect("the mode");
        let mut desktop = Self {
            guarded: Vec::new(),
            display: String::new(),
            bus_address: String::new(),
            folder,
        };
        desktop.start_display();
        desktop.start_bus();
        desktop.guard(desktop.command("openbox").stdout(Stdio::null()));
        Some(desktop)
    }

    /// Returns the address of the session bus.
    pub fn bus_address(&self) -> &str {
        &self.bus_address
    }

    /// Starts the app in this desktop.
    pub fn start_app(&self, args: &[&str]) -> App {
        self.start_app_with(args, &[])
    }

    /// As [`Desktop::start_app`], with more in its environment.
    pub fn start_app_with(&self, args: &[&str], vars: &[(&str, &str)]) -> App {
        self.start_any(&super::app_program(), args, vars)
    }

    /// Starts a copy of the app.
    pub fn start_program(&self, program: &Path, args: &[&str]) -> App {
        self.start_any(program, args, &[])
    }

    fn start_any(&self, program: &Path, args: &[&str], vars: &[(&str, &str)]) -> App {
        let mut command = self.command(&program.to_string_lossy());
        let child = command.args(args).envs(vars.iter().copied()).spawn();
        App(Guarded(child.expect("the app starts")))
    }

    /// Starts the app where it is expected to end by itself, well.
    pub fn run_app_to_end(&self, args: &[&str]) {
        let mut second = self.start_app(args);
        assert_eq!(second.wait_for_exit(), Some(0));
    }

    /// Tells whether the window manager lists the window.
    pub fn shows_window(&self) -> bool {
        let listed = self.command("wmctrl").arg("-l").output().expect("wmctrl runs");
        String::from_utf8_lossy(&listed.stdout).contains(WINDOW_TITLE)
    }

    /// Closes the window by the window manager, as a press on its button does.
    pub fn close_window(&self) {
        let closed = self.command("wmctrl").args(["-c", WINDOW_TITLE]).status();
        assert!(closed.expect("wmctrl runs").success());
        wait_until("the window to close", || !self.shows_window());
    }

    /// Leaves the record that `everdict-runner pair` leaves.
    pub fn record_pairing(&self) {
        let paths = Paths::under(&self.everdict_home());
        Registrations::at(paths.registrations_file())
            .put(Registration {
                runner_id: "r-1".into(),
                label: "bench".into(),
                hub_url: "http://127.0.0.1:8787".into(),
                owner: "key:default".into(),
                workspace: "default".into(),
                store: StoreKind::File,
                paired_at: "2026-01-01T00:00:00Z".into(),
            })
            .expect("the record");
    }

    /// Pairs with an embedded hub, as the window's "Use this computer" does where a file may hold the token.
    pub fn pair(&self) {
        self.with_control(async |control| {
            control
                .pair_this_computer("bench", TokenPlace::File)
                .await
                .expect("a pairing");
        });
    }

    /// Settings of a test: a port of its own, no container engine, and no question before a team's first job.
    pub fn write_settings(&self) -> Paths {
        let paths = Paths::under(&self.everdict_home());
        paths.prepare().expect("the folders");
        let settings = concat!(
            "[consent]\nask = \"always\"\n",
            "[hub]\nlisten = \"127.0.0.1:0\"\n",
            "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n",
        );
        fs::write(paths.settings_file(), settings).expect("the settings");
        paths
    }

    /// Adds to the settings that are there.
    pub fn add_settings(&self, more: &str) {
        let file = Paths::under(&self.everdict_home()).settings_file();
        let before = fs::read_to_string(&file).expect("the settings");
        fs::write(&file, format!("{before}{more}")).expect("the settings");
    }

    /// A file in the app's state folder.
    pub fn state_file(&self, name: &str) -> std::path::PathBuf {
        Paths::under(&self.everdict_home()).state_dir().join(name)
    }

    /// Submits a case called `gated` with this command to the embedded hub.
    pub fn submit(&self, key: &str, command: &str) {
        let paths = Paths::under(&self.everdict_home());
        let known = Registrations::at(paths.registrations_file())
            .list()
            .expect("the pairings");
        let hub = known[0].hub().expect("an address");
        let body = serde_json::json!({
            "harness": {"id": "gate", "version": "1"},
            "harnessSpec": {"kind": "command", "id": "gate", "version": "1", "command": command},
            "case": {
                "id": "gated", "env": {"kind": "prompt"}, "task": "wait", "expected": "42", "timeoutSec": 300,
                "graders": [{"id": "answer-match", "config": {"mode": "contains"}}],
            },
            "runtime": "self",
        });
        in_runtime(async {
            let client = HubClient::new(hub, Some(key.to_owned().into())).expect("a client");
            client.submit(&body).await.expect("the hub takes it");
        });
    }

    /// The files of the whole profile that hold this text.
    pub fn files_with(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.folder.path().to_owned()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().expect("its kind"));
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() {
                    // A file may go while this looks.
                    let bytes = fs::read(&path).unwrap_or_default();
                    if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
                        found.push(path.display().to_string());
                    }
                }
            }
        }
        found
    }

    /// The processes that are not of the desktop itself: the app that a driver started, with all of its own.
    pub fn app_tree(&self) -> Vec<u32> {
        let name = super::app_program()
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        // The kernel cuts names at 15 characters.
        let name: String = name.unwrap_or_default().chars().take(15).collect();
        let started = self.guarded.iter().flat_map(|one| descendants(one.0.id()));
        let app = started.into_iter().find(|id| {
            fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim_end() == name)
        });
        app.into_iter()
            .flat_map(|id| std::iter::once(id).chain(descendants(id)))
            .collect()
    }

    /// Keeps a program of the desktop until its end.
    pub(super) fn keep(&mut self, program: Guarded) {
        self.guarded.insert(0, program);
    }

    /// Does something with the app's folders while the app isn't running.
    pub fn with_control(&self, work: impl AsyncFnOnce(&Control)) {
        let paths = self.write_settings();
        let settings = Settings::load(&paths.settings_file()).expect("the settings");
        let mut containers = ContainerOptions::new(&paths, &settings, "bench");
        containers.watchdog = None;
        let env = Arc::new(HostEnv::default());
        let options = ControlOptions {
            program: "the test",
            containers,
            secrets: EnvSecrets::from_env(&env),
            env,
            paths,
            settings,
            version: "0.0.0-test".into(),
            tray_host: true,
            autostart: None,
        };
        in_runtime(async {
            let control = Control::start(options).expect("a control");
            work(&control).await;
            control.leave(Leave::Now).await;
        });
    }

    /// Tells whether no case has left a folder.
    pub fn scratch_is_empty(&self) -> bool {
        let work = Paths::under(&self.everdict_home()).work_root();
        fs::read_dir(work).map_or(true, |mut left| left.next().is_none())
    }

    /// Submits a case that sleeps to the embedded hub of the app.
    pub fn submit_sleeper(&self) {
        let paths = Paths::under(&self.everdict_home());
        let known = Registrations::at(paths.registrations_file())
            .list()
            .expect("the pairings");
        let hub = known[0].hub().expect("an address");
        let store = secrets::open(StoreKind::File, &paths, &EnvSecrets::default());
        in_runtime(async {
            let key = store
                .get(&SecretName::api_key(&hub))
                .await
                .expect("the hub's key");
            let client = HubClient::new(hub, Some(key)).expect("a client");
            client.submit(&sleeper()).await.expect("the hub takes it");
        });
    }

    /// Lists the entries that the desktop starts at login.
    pub fn autostart_entries(&self) -> Vec<std::path::PathBuf> {
        let folder = self.folder.path().join("home/config/autostart");
        let listed = fs::read_dir(folder).into_iter().flatten().flatten();
        listed.map(|entry| entry.path()).collect()
    }

    /// Tells whether any file of the app's holds this text.
    pub fn keeps(&self, text: &str) -> bool {
        holds(&self.everdict_home(), text.as_bytes())
    }

    /// Notes every window that is shown from now on; `None` (and a line that says so) without the program for it.
    pub fn watch_windows(&self, test: &str) -> Option<WindowEye> {
        if !is_installed("xev") {
            report_skipped(test, &["xev"]);
            return None;
        }
        // The window manager maps one of its own while it starts.
        wait_until("the window manager", || {
            let asked = self.command("wmctrl").arg("-m").stdout(Stdio::null()).status();
            asked.expect("wmctrl runs").success()
        });
        let seen = self.folder.path().join("windows.log");
        let log = fs::File::create(&seen).expect("a file");
        let child = self
            .command("stdbuf")
            .args(["-oL", "xev", "-root", "-event", "substructure"])
            .stdout(log)
            .spawn()
            .expect("xev starts");
        Some(WindowEye {
            seen,
            _watching: Guarded(child),
        })
    }

    /// Returns the folder that everything lies in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn everdict_home(&self) -> std::path::PathBuf {
        self.folder.path().join("everdict")
    }

    pub(super) fn command(&self, program: &str) -> Command {
        let home = self.folder.path().join("home");
        let mut command = Command::new(program);
        command
            .stderr(Stdio::null())
            .env_remove("WAYLAND_DISPLAY")
            .env("DISPLAY", &self.display)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.bus_address)
            .env("HOME", &home)
            .env("EVERDICT_HOME", self.everdict_home())
            .env("XDG_RUNTIME_DIR", self.folder.path().join("run"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("LC_ALL", "C.UTF-8")
            // Keep GTK and Mesa from looking for services and caches outside this desktop.
            .env("NO_AT_BRIDGE", "1")
            .env("GIO_USE_VFS", "local")
            .env("GSETTINGS_BACKEND", "memory")
            .env("MESA_SHADER_CACHE_DISABLE", "true");
        command
    }

    pub(super) fn guard(&mut self, command: &mut Command) {
        self.guarded.insert(
            0,
            Guarded(command.spawn().expect("a program of the desktop starts")),
        );
    }

    fn start_display(&mut self) {
        let mut server = self
            .command("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "1280x800x24",
                "-nolisten",
                "tcp",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .expect("Xvfb starts");
        self.display = format!(":{}", first_line(&mut server));
        self.guarded.insert(0, Guarded(server));
    }

    fn start_bus(&mut self) {
        // Without service folders: nothing that happens to be installed is started behind the test's back.
        let config = self.folder.path().join("bus.conf");
        let text = format!(
            r#"<busconfig><type>session</type><listen>unix:dir={}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"#,
            self.folder.path().join("run").display()
        );
        fs::write(&config, text).expect("the bus configuration");
        let mut bus = self
            .command("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile", "--print-address=1"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon starts");
        self.bus_address = first_line(&mut bus);
        self.guarded.insert(0, Guarded(bus));
    }
}

/// A case that sleeps for five minutes.
pub fn sleeper() -> serde_json::Value {
    serde_json::json!({
        "harness": {"id": "sleeper", "version": "1"},
        "harnessSpec": {"kind": "command", "id": "sleeper", "version": "1", "command": "sleep 300"},
        "case": {"id": "sleepy", "env": {"kind": "prompt"}, "task": "sleep", "graders": [], "timeoutSec": 300},
        "runtime": "self",
    })
}

/// What is shown on the screen over time.
pub struct WindowEye {
    seen: std::path::PathBuf,
    _watching: Guarded,
}

impl WindowEye {
    /// Counts the windows that were shown.
    pub fn mapped(&self) -> usize {
        self.seen().matches("MapNotify event").count()
    }

    /// What the X server told.
    pub fn seen(&self) -> String {
        fs::read_to_string(&self.seen).expect("what was seen")
    }
}

fn holds(folder: &Path, text: &[u8]) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text)
    })
}

/// The app under test.
pub struct App(Guarded);

impl App {
    /// The process and everything that it started.
    pub fn tree(&self) -> Vec<u32> {
        let id = self.0.0.id();
        std::iter::once(id).chain(descendants(id)).collect()
    }

    /// Names the processes that it started.
    pub fn children(&self) -> Vec<String> {
        let id = self.0.0.id();
        let listed = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("the app runs");
        let name = |child: &str| fs::read_to_string(format!("/proc/{child}/comm")).ok();
        listed
            .split_whitespace()
            .filter_map(name)
            .map(|name| name.trim_end().to_owned())
            .collect()
    }

    /// Tells whether any of its threads has started a program of this name, or one of those has.
    pub fn runs(&self, name: &str) -> bool {
        descendants(self.0.0.id()).into_iter().any(|child| {
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim_end() == name)
        })
    }

    /// Names every process that it, or one of those, has started.
    pub fn everything_below(&self) -> Vec<u32> {
        descendants(self.0.0.id())
    }

    /// Page faults of programs that it started and that have ended; every program has some, so none was started while this
    /// stays what it is.
    pub fn faults_of_ended_children(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.0.id())).expect("the app runs");
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let faults = fields.split_whitespace().nth(8).expect("the field");
        faults.parse().expect("a number")
    }

    /// Processor time of it and of everything that it started, in the kernel's ticks of 1/100 s.
    pub fn ticks(&self) -> u64 {
        let spent = |id: &u32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // The name may hold spaces and brackets: fields are counted from behind it.
            let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            let spent = fields.split_whitespace().skip(11).take(2);
            Some(spent.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>())
        };
        self.tree().iter().filter_map(spent).sum()
    }

    /// Waits for the process of its web view.
    pub fn wait_for_web_process(&self) -> u32 {
        let mut web = None;
        wait_until("the web process", || {
            web = self.tree().into_iter().find(|id| {
                let name = fs::read_to_string(format!("/proc/{id}/comm"));
                name.is_ok_and(|name| name.starts_with("WebKitWeb"))
            });
            web.is_some()
        });
        web.expect("BUG: waited for")
    }

    /// Tells whether a web view has a process.
    pub fn has_web_process(&self) -> bool {
        // The kernel cuts names at 15 characters: WebKitWebProcess.
        self.children().iter().any(|name| name.starts_with("WebKitWeb"))
    }

    /// Tells whether it hasn't ended.
    pub fn is_running(&mut self) -> bool {
        self.0.0.try_wait().expect("its state").is_none()
    }

    /// Waits for its end and returns its exit code, none after a signal.
    pub fn wait_for_exit(&mut self) -> Option<i32> {
        wait_until("the app to end", || !self.is_running());
        self.0.0.wait().expect("its state").code()
    }
}

fn descendants(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let children: Vec<u32> = threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|listed| {
            listed
                .split_whitespace()
                .filter_map(|child| child.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect();
    children
        .into_iter()
        .flat_map(|child| std::iter::once(child).chain(descendants(child)))
        .collect()
}

fn in_runtime(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work);
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let output = child.stdout.take().expect("BUG: standard output is piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    line.trim().to_owned()
}

fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

fn report_skipped(test: &str, missing: &[&str]) {
    let line = format!("SKIPPED {test}: {} not installed", missing.join(", "));
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("EVERDICT_SKIP_LOG") {
        append(Path::new(&log), &line);
    }
}

fn append(log: &Path, line: &str) {
    let file = fs::OpenOptions::new().create(true).append(true).open(log);
    file.and_then(|mut file| writeln!(file, "{line}"))
        .expect("the log of skipped tests");
}
