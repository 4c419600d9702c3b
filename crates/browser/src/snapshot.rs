//! What the page that matters looks like now.

use std::time::Duration;

use everdict_contracts::{BrowserSnapshot, ErrorCode, Fault};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::endpoint::{CdpEndpoint, Target};
use crate::error::CdpError;
use crate::page::{Found, Page, find_page};
use crate::text::clip;

/// How much a snapshot may hold and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotLimits {
    /// Most UTF-16 code units of DOM; what is beyond is cut off in the browser and never sent.
    pub dom_units: usize,
    /// Most bytes of the picture in base64; a larger one is left out.
    pub screenshot_bytes: usize,
    /// Most console lines, the last ones.
    pub console_lines: usize,
    /// Time for all of it.
    pub total: Duration,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self {
            // Larger pages are generated noise, and the whole result has to pass the hub.
            dom_units: 2 * 1024 * 1024,
            // The protocol's own limit for a frame.
            screenshot_bytes: 12_000_000,
            // Enough to see what went wrong, small beside the DOM.
            console_lines: 500,
            // Ten seconds for a slow page's DOM and ten for its picture; more means that the page hangs.
            total: Duration::from_secs(25),
        }
    }
}

/// A snapshot, and which parts of it a living browser failed to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// The page; `about:blank` with an empty DOM when no page is open.
    pub snapshot: BrowserSnapshot,
    /// One sentence per missing part, to be shown beside the scores; empty when all is there.
    pub missing: Vec<String>,
}

/// A part may take this long.
const PART_LIMIT: Duration = Duration::from_secs(10);

/// Runs in a world of its own, where the page's scripts can't have replaced what it uses.
const READ_DOM: &str = "(() => { const html = document.documentElement ? document.documentElement.outerHTML : ''; \
     return { url: location.href, length: html.length, html: html.slice(0, LIMIT) }; })()";

#[derive(Deserialize)]
struct Dom {
    url: String,
    length: usize,
    html: String,
}

/// Takes a snapshot of the page that matters: URL, DOM, picture, and the console lines handed in.
///
/// `screenshot` is there only when a picture was really taken; no reference is made up.
///
/// # Errors
/// `DRIVER_SNAPSHOT_FAILED` when the browser doesn't answer, before or during the snapshot: a dead browser is not an
/// empty page. A living browser whose page is stuck yields what there is.
pub async fn snapshot(
    endpoint: &CdpEndpoint,
    limits: &SnapshotLimits,
    console: Vec<String>,
) -> Result<Capture, Fault> {
    let end = Instant::now() + limits.total;
    let failed = |error: CdpError| {
        Fault::new(ErrorCode::DriverSnapshotFailed, "the browser gave no snapshot").caused_by(error)
    };
    let taken = tokio::time::timeout_at(end, take(endpoint, limits, end)).await;
    let mut capture = taken
        .unwrap_or(Err(CdpError::TimedOut {
            what: "snapshot".to_owned(),
            limit: limits.total,
        }))
        .map_err(failed)?;
    let from = console.len().saturating_sub(limits.console_lines);
    capture.snapshot.console = console.into_iter().skip(from).collect();
    Ok(capture)
}

async fn take(endpoint: &CdpEndpoint, limits: &SnapshotLimits, end: Instant) -> Result<Capture, CdpError> {
    let mut page = match find_page(endpoint).await? {
        Found {
            page: Some(page),
            stuck: None,
        } => page,
        Found { stuck, .. } => return Ok(without_page(stuck)),
    };
    let mut snapshot = BrowserSnapshot {
        url: page.target().url.clone(),
        ..BrowserSnapshot::default()
    };
    let mut missing = Vec::new();
    // The answers must come before `end`, or the parts that did come are lost with it.
    let part = |parts: u32| PART_LIMIT.min(end.saturating_duration_since(Instant::now()) * 4 / 5 / parts);
    match read_dom(&mut page, limits.dom_units, part(2)).await {
        Ok(dom) => {
            if !dom.url.starts_with("chrome-error:") {
                snapshot.url = dom.url;
            }
            snapshot.dom = dom.html;
            if dom.length > limits.dom_units {
                let kept = limits.dom_units;
                snapshot.dom.push_str(&format!(
                    "\n<!-- everdict: cut after {kept} of {} characters -->",
                    dom.length
                ));
            }
        }
        Err(error) => missing.push(part_missing(endpoint, "the DOM", &error).await?),
    }
    match picture(&mut page, limits.screenshot_bytes, part(1)).await {
        Ok(picture) => snapshot.screenshot = Some(picture),
        Err(error) => missing.push(part_missing(endpoint, "the picture", &error).await?),
    }
    Ok(Capture { snapshot, missing })
}

/// What can be said without a page that answers: where the one that matters is stuck. A lesser page that does answer is
/// not taken in its place, since it would be graded as what the run left behind.
fn without_page(stuck: Option<Target>) -> Capture {
    let (url, missing) = match stuck {
        Some(stuck) => (
            stuck.url,
            "the page doesn't answer: its DOM and picture are missing",
        ),
        None => ("about:blank".to_owned(), "no page is open"),
    };
    let snapshot = BrowserSnapshot {
        url,
        ..BrowserSnapshot::default()
    };
    Capture {
        snapshot,
        missing: vec![missing.to_owned()],
    }
}

/// Words a missing part, unless the whole browser is gone.
async fn part_missing(endpoint: &CdpEndpoint, part: &str, error: &CdpError) -> Result<String, CdpError> {
    if matches!(
        error,
        CdpError::Broken(_) | CdpError::Closed | CdpError::TimedOut { .. }
    ) {
        endpoint.version().await?;
    }
    Ok(clip(&format!("{part} of the page is missing: {error}"), 500))
}

async fn read_dom(page: &mut Page, units: usize, limit: Duration) -> Result<Dom, CdpError> {
    let first = read_dom_once(page, units, limit).await;
    // A navigation takes the world away in between; the next one is there at once.
    match first {
        Err(CdpError::Refused { .. }) => read_dom_once(page, units, limit).await,
        other => other,
    }
}

async fn read_dom_once(page: &mut Page, units: usize, limit: Duration) -> Result<Dom, CdpError> {
    let frame = page.main_frame().to_owned();
    let params = json!({ "frameId": frame, "worldName": "everdict" });
    let world = page.call("Page.createIsolatedWorld", params, limit).await?;
    let expression = READ_DOM.replace("LIMIT", &units.to_string());
    let params = json!({
        "expression": expression,
        "contextId": world.get("executionContextId").cloned().unwrap_or(Value::Null),
        "returnByValue": true,
    });
    let answer = page.call("Runtime.evaluate", params, limit).await?;
    let garbled = |why: String| CdpError::Garbled {
        what: "Runtime.evaluate".to_owned(),
        why,
    };
    if let Some(details) = answer.get("exceptionDetails") {
        return Err(garbled(clip(&details.to_string(), 200)));
    }
    let value = answer.pointer("/result/value").cloned().unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|error| garbled(error.to_string()))
}

async fn picture(page: &mut Page, most: usize, limit: Duration) -> Result<String, CdpError> {
    let what = "Page.captureScreenshot";
    let mut answer = page.call(what, json!({ "format": "png" }), limit).await?;
    match answer.get_mut("data").map(Value::take) {
        Some(Value::String(data)) if data.len() > most => Err(CdpError::TooLarge {
            what: what.to_owned(),
            limit: most,
        }),
        Some(Value::String(data)) if !data.is_empty() => Ok(data),
        _ => Err(CdpError::Garbled {
            what: what.to_owned(),
            why: "it holds no picture".to_owned(),
        }),
    }
}
