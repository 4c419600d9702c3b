//! What the app costs and how soon it is there, on a private desktop. `cargo xtask bench desktop` runs it and reads what it
//! writes; as a test it is ignored, since figures of a busy machine prove nothing.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Desktop, Keyring, Page, Panel, app_program, wait_until};

/// Starts whose median is told: the first reads the program from disk.
const STARTS: usize = 5;

/// The window of the figure; shorter, and one tick of 10 ms would show.
const IDLE_WINDOW: Duration = Duration::from_secs(60);

/// After this GTK and the web view have done what they put off at start.
const SETTLE: Duration = Duration::from_secs(5);

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
    let starts: Vec<f64> = (0..STARTS).map(|_| start_to_tray_ms(test)).collect();
    let (pair, log) = through_the_window(test);
    let (tray, window, cpu) = resident(test);
    let figures = json!({
        "tray_pss_mb": round(tray),
        "window_pss_mb": round(window),
        "idle_cpu_pct": round(cpu),
        "start_to_tray_ms": round(median(starts)),
        "pair_to_online_ms": round(pair),
        "log_100k_ms": round(log.0),
        "log_growth_mb": round(log.1),
    });
    write(&out, &figures);
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
fn through_the_window(test: &str) -> (f64, (f64, f64)) {
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
    let pair = millis(click);
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
    let shown = millis(begin);
    let growth = pss_mb(&desktop.app_tree()) - before;
    page.close();
    (pair, (shown, growth))
}

/// Memory of the whole tree in the tray and with the window open, and CPU while nothing happens.
fn resident(test: &str) -> (f64, f64, f64) {
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
    std::thread::sleep(SETTLE);
    let tray = pss_mb(&app.tree());
    let (ticks, begin) = (ticks(&app.tree()), Instant::now());
    std::thread::sleep(IDLE_WINDOW);
    let spent = self::ticks(&app.tree()).saturating_sub(ticks) as f64 * MS_PER_TICK;
    let cpu = spent / millis(begin) * 100.0;
    panel.click("Open Everdict Runner");
    wait_until("the window", || desktop.shows_window() && app.has_web_process());
    std::thread::sleep(SETTLE);
    (tray, pss_mb(&app.tree()), cpu)
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

fn ticks(tree: &[u32]) -> u64 {
    tree.iter()
        .filter_map(|id| std::fs::read_to_string(format!("/proc/{id}/stat")).ok())
        .map(|stat| {
            // The name may hold spaces and brackets: fields are counted from behind it.
            let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            let spent = fields.split_whitespace().skip(11).take(2);
            spent.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
        })
        .sum()
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn write(out: &Path, figures: &Value) {
    let mut figures = figures.clone();
    figures["app"] = json!(app_program());
    std::fs::write(out, figures.to_string()).expect("the figures are written");
}
