//! The window: made when someone asks for it, dropped with its web view when it is closed.

use tauri::webview::NewWindowResponse;
use tauri::{AppHandle, Manager as _, Url, WebviewUrl, WebviewWindowBuilder};

const LABEL: &str = "main";

/// Opens the window, or brings the open one to the front.
///
/// # Errors
/// The system's reason why it can't.
pub fn open(app: &AppHandle) -> tauri::Result<()> {
    if let Some(window) = app.get_webview_window(LABEL) {
        window.unminimize()?;
        window.show()?;
        return window.set_focus();
    }
    WebviewWindowBuilder::new(app, LABEL, WebviewUrl::App("index.html".into()))
        .title("Everdict Runner")
        .inner_size(1080.0, 720.0)
        .min_inner_size(720.0, 480.0)
        // The page has no remote content: a link or a script that leads elsewhere leads nowhere.
        .on_navigation(is_own_page)
        .on_new_window(|_url, _features| NewWindowResponse::Deny)
        // The copy buttons of the page.
        .enable_clipboard_access()
        .build()?;
    Ok(())
}

/// Opens the window; a failure goes to standard error, since there is no window to show it in.
pub fn open_or_report(app: &AppHandle) {
    if let Err(error) = open(app) {
        eprintln!("everdict-desktop: can't open the window: {error}");
    }
}

fn is_own_page(url: &Url) -> bool {
    // Windows web views have no custom schemes, so Tauri serves the page from a reserved host name there.
    url.scheme() == "tauri" || url.host_str() == Some("tauri.localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

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
