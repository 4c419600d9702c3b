//! The built app left to itself: idle, with a window that stays blank, and when newer versions of it come.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "these tests hold the app's processes up and ask programs for their version"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use everdict_testkit::{Signer, UpdateFeed};
use support::{App, Desktop, Panel, app_program, wait_until};
use tokio::runtime::Runtime;

/// Longer than the longest pause between two looks of the idle app: of containers and capabilities, every 15 s.
const IDLE_WATCH: Duration = Duration::from_secs(20);

/// A look each few seconds costs a fifth of this on a machine that is busy with other things.
const MOST_CPU: f64 = 1.0;

/// The kernel counts processor time in ticks of 1/100 s.
const TICKS_PER_SECOND: f64 = 100.0;

#[test]
fn idle_without_a_window_it_has_no_child_and_starts_nothing() {
    let Some(desktop) = Desktop::start("idle_without_a_window_it_has_no_child_and_starts_nothing") else {
        return;
    };
    desktop.pair();
    let panel = Panel::start(&desktop);
    let app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    wait_until("the hub", || panel.labels()[0].starts_with("Idle"));
    panel.click("Open Everdict Runner");
    wait_until("the web process", || {
        desktop.shows_window() && app.has_web_process()
    });
    desktop.close_window();
    // The web process at once, the network process soon after.
    wait_until("everything of the window to go", || app.children().is_empty());

    let (faults, ticks, begin) = (app.faults_of_ended_children(), app.ticks(), Instant::now());
    wait_until("the time to pass", || {
        assert_eq!(
            app.children(),
            Vec::<String>::new(),
            "an idle app started something"
        );
        begin.elapsed() > IDLE_WATCH
    });
    assert_eq!(
        app.faults_of_ended_children(),
        faults,
        "an idle app ran a program"
    );
    let seconds = (app.ticks() - ticks) as f64 / TICKS_PER_SECOND;
    let cpu = seconds / begin.elapsed().as_secs_f64() * 100.0;
    assert!(cpu < MOST_CPU, "{cpu} % of a processor for nothing");

    // What was given back is there again when it is wanted.
    panel.click("Open Everdict Runner");
    wait_until("the window", || desktop.shows_window() && app.has_web_process());
}

/// The variable by which the slower way of drawing is asked for, as the web process has it.
fn renderer(web_process: u32) -> Option<String> {
    let environment =
        std::fs::read_to_string(format!("/proc/{web_process}/environ")).expect("its environment");
    let mut variables = environment
        .split('\0')
        .filter_map(|variable| variable.split_once('='));
    let (_, value) = variables.find(|(name, _)| *name == "WEBKIT_DISABLE_DMABUF_RENDERER")?;
    Some(value.to_owned())
}

