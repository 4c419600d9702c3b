//! The client against a real Chromium.

#[path = "chromium/support.rs"]
mod support;

use std::time::Duration;

use base64::Engine as _;
use everdict_browser::{
    Cookie, Recorder, RecorderOptions, SnapshotLimits, StorageState, ensure_live_page, live_page,
    read_cookies, seed_cookies, snapshot,
};
use everdict_contracts::{ErrorCode, FailureClass, SecretText, TrackEntry};
use serde_json::json;
use support::{Chromium, SOON, Seen, Site, until};
use tokio::time::{Instant, sleep};

/// Opens a page and waits until it is loaded.
async fn open(browser: &Chromium, url: &str) -> String {
    let target = browser.endpoint.new_page(url).await.unwrap();
    let end = Instant::now() + SOON;
    loop {
        let mut page = everdict_browser::Page::connect(&browser.endpoint, &target)
            .await
            .unwrap();
        let expression =
            json!({ "expression": "document.readyState + ' ' + location.href", "returnByValue": true });
        let answer = page.call("Runtime.evaluate", expression, SOON).await.unwrap();
        if answer.pointer("/result/value") == Some(&json!(format!("complete {url}"))) {
            return target.id;
        }
        assert!(Instant::now() < end, "{url} never loaded: {answer}");
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
        // Whatever is chosen answers; the closed one may still have answered while it was on its way out.
        if page.target().id != closed {
            assert_eq!(page.target().url, site.url("/plain"));
            page.call("Runtime.evaluate", json!({ "expression": "1" }), SOON)
                .await
                .unwrap();
        }
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
