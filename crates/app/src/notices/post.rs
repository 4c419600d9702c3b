//! Hands a notification to whatever shows them on this desktop.

use notify_rust::Notification;

use crate::control::NoticesState;

/// The desktop files notifications by this, and shows the icon of that name.
const APP_NAME: &str = "Everdict Runner";
const ICON: &str = "everdict-desktop";

/// More than this is cut off by every desktop.
const MAX_CHARS: usize = 300;

/// What became of a notification.
pub type Posted = NoticesState;

/// The way to the desktop's notifications.
#[derive(Debug, Clone, Copy, Default)]
pub struct Post;

impl Post {
    /// Asks, without showing anything, whether something shows notifications here.
    pub async fn ask(self) -> NoticesState {
        #[cfg(target_os = "linux")]
        {
            let asked = tokio::task::spawn_blocking(notify_rust::get_server_information).await;
            match asked {
                Ok(Ok(_server)) => NoticesState::Ok,
                Ok(Err(error)) => judge(&error),
                Err(_) => NoticesState::Unavailable,
            }
        }
        // Elsewhere the system has one; whether it lets ours through shows with the first.
        #[cfg(not(target_os = "linux"))]
        NoticesState::Ok
    }

    /// Shows a notification; says what became of it.
    pub async fn show(self, title: &str, body: &str) -> Posted {
        let mut notification = Notification::new();
        notification
            .appname(APP_NAME)
            .icon(ICON)
            .summary(&plain(title))
            .body(&plain(body));
        // The library's blocking call brings a runtime of its own, which can't run inside another.
        let shown = tokio::task::spawn_blocking(move || notification.show().map(drop)).await;
        match shown {
            Ok(Ok(())) => NoticesState::Ok,
            Ok(Err(error)) => judge(&error),
            Err(_) => NoticesState::Unavailable,
        }
    }
}

/// Some desktops read mark-up in a body: what comes from a hub must not be any.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '<' | '>' | '&') && !c.is_control())
        .take(MAX_CHARS)
        .collect()
}

/// A desktop that says no, and one where nobody listens, are two things to the person.
fn judge(error: &notify_rust::error::Error) -> NoticesState {
    let text = error.to_string();
    tracing::debug!(%text, "a notification was not shown");
    let denied = ["AccessDenied", "AuthFailed", "NotAllowed"];
    if denied.iter().any(|word| text.contains(word)) {
        NoticesState::Denied
    } else {
        NoticesState::Unavailable
    }
}
