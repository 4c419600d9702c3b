//! The built app on a private desktop: what a person sees in the tray and on the screen, and what must not run.
#![cfg(target_os = "linux")]

mod support;

use std::time::{Duration, Instant};

use support::{Desktop, Notices, Panel, TeamHub, is_alive, wait_until};

#[test]
fn the_tray_opens_the_window_and_closing_it_gives_the_web_view_back() {
    let Some(desktop) = Desktop::start("the_tray_opens_the_window_and_closing_it_gives_the_web_view_back")
    else {
        return;
    };
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&[]);
    panel.wait_for_icon();
    wait_until("the menu", || {
        panel.labels()
            == [
                "Not paired",
                "Notifications can't be shown here",
                "",
                "Open Everdict Runner",
                "Pair this machine…",
                "",
                "Start at login",
                "Quit",
            ]
    });
    assert!(!panel.items()[0].enabled, "the state line is no action");
    assert_eq!(
        app.children(),
        Vec::<String>::new(),
        "no web view before a window is asked for"
    );
    assert!(!desktop.shows_window());

    panel.click("Open Everdict Runner");
    wait_until("the window", || desktop.shows_window());
    wait_until("the web process", || app.has_web_process());

    desktop.close_window();
    wait_until("the web process to go", || !app.has_web_process());
    assert!(app.is_running(), "the app stays in the tray");

    desktop.run_app_to_end(&[]);
    wait_until("the window of the first instance", || desktop.shows_window());
    assert!(app.has_web_process());

    panel.click("Quit");
    assert_eq!(app.wait_for_exit(), Some(0));
}

#[test]
fn without_a_tray_host_the_window_opens_by_itself() {
    let Some(desktop) = Desktop::start("without_a_tray_host_the_window_opens_by_itself") else {
        return;
    };
    let mut app = desktop.start_app(&[]);
    wait_until("the window", || desktop.shows_window());
    desktop.close_window();
    wait_until("the web process to go", || !app.has_web_process());
    assert!(app.is_running(), "the app stays reachable by a second start");
}

#[test]
fn a_pairing_made_elsewhere_shows_and_one_without_a_token_needs_the_person() {
    let test = "a_pairing_made_elsewhere_shows_and_one_without_a_token_needs_the_person";
    let Some(desktop) = Desktop::start(test) else {
        return;
    };
    let panel = Panel::start(&desktop);
    let _app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    wait_until("the menu", || {
        panel.labels().first().is_some_and(|line| line == "Not paired")
    });
    desktop.record_pairing();
    wait_until("the new state", || panel.labels()[0].starts_with("Needs you: "));
}

#[test]
fn the_tray_pauses_resumes_and_switches_what_may_run_here() {
    let Some(desktop) = Desktop::start("the_tray_pauses_resumes_and_switches_what_may_run_here") else {
        return;
    };
    desktop.pair();
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    let state = |wanted: &str| {
        wait_until(wanted, || {
            panel
                .labels()
                .first()
                .is_some_and(|line| line.starts_with(wanted))
        });
    };
    state("Idle · 127.0.0.1:");
    panel.click("Until I resume");
    state("Paused");
    assert!(panel.find("Until I resume").is_none(), "one wish at a time");
    panel.click("Resume");
    state("Idle");

    let git = |on: bool| {
        wait_until("the switch", || {
            panel
                .find("Git repositories")
                .is_some_and(|git| git.checked == on)
        });
    };
    git(true);
    panel.click("Git repositories");
    git(false);

    panel.click("1 hour");
    state("Paused until ");
    panel.click("Quit");
    assert_eq!(app.wait_for_exit(), Some(0));

    panel.forget();
    let _again = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    state("Paused until ");
    git(false);
}