#[test]
fn a_window_that_stays_blank_is_drawn_in_the_slower_way_after_the_next_start() {
    let test = "a_window_that_stays_blank_is_drawn_in_the_slower_way_after_the_next_start";
    let Some(desktop) = Desktop::start(test) else {
        return;
    };
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    panel.click("Open Everdict Runner");
    let web = app.wait_for_web_process();
    // Held up before it could draw anything, the page stays blank as it does with a driver that fails.
    signal("STOP", web);
    let marker = desktop.state_file("window-stayed-blank");
    wait_until("the app to notice", || marker.exists());
    assert_eq!(renderer(web), None, "nothing called for the slower way before");
    panel.click("Quit");
    assert_eq!(app.wait_for_exit(), Some(0));
    signal("KILL", web);

    panel.forget();
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    panel.click("Open Everdict Runner");
    let web = app.wait_for_web_process();
    assert_eq!(renderer(web).as_deref(), Some("1"));
    panel.click("Quit");
    assert_eq!(app.wait_for_exit(), Some(0));

    // What the person set counts, whatever was seen before.
    panel.forget();
    let app = desktop.start_app_with(&["--hidden"], &[("WEBKIT_DISABLE_DMABUF_RENDERER", "0")]);
    panel.wait_for_icon();
    panel.click("Open Everdict Runner");
    assert_eq!(renderer(app.wait_for_web_process()).as_deref(), Some("0"));
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

/// An app that was installed into a folder that its user may write, with a feed of updates.
struct Installed {
    desktop: Desktop,
    panel: Panel,
    program: PathBuf,
    feed: UpdateFeed,
    runtime: Runtime,
}

impl Installed {
    fn new(test: &str) -> Option<Self> {
        let desktop = Desktop::start(test)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let feed = runtime.block_on(UpdateFeed::start());
        desktop.pair();
        desktop.add_settings(&format!(
            "[update]\nfeed = {:?}\nkey = {:?}\n",
            feed.url(),
            Signer::new(1).public()
        ));
        let folder = desktop.folder().join("app");
        std::fs::create_dir(&folder).expect("a folder");
        let program = folder.join("everdict-desktop");
        std::fs::copy(app_program(), &program).expect("the program");
        let panel = Panel::start(&desktop);
        Some(Self {
            desktop,
            panel,
            program,
            feed,
            runtime,
        })
    }

    fn offer(&self, version: &str, program: &[u8]) {
        let _inside = self.runtime.enter();
        self.feed.offer(version, program, &Signer::new(1).sign(program));
    }

    fn start(&self) -> App {
        let app = self.desktop.start_program(&self.program, &["--hidden"]);
        self.panel.wait_for_icon();
        wait_until("the hub", || self.panel.labels()[0].starts_with("Idle"));
        app
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.program.with_file_name(format!(".everdict-desktop.{suffix}"))
    }
}

fn version_of(program: &Path) -> String {
    let said = Command::new(program)
        .arg("--version")
        .output()
        .expect("it starts");
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

/// The same program with another number of its version.
fn newer(program: &Path, now: &str, next: &str) -> Vec<u8> {
    assert_eq!(now.len(), next.len(), "nothing in it may move");
    let mut bytes = std::fs::read(program).expect("the program");
    let mut at = 0;
    while let Some(found) = find(&bytes[at..], now.as_bytes()) {
        bytes[at + found..at + found + now.len()].copy_from_slice(next.as_bytes());
        at += found + now.len();
    }
    bytes
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

#[test]
fn a_signed_newer_app_waits_for_the_job_takes_over_and_is_well() {
    let Some(installed) = Installed::new("a_signed_newer_app_waits_for_the_job_takes_over_and_is_well")
    else {
        return;
    };
    let panel = &installed.panel;
    let newer = newer(&installed.program, "0.1.0", "0.1.9");
    installed.offer("0.1.9", &newer);
    let app = installed.start();
    installed.desktop.submit_sleeper();
    wait_until("the case", || app.runs("sleep"));
    wait_until("the newer version", || installed.beside("new").exists());
    wait_until("its word in the tray", || {
        panel.labels().iter().any(|line| line.contains("0.1.9"))
    });
    assert_eq!(version_of(&installed.program), "0.1.0", "a job runs");

    let before = panel.owner();
    panel.click("Stop");
    panel.wait_for_icon_after(&before);
    assert_eq!(version_of(&installed.program), "0.1.9");
    wait_until("the newer app's hub", || panel.labels()[0].starts_with("Idle"));
    assert!(
        installed.beside("previous").exists(),
        "the way back stays open for now"
    );
    let started = Instant::now();
    support::wait_for("the newer app to be well", Duration::from_secs(90), || {
        !installed.beside("previous").exists()
    });
    assert!(started.elapsed() > Duration::from_secs(30), "that was no trial");
    assert_eq!(installed.feed.fetched(), 1);
    panel.click("Quit");
    wait_until("the end", || !panel.answers());
}

#[test]
fn an_app_that_fails_to_start_twice_makes_way_for_the_one_before() {
    let Some(installed) = Installed::new("an_app_that_fails_to_start_twice_makes_way_for_the_one_before")
    else {
        return;
    };
    let starts = installed.desktop.folder().join("starts");
    let broken = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 0.1.9; exit 0; fi\necho start >> {}\nexit 1\n",
        starts.display()
    );
    installed.offer("0.1.9", broken.as_bytes());
    let before = std::fs::read(&installed.program).expect("the program");
    let _app = installed.start();
    let panel = &installed.panel;
    let owner = panel.owner();
    wait_until("two starts of the newer version", || {
        std::fs::read_to_string(&starts).is_ok_and(|text| text.lines().count() == 2)
    });
    panel.wait_for_icon_after(&owner);
    wait_until("the app before", || panel.labels()[0].starts_with("Idle"));
    assert!(std::fs::read(&installed.program).expect("the program") == before);
    assert!(
        panel.labels().iter().any(|line| line.contains("0.1.9")),
        "{:?}",
        panel.labels()
    );
    let text = std::fs::read_to_string(&starts).expect("the starts");
    assert_eq!(text.lines().count(), 2, "it is not tried again");
    panel.click("Quit");
    wait_until("the end", || !panel.answers());
}
