//! The window: made when someone asks for it, dropped with its web view when it is closed.

use std::fmt::Write as _;

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Manager as _, Url, WebviewUrl, WebviewWindowBuilder, WindowEvent};

use crate::blank;
use crate::shell::Desktop;

const LABEL: &str = "main";

/// Opens the window, or brings the open one to the front.
///
/// # Errors
/// The system's reason why it can't.
pub fn open(app: &AppHandle) -> tauri::Result<()> {
    open_at(app, None)
}

/// Opens the window at a place of its page; without one an open window stays where it is.
fn open_at(app: &AppHandle, place: Option<&str>) -> tauri::Result<()> {
    if let Some(window) = app.get_webview_window(LABEL) {
        if place.is_some() {
            // Only the fragment changes, so the page is not loaded anew.
            let mut page = window.url()?;
            page.set_fragment(place);
            window.navigate(page)?;
        }
        window.unminimize()?;
        window.show()?;
        return window.set_focus();
    }
    let page = place.map_or_else(|| "index.html".to_owned(), |place| format!("index.html#{place}"));
    WebviewWindowBuilder::new(app, LABEL, WebviewUrl::App(page.into()))
        .title("Everdict Runner")
        .inner_size(1080.0, 720.0)
        .min_inner_size(720.0, 480.0)
        // The page has no remote content: a link or a script that leads elsewhere leads nowhere.
        .on_navigation(is_own_page)
        .on_new_window(|_url, _features| NewWindowResponse::Deny)
        // The copy buttons of the page.
        .enable_clipboard_access()
        .build()?;
    blank::watch(app);
    Ok(())
}

/// Ends what served a window that is gone.
pub fn on_event(window: &tauri::Window, event: &WindowEvent) {
    if !matches!(event, WindowEvent::Destroyed) {
        return;
    }
    let desktop = window.state::<Desktop>();
    desktop.subscriptions().stop_all();
    #[cfg(target_os = "linux")]
    desktop.spawn(crate::web_view::give_back(window.app_handle().clone()));
}

/// Tells whether there is a window.
pub fn is_open(app: &AppHandle) -> bool {
    app.get_webview_window(LABEL).is_some()
}

/// Closes the window, if there is one; the app goes on without it.
pub fn close(app: &AppHandle) {
    if let Some(window) = app.get_webview_window(LABEL)
        && let Err(error) = window.close()
    {
        tracing::warn!(%error, "can't close the window");
    }
}

/// Opens the window; a failure goes to standard error, since there is no window to show it in.
pub fn open_or_report(app: &AppHandle) {
    if let Err(error) = open(app) {
        tracing::warn!(%error, "can't open the window");
    }
}

/// Opens the window on the log of a job.
pub fn open_at_job(app: &AppHandle, job: &str) {
    if let Err(error) = open_at(app, Some(&format!("/jobs/{}", escaped(job)))) {
        tracing::warn!(%error, "can't open the window");
    }
}

/// The text as one part of an address.
fn escaped(text: &str) -> String {
    let mut part = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            part.push(char::from(byte));
        } else {
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}

fn is_own_page(url: &Url) -> bool {
    // Windows web views have no custom schemes, so Tauri serves the page from a reserved host name there.
    url.scheme() == "tauri" || url.host_str() == Some("tauri.localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_s_id_can_t_leave_its_place_in_the_address() {
        assert_eq!(escaped("job-1_a.b"), "job-1_a.b");
        assert_eq!(escaped("../x#y?ü"), "..%2Fx%23y%3F%C3%BC");
    }

    #[test]
    fn the_window_stays_on_its_own_page() {
        for own in [
            "tauri://localhost/index.html",
            "http://tauri.localhost/index.html",
        ] {
            assert!(is_own_page(&own.parse().unwrap()), "{own}");
        }
        for foreign in [
            "https://example.com/",
            "file:///etc/passwd",
            "data:text/html,x",
            "http://localhost/",
        ] {
            assert!(!is_own_page(&foreign.parse().unwrap()), "{foreign}");
        }
    }
}
