//! The built app on a private desktop: what a person sees in the tray and on the screen, and what must not run.
#![cfg(target_os = "linux")]

mod support;

use support::{Desktop, Panel, wait_until};

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
                "",
                "Open Everdict Runner",
                "Pair this machine…",
                "",
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
    desktop.pair();
    let panel = Panel::start(&desktop);
    let mut app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    let shows = |wanted: &str| {
        wait_until(wanted, || {
            panel.labels().iter().any(|line| line.starts_with(wanted))
        });
    };
    shows("Idle");
    desktop.submit_sleeper();
    shows("Running: sleepy · 0 min");
    wait_until("the case", || app.runs("sleep"));
    panel.click("After current job");
    shows("Finishing before quitting");
    assert!(app.is_running());
    panel.click("Stop now");
    assert_eq!(app.wait_for_exit(), Some(0));
    assert!(
        desktop.scratch_is_empty(),
        "a stopped case leaves its folder to nobody"
    );
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
