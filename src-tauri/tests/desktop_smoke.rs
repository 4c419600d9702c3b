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
        panel.labels() == ["Not paired", "", "Open Everdict Runner", "Quit"]
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
fn a_pairing_made_on_the_command_line_shows_in_the_tray() {
    let Some(desktop) = Desktop::start("a_pairing_made_on_the_command_line_shows_in_the_tray") else {
        return;
    };
    let panel = Panel::start(&desktop);
    let _app = desktop.start_app(&["--hidden"]);
    panel.wait_for_icon();
    wait_until("the menu", || {
        panel.labels().first().is_some_and(|line| line == "Not paired")
    });
    desktop.record_pairing();
    wait_until("the new state", || panel.labels()[0] == "Paired: 1");
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
