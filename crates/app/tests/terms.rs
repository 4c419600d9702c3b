//! On which terms a machine takes jobs: settings that change, the battery, consent, and staying awake. A real runner at a
//! scripted hub; the power is a folder of the test's own, logind a server of the test's own on a private bus.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![allow(missing_docs, reason = "zbus makes public methods of the test's own server")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everdict_app::control::{
    AppEvent, AppSnapshot, AppState, ConsentAnswer, ConsentKind, Control, ControlOptions, JobOutcome, Leave,
    SettingValue, WaitingReason,
};
use everdict_app::{
    ContainerOptions, EnvSecrets, Paths, Registration, Registrations, Settings, StoreKind, secrets,
};
use everdict_exec::HostEnv;
use everdict_testkit::ScriptedHub;
use serde_json::{Value, json};

/// A change of the terms shows within two looks; two busy cores may need several times that.
const DEADLINE: Duration = Duration::from_secs(40);

const SETTINGS: &str = "[topology]\nendpoint = \"unix:///nonexistent/docker.sock\"\n";

struct World {
    dir: tempfile::TempDir,
    hub: ScriptedHub,
    bus: String,
}

impl World {
    /// A machine on mains that is paired with a scripted hub of another's.
    async fn new() -> Self {
        everdict_runner_core::session::install_crypto();
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
            hub: ScriptedHub::start().await,
            bus: "unix:path=/nonexistent/bus".to_owned(),
        };
        world.plug(true);
        world.paths().prepare().unwrap();
        world.set("");
        let registration = Registration {
            runner_id: "r-1".into(),
            label: "bench".to_owned(),
            hub_url: world.hub.url(),
            owner: "ann".to_owned(),
            workspace: "acme".to_owned(),
            store: StoreKind::File,
            paired_at: "2026-01-01T00:00:00Z".to_owned(),
        };
        let store = secrets::open(StoreKind::File, &world.paths(), &EnvSecrets::default());
        let name = registration.secret_name().unwrap();
        store.set(&name, &ScriptedHub::TOKEN.into()).await.unwrap();
        Registrations::at(world.paths().registrations_file())
            .put(registration)
            .unwrap();
        world
    }

    fn paths(&self) -> Paths {
        Paths::under(&self.dir.path().join("home"))
    }

    fn file(&self) -> PathBuf {
        self.paths().settings_file()
    }

    /// Writes the person's file.
    fn set(&self, text: &str) {
        std::fs::write(self.file(), format!("{SETTINGS}{text}")).unwrap();
    }

    fn plug(&self, mains: bool) {
        for (supply, fields) in [
            (
                "AC",
                [("type", "Mains"), ("online", if mains { "1" } else { "0" })],
            ),
            (
                "BAT0",
                [
                    ("type", "Battery"),
                    ("status", if mains { "Full" } else { "Discharging" }),
                ],
            ),
        ] {
            let dir = self.dir.path().join("power").join(supply);
            std::fs::create_dir_all(&dir).unwrap();
            for (name, value) in fields {
                std::fs::write(dir.join(name), format!("{value}\n")).unwrap();
            }
        }
    }

    fn start(&self) -> Control {
        let paths = self.paths();
        let settings = Settings::load(&self.file()).unwrap();
        let mut containers = ContainerOptions::new(&paths, &settings, "test");
        containers.watchdog = None;
        let path = HostEnv::capture().get("PATH").unwrap_or_default().to_owned();
        let power = self.dir.path().join("power").display().to_string();
        let env = Arc::new(HostEnv::from_pairs([
            ("PATH", path.as_str()),
            ("DBUS_SYSTEM_BUS_ADDRESS", self.bus.as_str()),
            ("EVERDICT_POWER_SUPPLY_ROOT", power.as_str()),
        ]));
        Control::start(ControlOptions {
            program: "a test",
            containers,
            secrets: EnvSecrets::from_env(&env),
            env,
            paths,
            settings,
            version: "0.0.0-test".to_owned(),
            tray_host: true,
            autostart: None,
        })
        .unwrap()
    }
}

async fn until(control: &Control, what: &str, mut holds: impl FnMut(&AppSnapshot) -> bool) -> AppSnapshot {
    let mut watch = control.watch();
    let end = Instant::now() + DEADLINE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, watch.next()).await {
            Ok(Some(AppEvent::Snapshot { snapshot, .. })) if holds(&snapshot) => return *snapshot,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => panic!("timed out waiting for {what}: {:#?}", control.snapshot()),
        }
    }
}