#[test]
fn quitting_with_a_job_asks_and_stopping_now_leaves_nothing_behind() {
    let Some(desktop) = Desktop::start("quitting_with_a_job_asks_and_stopping_now_leaves_nothing_behind")
    else {
        return;
    };
    let team = TeamHub::start(&desktop);
    team.pair_app(&desktop);
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    let shows = |wanted: &str| {
        wait_until(wanted, || {
            panel.labels().iter().any(|line| line.starts_with(wanted))
        });
    };
    shows("Idle");
    team.submit_sleeper();
    shows("Running: sleepy · 0 min");
    wait_until("the case", || app.runs("sleep"));
    let below = app.everything_below();

    panel.click("Keep running in the tray");
    panel.click("After current job");
    shows("Finishing before quitting");
    assert!(app.is_running() && app.runs("sleep"));
    let stopped = Instant::now();
    panel.click("Stop now");
    assert_eq!(app.wait_for_exit(), Some(0));
    wait_until("the hub to have the lease back", || team.running() == 0);
    assert!(
        stopped.elapsed() < Duration::from_secs(15),
        "{:?}",
        stopped.elapsed()
    );
    let alive: Vec<u32> = below.into_iter().filter(|id| is_alive(*id)).collect();
    assert_eq!(alive, Vec::<u32>::new(), "processes outlive the app");
    assert!(
        desktop.scratch_is_empty(),
        "a stopped case leaves its folder to nobody"
    );
}

#[test]
fn finishing_first_then_pausing_and_keeping_on_without_a_window_are_done_from_the_tray() {
    let test = "finishing_first_then_pausing_and_keeping_on_without_a_window_are_done_from_the_tray";
    let Some(desktop) = Desktop::start(test) else {
        return;
    };
    desktop.pair();
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--show"]);
    panel.wait_for_icon();
    let first = |wanted: &str| {
        wait_until(wanted, || {
            panel
                .labels()
                .first()
                .is_some_and(|line| line.starts_with(wanted))
        });
    };
    first("Idle");
    wait_until("the window", || desktop.shows_window());
    desktop.submit_sleeper();
    first("Running 1 · ");
    wait_until("the case", || app.runs("sleep"));
    panel.click("Keep running in the tray");
    wait_until("the window to go", || !desktop.shows_window());
    assert!(app.is_running() && app.runs("sleep"));
    panel.click("Finish current job, then pause");
    first("Running 1, then paused");
    panel.click("Stop");
    first("Paused");
    panel.click("Quit");
    assert_eq!(app.wait_for_exit(), Some(0));
}

#[test]
fn start_at_login_is_off_until_ticked_and_follows_the_desktop_s_own_settings() {
    let Some(desktop) =
        Desktop::start("start_at_login_is_off_until_ticked_and_follows_the_desktop_s_own_settings")
    else {
        return;
    };
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    let login = |on: bool| {
        wait_until("the switch", || {
            panel
                .find("Start at login")
                .is_some_and(|entry| entry.checked == on)
        });
    };
    login(false);
    assert_eq!(desktop.autostart_entries(), Vec::<std::path::PathBuf>::new());
    panel.click("Start at login");
    login(true);
    let entries = desktop.autostart_entries();
    assert_eq!(entries.len(), 1);
    let text = std::fs::read_to_string(&entries[0]).expect("the entry");
    assert!(text.contains("everdict-desktop\" --hidden"), "{text}");
    panel.click("Quit");
    assert_eq!(app.wait_for_exit(), Some(0));

    // The app has moved, as an update moves it.
    let moved = text.replace("Exec=\"", "Exec=\"/opt/old");
    std::fs::write(&entries[0], moved).expect("the entry");
    panel.forget();
    let _again = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    login(true);
    assert_eq!(desktop.autostart_entries(), entries);
    assert_eq!(std::fs::read_to_string(&entries[0]).expect("the entry"), text);

    // The desktop's settings switch it off in this way.
    std::fs::write(&entries[0], format!("{text}Hidden=true\n")).expect("the entry");
    login(false);
}

