//! The client against a real Chromium.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "chromium/recording.rs"]
mod recording;
#[path = "chromium/support.rs"]
mod support;

use std::time::Duration;

use base64::Engine as _;
use everdict_browser::{
    Cookie, Page, Recorder, RecorderOptions, SnapshotLimits, StorageState, ensure_live_page, live_page,
    read_cookies, seed_cookies, snapshot,
};
use everdict_contracts::{ErrorCode, FailureClass, SecretText};
use serde_json::json;
use support::{Chromium, SOON, Seen, Site};
use tokio::time::{Instant, sleep};

/// Opens a page and waits until it is loaded.
pub async fn open(browser: &Chromium, url: &str) -> String {
    let target = browser.endpoint.new_page(url).await.unwrap();
    let end = Instant::now() + SOON;
    loop {
        // On a machine under load a page that loads may be slower than the probe of a closed one.
        if let Ok(mut page) = Page::connect(&browser.endpoint, &target).await {
            let expression =
                json!({ "expression": "document.readyState + ' ' + location.href", "returnByValue": true });
            let answer = page.call("Runtime.evaluate", expression, SOON).await.unwrap();
            if answer.pointer("/result/value") == Some(&json!(format!("complete {url}"))) {
                return target.id;
            }
        }
        assert!(Instant::now() < end, "{url} never loaded");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn snapshot_is_of_the_page_that_matters() {
    let Some(browser) = Chromium::start("snapshot_is_of_the_page_that_matters").await else {
        return;
    };
    let site = Site::start().await;
    open(&browser, &site.url("/plain")).await;
    // Listed before the page that matters, being younger.
    browser.endpoint.new_page("about:blank").await.unwrap();
    let console = vec!["[log] kept".to_owned()];
    let capture = snapshot(&browser.endpoint, &SnapshotLimits::default(), console)
        .await
        .unwrap();
    assert_eq!(capture.missing, Vec::<String>::new());
    let seen = capture.snapshot;
    assert_eq!(seen.url, site.url("/plain"));
    assert!(seen.dom.contains("<p id=\"plain\">plain</p>"), "{}", seen.dom);
    assert_eq!(seen.console, ["[log] kept"]);
    assert_eq!(seen.screenshot_ref, None);
    let png = base64::engine::general_purpose::STANDARD
        .decode(seen.screenshot.unwrap())
        .unwrap();
    assert!(png.starts_with(b"\x89PNG"), "{:?}", &png[..8]);
}

#[tokio::test]
async fn a_page_cannot_forge_its_dom() {
    let Some(browser) = Chromium::start("a_page_cannot_forge_its_dom").await else {
        return;
    };
    let site = Site::start().await;
    open(&browser, &site.url("/forged")).await;
    let capture = snapshot(&browser.endpoint, &SnapshotLimits::default(), Vec::new())
        .await
        .unwrap();
    assert!(
        capture.snapshot.dom.contains("id=\"truth\""),
        "{}",
        capture.snapshot.dom
    );
    assert!(
        !capture.snapshot.dom.starts_with("<p>forged"),
        "{}",
        capture.snapshot.dom
    );
}

#[tokio::test]
async fn a_stuck_page_keeps_its_url_and_says_what_is_missing() {
    let name = "a_stuck_page_keeps_its_url_and_says_what_is_missing";
    let Some(browser) = Chromium::start(name).await else {
        return;
    };
    let site = Site::start().await;
    open(&browser, &site.url("/plain")).await;
    let mut page = live_page(&browser.endpoint).await.unwrap();
    let hang = json!({ "expression": "setTimeout(() => { for (;;) {} }, 0)" });
    page.call("Runtime.evaluate", hang, SOON).await.unwrap();
    let begun = Instant::now();
    let capture = snapshot(&browser.endpoint, &SnapshotLimits::default(), Vec::new())
        .await
        .unwrap();
    assert!(
        begun.elapsed() < SnapshotLimits::default().total,
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(capture.snapshot.url, site.url("/plain"));
    assert_eq!(
        (capture.snapshot.dom.as_str(), &capture.snapshot.screenshot),
        ("", &None)
    );
    assert_eq!(
        capture.missing,
        ["the page doesn't answer: its DOM and picture are missing"]
    );
}

#[tokio::test]
async fn huge_dom_is_cut_and_says_so() {
    let Some(browser) = Chromium::start("huge_dom_is_cut_and_says_so").await else {
        return;
    };
    let site = Site::start().await;
    open(&browser, &site.url("/huge")).await;
    let limits = SnapshotLimits {
        dom_units: 10_000,
        ..SnapshotLimits::default()
    };
    let dom = snapshot(&browser.endpoint, &limits, Vec::new())
        .await
        .unwrap()
        .snapshot
        .dom;
    assert!(dom.len() < 10_200, "{}", dom.len());
    assert!(
        dom.contains("everdict: cut after 10000 of 300"),
        "{}",
        &dom[9_900..]
    );
}

#[tokio::test]
async fn closed_tab_is_not_chosen() {
    let Some(browser) = Chromium::start("closed_tab_is_not_chosen").await else {
        return;
    };
    let site = Site::start().await;
    open(&browser, &site.url("/plain")).await;
    for _ in 0..5 {
        let closed = open(&browser, &site.url("/huge")).await;
        browser.endpoint.close(&closed).await.unwrap();
        let mut page = live_page(&browser.endpoint).await.unwrap();
        assert_ne!(page.target().id, closed);
        assert_eq!(page.target().url, site.url("/plain"));
        page.call("Runtime.evaluate", json!({ "expression": "1" }), SOON)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn without_a_page_the_snapshot_says_so_and_a_page_can_be_made() {
    let name = "without_a_page_the_snapshot_says_so_and_a_page_can_be_made";
    let Some(browser) = Chromium::start(name).await else {
        return;
    };
    // The browser ends with its last tab unless something holds it.
    let seen = Seen::new();
    let recorder = Recorder::start(&browser.endpoint, seen, RecorderOptions::default())
        .await
        .unwrap();
    for target in browser.endpoint.list().await.unwrap() {
        browser.endpoint.close(&target.id).await.unwrap();
    }
    let end = Instant::now() + SOON;
    while !browser.endpoint.list().await.unwrap().is_empty() {
        assert!(Instant::now() < end, "the tab stays");
        sleep(Duration::from_millis(20)).await;
    }
    let capture = snapshot(&browser.endpoint, &SnapshotLimits::default(), Vec::new())
        .await
        .unwrap();
    assert_eq!(capture.snapshot.url, "about:blank");
    assert_eq!(
        (capture.snapshot.dom.as_str(), capture.snapshot.screenshot),
        ("", None)
    );
    assert_eq!(capture.missing, ["no page is open"]);
    let page = ensure_live_page(&browser.endpoint).await.unwrap();
    assert_eq!(page.target().url, "about:blank");
    recorder.stop().await;
}

#[tokio::test]
async fn cookies_move_from_browser_to_browser() {
    let Some(browser) = Chromium::start("cookies_move_from_browser_to_browser").await else {
        return;
    };
    let cookie = |name: &str, domain: &str, expires| Cookie {
        name: name.to_owned(),
        value: SecretText::new("made-up"),
        domain: domain.to_owned(),
        path: "/".to_owned(),
        expires,
        http_only: Some(true),
        secure: Some(true),
        same_site: Some("Lax".to_owned()),
    };
    let seed = StorageState {
        cookies: vec![
            cookie("session", ".shop.test", None),
            cookie("long", "www.shop.test", Some(4_000_000_000.0)),
            cookie("longer", "shop.test", Some(4_100_000_000.0)),
        ],
    };
    seed_cookies(&browser.endpoint, &StorageState::default())
        .await
        .unwrap();
    seed_cookies(&browser.endpoint, &seed).await.unwrap();
    let state = read_cookies(&browser.endpoint).await.unwrap();
    assert_eq!(state.cookies.len(), 3);
    assert!(!format!("{state:?}").contains("made-up"));
    assert_eq!(
        state.domains().into_iter().collect::<Vec<_>>(),
        ["shop.test", "www.shop.test"]
    );
    let session = state
        .cookies
        .iter()
        .find(|cookie| cookie.name == "session")
        .unwrap();
    assert_eq!((session.expires, session.value.expose()), (None, "made-up"));
    assert!(state.expiry().is_some_and(|expiry| expiry > 1.7e9));
}

#[tokio::test]
async fn a_browser_that_dies_is_a_fault_not_an_empty_page() {
    let Some(mut browser) = Chromium::start("a_browser_that_dies_is_a_fault_not_an_empty_page").await else {
        return;
    };
    let recorder = Recorder::start(&browser.endpoint, Seen::new(), RecorderOptions::default())
        .await
        .unwrap();
    browser.kill().await;
    let begun = Instant::now();
    let fault = snapshot(&browser.endpoint, &SnapshotLimits::default(), Vec::new())
        .await
        .unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(fault.code, ErrorCode::DriverSnapshotFailed);
    let failure = fault.failure();
    assert!(
        failure.class == FailureClass::Infra && failure.retryable,
        "{failure:?}"
    );
    recorder.stop().await;
}
