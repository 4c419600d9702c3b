//! What an open window follows: the state and logs, each over a channel of its own.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everdict_app::control::{AppEvent, AppWatch, FrameReader, FrameView, LogBatch, LogReader};
use tauri::WebviewWindow;
use tauri::ipc::Channel;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

/// How soon a window that was minimised gets what it missed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The running subscriptions. They end with their window, or when it asks.
#[derive(Default)]
pub struct Subscriptions {
    next: AtomicU32,
    running: Mutex<HashMap<u32, AbortHandle>>,
    tasks: TaskTracker,
}

impl Subscriptions {
    /// Runs `following` until it ends or is cancelled; returns the number to cancel it by.
    pub fn start(&self, following: impl Future<Output = ()> + Send + 'static) -> u32 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let task = self.tasks.spawn(following);
        let mut running = self.running();
        running.retain(|_id, task| !task.is_finished());
        running.insert(id, task.abort_handle());
        id
    }

    /// Ends one; one that has ended is fine.
    pub fn stop(&self, id: u32) {
        if let Some(task) = self.running().remove(&id) {
            task.abort();
        }
    }

    /// Ends all, since their window is gone.
    pub fn stop_all(&self) {
        self.running().drain().for_each(|(_id, task)| task.abort());
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<u32, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the state and its changes to a window that can be seen. One that couldn't gets the whole anew, not each step.
pub async fn follow_state(window: WebviewWindow, mut watch: AppWatch, to: Channel<AppEvent>) {
    while let Some(event) = watch.next().await {
        if !can_be_seen(&window) {
            until_seen(&window).await;
            watch.start_over();
            continue;
        }
        if to.send(event).is_err() {
            return;
        }
    }
}

/// Sends a log to a window that can be seen; what came meanwhile follows, or is a gap, once it is.
pub async fn follow_log(window: WebviewWindow, mut log: LogReader, to: Channel<LogBatch>) {
    loop {
        until_seen(&window).await;
        let Some(batch) = log.next().await else { return };
        if to.send(batch).is_err() {
            return;
        }
    }
}

/// Sends what a browser shows to a window that can be seen; only the latest picture is of interest once it is.
pub async fn follow_frames(window: WebviewWindow, mut frames: FrameReader, to: Channel<FrameView>) {
    loop {
        until_seen(&window).await;
        let Some(frame) = frames.next().await else { return };
        if to.send(frame).is_err() {
            return;
        }
    }
}

async fn until_seen(window: &WebviewWindow) {
    while !can_be_seen(window) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A window that can't be asked counts as seen: sending to it fails, which ends the subscription.
fn can_be_seen(window: &WebviewWindow) -> bool {
    window.is_visible().unwrap_or(true) && !window.is_minimized().unwrap_or(false)
}
