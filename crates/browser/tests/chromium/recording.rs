//! Recordings of a real Chromium.

use std::time::Duration;

use base64::Engine as _;
use everdict_browser::{Recorder, RecorderOptions, live_page};
use everdict_contracts::TrackEntry;
use serde_json::json;

use crate::open;
use crate::support::{Chromium, SOON, Seen, Site, until};

#[tokio::test]
async fn console_and_network_are_recorded() {
    let Some(browser) = Chromium::start("console_and_network_are_recorded").await else {
        return;
    };
    let site = Site::start().await;
    let seen = Seen::new();
    let recorder = Recorder::start(&browser.endpoint, seen.clone(), RecorderOptions::default())
        .await
        .unwrap();
    // In a tab that was there before, so nothing but the start has to be quick enough.
    let mut page = live_page(&browser.endpoint).await.unwrap();
    page.call("Page.navigate", json!({ "url": site.url("/") }), SOON)
        .await
        .unwrap();

    seen.wait_for_url(&site.url("/")).await;
    assert_eq!(seen.wait_for_line("log", "hello").await, "hello 42 Object");
    seen.wait_for_line("warning", "careful").await;
    assert!(
        seen.wait_for_line("error", "broken on purpose")
            .await
            .starts_with("Error: broken")
    );
    for (path, status) in [("/", 200.0), ("/data", 200.0), ("/missing", 404.0)] {
        let url = site.url(path);
        let entry = seen
            .wait(&url, |entry| match entry {
                TrackEntry::Network(request) if request.url == url => Some(request.clone()),
                _ => None,
            })
            .await;
        assert_eq!(
            (entry.method.as_str(), entry.status),
            ("GET", Some(status)),
            "{url}"
        );
        assert!(
            entry.ms.is_some_and(|ms| ms < 20_000.0) && entry.t > 1.6e12,
            "{entry:?}"
        );
    }
    let frame = until(SOON, "a picture", || seen.frames.lock().unwrap().first().cloned()).await;
    assert!(
        base64::engine::general_purpose::STANDARD
            .decode(frame)
            .unwrap()
            .starts_with(b"\x89PNG")
    );

    let lines = recorder.stop().await;
    assert!(lines.contains(&"[log] hello 42 Object".to_owned()), "{lines:?}");
}

#[tokio::test]
async fn redirects_are_recorded_hop_by_hop() {
    let Some(browser) = Chromium::start("redirects_are_recorded_hop_by_hop").await else {
        return;
    };
    let site = Site::start().await;
    let seen = Seen::new();
    let recorder = Recorder::start(&browser.endpoint, seen.clone(), RecorderOptions::default())
        .await
        .unwrap();
    let mut page = live_page(&browser.endpoint).await.unwrap();
    page.call("Page.navigate", json!({ "url": site.url("/moved") }), SOON)
        .await
        .unwrap();
    seen.wait_for_url(&site.url("/plain")).await;
    let status = |path: &str| {
        let url = site.url(path);
        let seen = seen.clone();
        async move {
            seen.wait(&url, |entry| match entry {
                TrackEntry::Network(request) if request.url == url => Some(request.status),
                _ => None,
            })
            .await
        }
    };
    assert_eq!(status("/moved").await, Some(307.0));
    assert_eq!(status("/plain").await, Some(200.0));
    recorder.stop().await;
}

#[tokio::test]
async fn new_tab_is_recorded() {
    let Some(browser) = Chromium::start("new_tab_is_recorded").await else {
        return;
    };
    let site = Site::start().await;
    let seen = Seen::new();
    let recorder = Recorder::start(&browser.endpoint, seen.clone(), RecorderOptions::default())
        .await
        .unwrap();
    // One that the client opens, and one that this one opens.
    browser.endpoint.new_page(&site.url("/opener")).await.unwrap();
    seen.wait_for_url(&site.url("/opener")).await;
    seen.wait_for_url(&site.url("/second")).await;
    seen.wait_for_line("info", "from the second tab").await;
    let second = site.url("/second");
    seen.wait("the second tab's own request", |entry| match entry {
        TrackEntry::Network(request) if request.url == second && request.status == Some(200.0) => Some(()),
        _ => None,
    })
    .await;
    recorder.stop().await;
    let lines = seen.entries.lock().unwrap();
    let twice = lines
        .iter()
        .filter(|entry| matches!(entry, TrackEntry::Console(line) if line.text == "from the second tab"));
    assert_eq!(twice.count(), 1, "one page, one recording");
}

#[tokio::test]
async fn a_watched_page_is_not_held_up_by_a_dialog() {
    let Some(browser) = Chromium::start("a_watched_page_is_not_held_up_by_a_dialog").await else {
        return;
    };
    let site = Site::start().await;
    let seen = Seen::new();
    let options = RecorderOptions {
        dialog_grace: Duration::from_millis(50),
        ..RecorderOptions::default()
    };
    let recorder = Recorder::start(&browser.endpoint, seen.clone(), options)
        .await
        .unwrap();
    browser.endpoint.new_page(&site.url("/asks")).await.unwrap();
    assert_eq!(seen.wait_for_line("log", "answer").await, "answer false");
    recorder.stop().await;
}

#[tokio::test]
async fn a_dropped_recorder_leaves_new_tabs_running() {
    let Some(browser) = Chromium::start("a_dropped_recorder_leaves_new_tabs_running").await else {
        return;
    };
    let site = Site::start().await;
    let recorder = Recorder::start(&browser.endpoint, Seen::new(), RecorderOptions::default())
        .await
        .unwrap();
    drop(recorder);
    open(&browser, &site.url("/plain")).await;
}