/// A command that runs until the file `go` is there, and says so.
fn job(case: &str, go: &Path) -> Value {
    json!({
        "evalCase": {
            "id": case, "env": {"kind": "prompt"}, "task": "t", "timeoutSec": 120, "expected": "done",
            "graders": [{"id": "answer-match", "config": {"mode": "contains"}}],
        },
        "harness": {"id": "h", "version": "1.0.0"},
        "harnessSpec": {
            "kind": "command", "id": "h", "version": "1.0.0", "setup": [], "env": {}, "params": {},
            "command": format!("while [ ! -e '{}' ]; do sleep 0.05; done; echo done", go.display()),
            "trace": {"kind": "none"},
        },
        "tenant": "acme",
        "runId": format!("evd-run-{case}"),
    })
}

fn outcome(control: &Control, case: &str) -> Option<JobOutcome> {
    let jobs = control.jobs(50);
    jobs.iter()
        .find(|job| job.case_id == case)
        .and_then(|job| job.outcome)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_takes_effect_while_running_and_nonsense_keeps_what_was_in_force() {
    let world = World::new().await;
    let control = world.start();
    until(&control, "idle", |seen| seen.state == AppState::Idle).await;
    let key = "runner.max_concurrent";
    let views = control
        .save_setting(key, Some(&SettingValue::Number(3)))
        .await
        .unwrap();
    let view = views.iter().find(|view| view.key == key).unwrap();
    assert_eq!((&view.value, view.at_start), (&SettingValue::Number(3), false));
    assert_eq!(control.snapshot().runners[0].slots, 3);
    world
        .hub
        .until("three slots poll", |hub| hub.waiting_polls() == 3)
        .await;

    world.set("[runner]\nmax_concurrent = 99\n");
    let seen = until(&control, "the fault", |seen| seen.settings_fault.is_some()).await;
    let fault = seen.settings_fault.unwrap();
    assert!(
        fault
            .message
            .contains("settings.toml:4: runner.max_concurrent can't be 99"),
        "{fault:?}"
    );
    assert_eq!((seen.state, seen.runners[0].slots), (AppState::Attention, 3));
    assert_eq!(world.hub.waiting_polls(), 3, "nothing else changed");
    assert!(
        control.save_setting(key, None).await.is_err(),
        "a broken file is not written over"
    );

    world.set("[runner]\nmax_concurrent = 2\n");
    let seen = until(&control, "the new value", |seen| seen.runners[0].slots == 2).await;
    assert_eq!(seen.settings_fault, None);
    world
        .hub
        .until("two slots poll", |hub| hub.waiting_polls() == 2)
        .await;
    let refused = control
        .save_setting(key, Some(&SettingValue::Number(0)))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "setting_refused");
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_battery_no_job_is_taken_the_reason_shows_and_the_setting_decides() {
    let world = World::new().await;
    world.plug(false);
    world.set("[consent]\nask = \"always\"\n");
    let go = world.dir.path().join("go");
    let job_id = world.hub.enqueue(job("c1", &go));
    let control = world.start();
    let seen = until(&control, "the wait", |seen| seen.state == AppState::Waiting).await;
    let waiting = seen.waiting.unwrap();
    assert_eq!(
        (waiting.reason, waiting.text.as_str()),
        (WaitingReason::Battery, "on battery")
    );
    assert_eq!(seen.state_text, "on battery");
    assert_eq!(seen.paused_until, None, "nobody paused anything");
    assert!(world.hub.lease(&job_id).is_none());

    let power = "power.on_battery";
    let text = |value: &str| Some(SettingValue::Text(value.to_owned()));
    control
        .save_setting(power, text("ignore").as_ref())
        .await
        .unwrap();
    until(&control, "the job", |seen| {
        seen.state == AppState::Running && seen.waiting.is_none()
    })
    .await;

    control
        .save_setting(power, text("finish").as_ref())
        .await
        .unwrap();
    let seen = until(&control, "the wait", |seen| seen.waiting.is_some()).await;
    assert_eq!(seen.active.len(), 1, "what runs finishes");
    control
        .save_setting(power, text("hand-back").as_ref())
        .await
        .unwrap();
    until(&control, "the job is given back", |seen| seen.active.is_empty()).await;
    assert_eq!(outcome(&control, "c1"), Some(JobOutcome::HandedBack));
    let result = world.hub.lease(&job_id).unwrap().result.unwrap();
    assert_eq!(result["failure"]["class"], "infra");
    assert_eq!(result["failure"]["retryable"], true);
    let message = result["failure"]["message"].as_str().unwrap();
    assert!(
        message.contains("handed back, not run here: this machine went on battery"),
        "{message}"
    );
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_the_disk_floor_and_outside_the_hours_nothing_is_taken() {
    let world = World::new().await;
    world.set("[limits]\ndisk_floor_gb = 1000000\n[hours]\ndays = []\n");
    let job_id = world.hub.enqueue(job("c1", Path::new("/")));
    let control = world.start();
    let seen = until(&control, "the wait", |seen| seen.waiting.is_some()).await;
    let waiting = seen.waiting.unwrap();
    assert_eq!(waiting.reason, WaitingReason::Disk);
    assert_eq!(waiting.text, "disk low, outside working hours");
    assert!(world.hub.lease(&job_id).is_none() && world.hub.calls_of("lease_job").is_empty());
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_job_of_a_workspace_and_a_kind_starts_nothing_before_the_person_agrees() {
    let world = World::new().await;
    let control = world.start();
    let marker = world.dir.path().join("started");
    let mut first = job("c1", Path::new("/"));
    first["harnessSpec"]["command"] = json!(format!("echo x >> '{}'; echo done", marker.display()));
    let job_id = world.hub.enqueue(first.clone());
    let seen = until(&control, "the ask", |seen| {
        !seen.asks.is_empty() && !seen.active.is_empty()
    })
    .await;
    let ask = seen.asks[0].clone();
    assert_eq!((ask.kind, ask.case_id.as_str()), (ConsentKind::Command, "c1"));
    assert_eq!(
        (ask.workspace.as_str(), ask.harness.as_str()),
        ("acme", "h@1.0.0")
    );
    assert_eq!((seen.state, seen.active.len()), (AppState::Attention, 1));
    assert_eq!(seen.state_text, "approve first job from \"acme\"");
    world
        .hub
        .until("it is renewed meanwhile", |hub| {
            !hub.calls_of("heartbeat_job").is_empty()
        })
        .await;
    assert!(!marker.exists(), "nothing was started");
    control.answer_ask(&ask.id, ConsentAnswer::Always).unwrap();
    until(&control, "the end", |seen| {
        seen.active.is_empty() && seen.asks.is_empty()
    })
    .await;
    assert!(marker.exists());
    assert_eq!(outcome(&control, "c1"), Some(JobOutcome::Passed));
    assert!(world.hub.lease(&job_id).unwrap().result.is_some());

    // From now on without a question, also after a restart; until that is taken back.
    control.leave(Leave::Now).await;
    drop(control);
    let control = world.start();
    first["evalCase"]["id"] = json!("c2");
    world.hub.enqueue(first.clone());
    until(&control, "the second", |_| outcome(&control, "c2").is_some()).await;
    assert_eq!(outcome(&control, "c2"), Some(JobOutcome::Passed));
    let consents = control.consents();
    assert_eq!((consents.len(), consents[0].answer), (1, ConsentAnswer::Always));
    control.revoke_consent(&consents[0].id).unwrap();

    first["evalCase"]["id"] = json!("c3");
    world.hub.enqueue(first.clone());
    let seen = until(&control, "the ask again", |seen| !seen.asks.is_empty()).await;
    control
        .answer_ask(&seen.asks[0].id, ConsentAnswer::Never)
        .unwrap();
    until(&control, "the third", |_| outcome(&control, "c3").is_some()).await;
    first["evalCase"]["id"] = json!("c4");
    world.hub.enqueue(first);
    until(&control, "the fourth", |_| outcome(&control, "c4").is_some()).await;
    for case in ["c3", "c4"] {
        assert_eq!(outcome(&control, case), Some(JobOutcome::HandedBack), "{case}");
    }
    let started = std::fs::read_to_string(&marker).unwrap();
    assert_eq!(started.lines().count(), 2, "what was refused never started");
    control.leave(Leave::Now).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_that_nobody_answers_gives_the_job_back_within_half_a_minute() {
    let world = World::new().await;
    let control = world.start();
    let job_id = world.hub.enqueue(job("c1", Path::new("/")));
    until(&control, "the ask", |seen| !seen.asks.is_empty()).await;
    let asked = Instant::now();
    until(&control, "the end", |seen| {
        seen.asks.is_empty() && seen.active.is_empty()
    })
    .await;
    assert!(asked.elapsed() < Duration::from_secs(30));
    assert_eq!(outcome(&control, "c1"), Some(JobOutcome::HandedBack));
    let result = world.hub.lease(&job_id).unwrap().result.unwrap();
    let message = result["failure"]["message"].as_str().unwrap();
    assert!(message.contains("nobody at this machine answered"), "{message}");
    assert!(control.consents().is_empty());
    control.leave(Leave::Now).await;
}

/// Killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bus of the test's own; `None` where the machine has no such program.
fn private_bus(dir: &Path) -> Option<(Daemon, String)> {
    let address = format!("unix:path={}/bus", dir.display());
    let config = dir.join("bus.conf");
    let text = format!(
        "<busconfig><type>session</type><listen>{address}</listen><auth>EXTERNAL</auth><policy context=\"default\">\
         <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>"
    );
    std::fs::write(&config, text).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test brings up a bus of its own")]
    let mut bus = std::process::Command::new("dbus-daemon")
        .arg(format!("--config-file={}", config.display()))
        .args(["--nofork", "--nopidfile", "--print-address=1"])
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(bus.stdout.take()?).read_line(&mut line).ok()?;
    Some((Daemon(bus), address))
}

fn skip(test: &str) {
    let line = format!("SKIPPED {test}: needs dbus-daemon");
    eprintln!("{line}");
    if let Some(log) = HostEnv::capture().get("EVERDICT_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        file.and_then(|mut file| writeln!(file, "{line}")).unwrap();
    }
}

/// What logind was asked, and the other ends of the locks that it gave out.
#[derive(Default, Clone)]
struct Locks(Arc<Mutex<Vec<(String, std::io::PipeReader)>>>);

impl Locks {
    /// How many are held: the other end of one that was let go reads as ended.
    fn held(&self) -> usize {
        let mut locks = self.0.lock().unwrap();
        locks.retain_mut(|(_, lock)| !matches!(lock.read(&mut [0]), Ok(0)));
        locks.len()
    }

    fn last(&self) -> String {
        self.0.lock().unwrap().last().unwrap().0.clone()
    }
}

struct Login {
    locks: Locks,
    idle: Arc<std::sync::atomic::AtomicBool>,
}

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zbus::zvariant::OwnedFd {
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK).unwrap();
        let asked = format!("{what}|{who}|{why}|{mode}");
        self.locks.0.lock().unwrap().push((asked, reader));
        std::os::fd::OwnedFd::from(writer).into()
    }

    #[zbus(property)]
    fn idle_hint(&self) -> bool {
        self.idle.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Sent before the machine sleeps, and after it woke.
    #[zbus(signal)]
    async fn prepare_for_sleep(
        emitter: &zbus::object_server::SignalEmitter<'_>,
        start: bool,
    ) -> zbus::Result<()>;
}

struct Network(u32);

#[zbus::interface(name = "org.freedesktop.NetworkManager")]
impl Network {
    #[zbus(property)]
    fn metered(&self) -> u32 {
        self.0
    }
}

const LOGIN: &str = "/org/freedesktop/login1";

async fn login(address: &str, locks: &Locks, idle: &Arc<std::sync::atomic::AtomicBool>) -> zbus::Connection {
    let login = Login {
        locks: locks.clone(),
        idle: Arc::clone(idle),
    };
    let builder = zbus::connection::Builder::address(address).unwrap();
    let builder = builder.name("org.freedesktop.login1").unwrap();
    builder.serve_at(LOGIN, login).unwrap().build().await.unwrap()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_system_is_kept_awake_only_while_a_job_runs_on_mains_and_never_by_a_dead_process() {
    let mut world = World::new().await;
    let Some((_bus, address)) = private_bus(world.dir.path()) else {
        return skip("the_system_is_kept_awake_only_while_a_job_runs_on_mains_and_never_by_a_dead_process");
    };
    let (locks, idle) = (Locks::default(), Arc::default());
    let _login = login(&address, &locks, &idle).await;
    world.bus = address;
    world.set("[consent]\nask = \"always\"\n[power]\non_battery = \"ignore\"\n");
    let control = world.start();
    let seen = until(&control, "idle", |seen| seen.state == AppState::Idle).await;
    assert!(!seen.awake);
    let go = world.dir.path().join("go");
    world.hub.enqueue(job("c1", &go));
    until(&control, "it is held", |seen| {
        seen.awake && !seen.active.is_empty()
    })
    .await;
    assert_eq!(locks.held(), 1);
    assert_eq!(locks.last(), "sleep|Everdict Runner|a job is running|block");

    world.plug(false);
    until(&control, "on battery it is let go", |seen| !seen.awake).await;
    assert_eq!((locks.held(), control.snapshot().active.len()), (0, 1));
    world.plug(true);
    until(&control, "on mains it is held again", |seen| seen.awake).await;

    let text = SettingValue::Switch(false);
    control
        .save_setting("power.keep_awake", Some(&text))
        .await
        .unwrap();
    until(&control, "by the setting it is let go", |seen| !seen.awake).await;
    control.save_setting("power.keep_awake", None).await.unwrap();
    until(&control, "and held", |seen| seen.awake).await;

    std::fs::write(&go, "").unwrap();
    until(&control, "the end", |seen| seen.active.is_empty()).await;
    let ended = Instant::now();
    until(&control, "it is let go", |seen| !seen.awake).await;
    assert_eq!(locks.held(), 0);
    assert!(ended.elapsed() < Duration::from_secs(5));

    std::fs::remove_file(&go).unwrap();
    world.hub.enqueue(job("c2", &go));
    until(&control, "it is held", |seen| seen.awake).await;
    control.leave(Leave::Now).await;
    eventually("a control that left holds nothing", || locks.held() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_system_tells_of_use_network_and_sleep_is_heeded() {
    let mut world = World::new().await;
    let Some((_bus, address)) = private_bus(world.dir.path()) else {
        return skip("what_the_system_tells_of_use_network_and_sleep_is_heeded");
    };
    let (locks, idle) = (
        Locks::default(),
        Arc::new(std::sync::atomic::AtomicBool::new(true)),
    );
    let login = login(&address, &locks, &idle).await;
    world.bus = address.clone();
    world.set("[limits]\nwhile_in_use = \"wait\"\ncpu_in_use = 50\n");
    let control = world.start();
    let seen = until(&control, "idle", |seen| seen.state == AppState::Idle).await;
    assert_eq!((seen.cpu_share.percent, seen.cpu_share.in_use), (100, false));
    world.hub.until("it polls", |hub| hub.waiting_polls() == 1).await;

    let polls = world.hub.calls_of("lease_job").len();
    let emitter = zbus::object_server::SignalEmitter::new(&login, LOGIN).unwrap();
    Login::prepare_for_sleep(&emitter, true).await.unwrap();
    Login::prepare_for_sleep(&emitter, false).await.unwrap();
    world
        .hub
        .until("after a sleep it polls anew, on a new session", |hub| {
            hub.calls_of("lease_job").len() > polls && hub.sessions_opened_and_deleted().0 == 2
        })
        .await;

    idle.store(false, std::sync::atomic::Ordering::Relaxed);
    let used = Instant::now();
    let seen = until(&control, "in use", |seen| seen.waiting.is_some()).await;
    assert!(used.elapsed() < Duration::from_secs(10));
    assert_eq!(seen.waiting.unwrap().reason, WaitingReason::InUse);
    assert_eq!((seen.cpu_share.percent, seen.cpu_share.in_use), (50, true));
    control.leave(Leave::Now).await;
    drop(control);

    // A machine that starts on a metered network takes nothing from the first moment.
    idle.store(true, std::sync::atomic::Ordering::Relaxed);
    let builder = zbus::connection::Builder::address(address.as_str()).unwrap();
    let builder = builder.name("org.freedesktop.NetworkManager").unwrap();
    let builder = builder
        .serve_at("/org/freedesktop/NetworkManager", Network(3))
        .unwrap();
    let _network = builder.build().await.unwrap();
    let control = world.start();
    let seen = until(&control, "the wait", |seen| seen.waiting.is_some()).await;
    assert_eq!(seen.waiting.unwrap().reason, WaitingReason::Metered);
    control.leave(Leave::Now).await;
}