#[test]
fn a_hidden_start_maps_no_window() {
    let Some(desktop) = Desktop::start("a_hidden_start_maps_no_window") else {
        return;
    };
    let Some(eye) = desktop.watch_windows("a_hidden_start_maps_no_window") else {
        return;
    };
    let panel = Panel::start(&desktop);
    let _app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    wait_until("the menu", || panel.labels().len() > 2);
    assert_eq!(eye.mapped(), 0, "a window flashed: {}", eye.seen());
    panel.click("Open Everdict Runner");
    wait_until("the window", || desktop.shows_window());
    wait_until("the eye to see it", || eye.mapped() > 0);
}

#[test]
fn a_second_start_by_a_link_hands_it_to_the_first() {
    let Some(desktop) = Desktop::start("a_second_start_by_a_link_hands_it_to_the_first") else {
        return;
    };
    let team = TeamHub::start(&desktop);
    team.pair_app(&desktop);
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    wait_until("the hub", || panel.labels()[0].starts_with("Idle"));

    desktop.run_app_to_end(&["everdict://pair?hub=https%3A%2F%2Fother.example&token=rnr_secret-thing"]);
    wait_until("the window of the first", || desktop.shows_window());
    wait_until("the link", || panel.find("Pair with other.example…").is_some());
    assert!(app.is_running());
    assert!(!desktop.keeps("rnr_secret-thing"), "a link alone stores nothing");
    team.submit_sleeper();
    team.submit_sleeper();
    wait_until("a job", || app.runs("sleep"));
    assert_eq!(team.running(), 1, "one lease loop with one slot");

    // One that can't be used takes the place of the first, and there is nothing to accept.
    desktop.run_app_to_end(&[
        "everdict://pair?hub=https://h.example&token=rnr_x&label=<script>alert(1)</script>",
    ]);
    wait_until("the link to go", || {
        panel.find("Pair with other.example…").is_none()
    });
    assert!(app.is_running() && !desktop.keeps("<script"));
}

#[test]
fn a_first_start_by_a_link_opens_the_window_with_it() {
    let Some(desktop) = Desktop::start("a_first_start_by_a_link_opens_the_window_with_it") else {
        return;
    };
    let panel = Panel::start(&desktop);
    let _app = desktop.start_app(&["everdict://pair?hub=https%3A%2F%2Fteam.example&token=rnr_a"]);
    panel.wait_for_icon();
    wait_until("the window", || desktop.shows_window());
    wait_until("the link", || panel.find("Pair with team.example…").is_some());
}

#[test]
fn a_drained_queue_is_told_once_and_a_desktop_without_notifications_is_marked_in_the_tray() {
    let test = "a_drained_queue_is_told_once_and_a_desktop_without_notifications_is_marked_in_the_tray";
    let Some(desktop) = Desktop::start(test) else {
        return;
    };
    let team = TeamHub::start(&desktop);
    team.pair_app(&desktop);
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    let mark = "Notifications can't be shown here";
    wait_until("the mark", || panel.find(mark).is_some());
    panel.click("Quit");
    assert_eq!(app.wait_for_exit(), Some(0));

    let notices = Notices::start(&desktop);
    panel.forget();
    let _app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    wait_until("the hub", || panel.labels()[0].starts_with("Idle"));
    wait_until("the mark to go", || panel.find(mark).is_none());
    team.submit_quick();
    team.submit_quick();
    wait_until("the notice", || !notices.shown().is_empty());
    let shown = notices.shown();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(shown[0].0, "2 jobs done", "{shown:?}");
}

#[test]
fn without_a_screen_it_ends_with_a_sentence() {
    // No X server can have this number: its port would be beyond the last one.
    for vars in [&[][..], &[("DISPLAY", ":60000")]] {
        let output = support::app_with_only(vars);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{message}");
        let ours = message
            .lines()
            .filter(|line| line.starts_with("everdict-desktop: "))
            .count();
        assert_eq!(ours, 1, "{message}");
        assert!(message.contains("DISPLAY"), "{message}");
        assert!(!message.contains("panicked"), "{message}");
    }
}
