//! Notices a window that stays blank: its page never says that it has shown a picture.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everdict_app::rendering::Renderer;
use tauri::{AppHandle, Manager as _};

use crate::shell::Desktop;

/// A page paints within a second or two of its window; a person waits this long before giving up on it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Counts windows, so that a picture of one doesn't speak for the next.
#[derive(Default)]
pub struct BlankWatch {
    renderer: Option<Renderer>,
    opened: AtomicU64,
    painted: AtomicU64,
    marked: AtomicU64,
}

impl BlankWatch {
    pub fn new(renderer: Option<Renderer>) -> Self {
        Self {
            renderer,
            ..Self::default()
        }
    }

    /// The page of the window that is open has shown a picture.
    pub fn painted(&self) {
        let window = self.opened.load(Ordering::Relaxed);
        self.painted.fetch_max(window, Ordering::Relaxed);
        if self.marked.load(Ordering::Relaxed) == window
            && let Some(renderer) = self.renderer.as_ref().filter(|_| window > 0)
        {
            renderer.painted_after_all();
        }
    }

    fn over(&self, window: u64) {
        let blank = self.painted.load(Ordering::Relaxed) < window;
        if let Some(renderer) = self.renderer.as_ref().filter(|_| blank) {
            self.marked.store(window, Ordering::Relaxed);
            tracing::warn!("the window shows nothing; the next start draws it in a slower way");
            renderer.stayed_blank();
        }
    }
}

/// Watches over the window that was just made.
pub fn watch(app: &AppHandle) {
    let desktop = app.state::<Desktop>();
    let window = desktop.blank_watch().opened.fetch_add(1, Ordering::Relaxed) + 1;
    let app = app.clone();
    desktop.spawn(async move {
        tokio::time::sleep(PATIENCE).await;
        // One that was closed before is no blank one.
        if crate::window::is_open(&app) {
            app.state::<Desktop>().blank_watch().over(window);
        }
    });
}
