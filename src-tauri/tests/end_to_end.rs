//! The main job of the desktop app, on a real window, a real keyring and a real tray: from a fresh profile to the last trace.
#![cfg(target_os = "linux")]

mod support;

use everdict_app::Paths;
use support::{Desktop, Keyring, Notifications, Page, Panel, TeamHub, wait_until};

const TEST: &str = "one_click_pairs_a_case_is_watched_live_and_unpairing_leaves_nothing";

#[test]
fn one_click_pairs_a_case_is_watched_live_and_unpairing_leaves_nothing() {
    let Some(mut desktop) = Desktop::start_with(TEST, &["WebKitWebDriver", "gnome-keyring-daemon"]) else {
        return;
    };
    let keyring = Keyring::start(&mut desktop);
    let panel = Panel::start(&desktop);
    let notes = Notifications::start(&desktop);
    desktop.write_settings();
    assert_eq!(keyring.secrets(), Vec::<String>::new(), "a fresh profile");
    let page = Page::open(&mut desktop);
    let tray = |wanted: &str| {
        wait_until(&format!("the tray to say {wanted}"), || {
            panel.labels().iter().any(|line| line.starts_with(wanted))
        });
    };

    // One click pairs, and the token goes into the keyring.
    page.shows("Set up this machine");
    panel.wait_for_icon();
    tray("Not paired");
    page.picture("1-first-window");
    page.press("Use this computer");
    page.shows("This machine is paired");
    tray("Idle · 127.0.0.1:");
    page.picture("2-paired");
    let token = keyring.secret("rnr_").expect("the runner's token");
    let key = keyring.secret("ak_").expect("the hub's key");

    // A case runs, and its log is there line by line while it does.
    page.press("Go to overview");
    let gate = desktop.folder().join("gate");
    let command = format!(
        "echo before the gate; while [ ! -e '{}' ]; do sleep 0.1; done; echo the answer is 42",
        gate.display()
    );
    desktop.submit(&key, &command);
    tray("Running: gated");
    page.press_at("//nav//a[contains(., 'Jobs')]");
    page.press_at("//table//a[normalize-space(.)='gated']");
    page.shows_at("//section[@aria-label='Log']", "before the gate");
    page.shows_at("//h1/following-sibling::span", "Running");
    let early = page.text("//section[@aria-label='Log']").unwrap_or_default();
    assert!(!early.contains("the answer is 42"), "the log is live: {early}");
    page.picture("3-live-log");
    std::fs::write(&gate, "").expect("the gate opens");
    page.shows_at("//section[@aria-label='Log']", "the answer is 42");
    page.shows_at("//h1/following-sibling::span", "Passed");
    page.picture("4-verdict");
    tray("Idle");
    wait_until("a notification", || {
        notes.seen().iter().any(|note| note.body.contains("1 passed"))
    });

    // Tokens are in the keyring and nowhere else.
    for secret in [&token, &key] {
        assert_eq!(desktop.files_with(secret), Vec::<String>::new());
    }

    // Unpairing takes back what pairing made.
    page.press_at("//nav//a[contains(., 'Overview')]");
    page.press_at("//article//button[normalize-space(.)='Unpair']");
    page.press_at("//dialog//button[normalize-space(.)='Unpair']");
    page.shows("Set up this machine");
    tray("Not paired");
    wait_until("the keyring to be empty", || keyring.secrets().is_empty());
    assert_eq!(desktop.files_with(&token), Vec::<String>::new());
    page.picture("5-unpaired");
    page.close();
}

const ANSWERED: &str = "a_setting_is_changed_and_a_first_job_allowed_in_the_window";

#[test]
fn a_setting_is_changed_and_a_first_job_allowed_in_the_window() {
    let Some(mut desktop) = Desktop::start_with(ANSWERED, &["WebKitWebDriver"]) else {
        return;
    };
    let team = TeamHub::start(&desktop);
    team.pair_app(&desktop);
    let paths = Paths::under(&desktop.everdict_home());
    let settings = || std::fs::read_to_string(paths.settings_file()).unwrap_or_default();
    assert!(
        settings().contains("ask = \"always\""),
        "no question before a job"
    );
    let page = Page::open(&mut desktop);

    // What is chosen in the window is in the person's file, and the rest of it as it was.
    page.press_at("//nav//a[contains(., 'Settings')]");
    page.press_at("//select[option[@value='always']]/option[@value='ask']");
    wait_until("the setting to be kept", || {
        let text = settings();
        !text.contains("ask = \"always\"") && text.contains("endpoint = \"unix:///nonexistent")
    });
    page.picture("6-setting");

    // It counts at once: the first job of the team waits for an answer, and runs by it.
    team.submit_quick();
    page.press_at("//nav//a[contains(., 'Overview')]");
    page.shows("quick@1");
    page.picture("7-asked");
    page.press("Always allow");
    let consents = paths.state_dir().join("consents.json");
    wait_until("the answer to be kept", || {
        std::fs::read_to_string(&consents).is_ok_and(|text| text.contains("always"))
    });
    page.press_at("//nav//a[contains(., 'Jobs')]");
    page.shows_at("//table//tr[contains(., 'quick@1')]", "sleepy");
    wait_until("the job to be over", || team.running() == 0 && team.ended() == 1);
    page.close();
}
