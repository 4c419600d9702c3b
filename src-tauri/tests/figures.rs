//! What the app costs and how soon it is there, on a private desktop. `cargo xtask bench desktop` runs it and reads what it
//! writes; as a test it is ignored, since figures of a busy machine prove nothing.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{App, Desktop, Keyring, Page, Panel, app_program, wait_until};

/// Starts whose median is told: the first reads the program from disk.
const STARTS: usize = 5;

/// Rounds of everything else whose medians are told.
const ROUNDS: usize = 3;

/// The window of the figure; shorter, and one tick of 10 ms would show.
const IDLE_WINDOW: Duration = Duration::from_secs(60);

/// After this GTK and the web view have done what they put off at start.
const SETTLE: Duration = Duration::from_secs(5);

/// What has done so little in [`QUIET_FOR`] is through with its start; on a busy machine that takes longer.
const QUIET_TICKS: u64 = 2;
const QUIET_FOR: Duration = Duration::from_secs(3);

/// Lines of the log that is shown.
const LINES: u32 = 100_000;

/// Linux reports process times in ticks of 1/100 s on every architecture (USER_HZ).
const MS_PER_TICK: f64 = 10.0;

#[test]
#[ignore = "a measurement: cargo xtask bench desktop runs it"]
fn measure() {
    let test = "measure";
    let Some(out) = support::figures_file() else {
        panic!("EVERDICT_FIGURES names the file to write; cargo xtask bench desktop sets it");
    };
    let mut runs = Runs::default();
    for _ in 0..STARTS {
        runs.add("start_to_tray_ms", start_to_tray_ms(test));
    }
    for _ in 0..ROUNDS {
        through_the_window(test, &mut runs);
        resident(test, &mut runs);
    }
    write(&out, &runs);
}

/// What each round came to, by figure.
#[derive(Default)]
struct Runs(BTreeMap<&'static str, Vec<f64>>);

impl Runs {
    fn add(&mut self, figure: &'static str, value: f64) {
        self.0.entry(figure).or_default().push(round(value));
    }
}

/// From the start of the program to the icon in the panel.
fn start_to_tray_ms(test: &str) -> f64 {
    let desktop = Desktop::start(test).expect("a desktop");
    desktop.write_settings();
    let panel = Panel::start(&desktop);
    let start = Instant::now();
    let _app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    millis(start)
}

/// Click to online, and a long log, driven through the page.
fn through_the_window(test: &str, runs: &mut Runs) {
    let mut desktop =
        Desktop::start_with(test, &["WebKitWebDriver", "gnome-keyring-daemon"]).expect("a desktop");
    let keyring = Keyring::start(&mut desktop);
    let panel = Panel::start(&desktop);
    desktop.write_settings();
    let page = Page::open(&mut desktop);
    page.shows("Set up this machine");
    panel.wait_for_icon();
    let click = Instant::now();
    page.press("Use this computer");
    wait_until("online", || {
        panel
            .labels()
            .first()
            .is_some_and(|line| line.starts_with("Idle"))
    });
    runs.add("pair_to_online_ms", millis(click));
    page.press("Go to overview");
    let key = keyring.secret("ak_").expect("the hub's key");
    let before = pss_mb(&desktop.app_tree());
    desktop.submit(&key, &format!("seq 1 {LINES}; sleep 20"));
    wait_until("the job", || {
        panel.labels().iter().any(|line| line.starts_with("Running"))
    });
    let begin = Instant::now();
    page.press_at("//nav//a[contains(., 'Jobs')]");
    page.press_at("//table//a[normalize-space(.)='gated']");
    page.shows_at("//section[@aria-label='Log']", &LINES.to_string());
    runs.add("log_100k_ms", millis(begin));
    runs.add("log_growth_mb", pss_mb(&desktop.app_tree()) - before);
    page.close();
}

/// Memory of the whole tree in the tray, with the window open and after it, and CPU while nothing happens.
fn resident(test: &str, runs: &mut Runs) {
    let desktop = Desktop::start(test).expect("a desktop");
    desktop.pair();
    let panel = Panel::start(&desktop);
    let app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    wait_until("idle", || {
        panel
            .labels()
            .first()
            .is_some_and(|line| line.starts_with("Idle"))
    });
    settle(&app);
    runs.add("tray_pss_mb", pss_mb(&app.tree()));
    let (ticks, begin) = (app.ticks(), Instant::now());
    std::thread::sleep(IDLE_WINDOW);
    let spent = app.ticks().saturating_sub(ticks) as f64 * MS_PER_TICK;
    runs.add("idle_cpu_pct", spent / millis(begin) * 100.0);
    runs.add("idle_children", app.children().len() as f64);
    panel.click("Open Everdict Runner");
    wait_until("the window", || desktop.shows_window() && app.has_web_process());
    // Its ages tick, so it is never as quiet as the tray.
    std::thread::sleep(SETTLE);
    runs.add("window_pss_mb", pss_mb(&app.tree()));
    desktop.close_window();
    wait_until("everything of the window to go", || app.children().is_empty());
    settle(&app);
    runs.add("closed_pss_mb", pss_mb(&app.tree()));
}

/// Waits until a start is over, by the clock and by what it still does.
fn settle(app: &App) {
    std::thread::sleep(SETTLE);
    let mut before = app.ticks();
    support::wait_for("a quiet moment", SETTLE * 24, || {
        std::thread::sleep(QUIET_FOR);
        let now = app.ticks();
        now.saturating_sub(std::mem::replace(&mut before, now)) <= QUIET_TICKS
    });
}

/// Memory that these processes use, shared pages counted by their part.
fn pss_mb(tree: &[u32]) -> f64 {
    let kilobytes: f64 = tree
        .iter()
        .filter_map(|id| std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok())
        .filter_map(|text| {
            let line = text.lines().find(|line| line.starts_with("Pss:"))?;
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        })
        .sum();
    kilobytes / 1024.0
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn write(out: &Path, runs: &Runs) {
    let mut figures: Value = runs
        .0
        .iter()
        .map(|(figure, values)| (*figure, median(values)))
        .collect();
    figures["runs"] = json!(runs.0);
    figures["app"] = json!(app_program());
    std::fs::write(out, figures.to_string()).expect("the figures are written");
}
