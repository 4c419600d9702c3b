//! What the page may call. Each command is named in `permissions/app.toml`, or the web view refuses it.
//!
//! The calls themselves are the engine's own table ([`CALLS`](everdict_app::control::calls::CALLS)), the same that a
//! browser reaches over HTTP; here are only those that belong to a window. A failure has a code, a sentence and a next
//! step; the page decides by the code.

use everdict_app::control::calls::Call;
use everdict_app::control::{AppEvent, Failure, FrameView, LogBatch};
use serde_json::Value;
use tauri::ipc::{Channel, Invoke, InvokeBody, InvokeError};
use tauri::{Manager as _, State, WebviewWindow};

use crate::shell::Desktop;
use crate::subscriptions::{follow_frames, follow_log, follow_state};

/// Sends the state and every change; returns the number for [`unwatch`].
#[tauri::command]
pub async fn watch(
    window: WebviewWindow,
    desktop: State<'_, Desktop>,
    on_event: Channel<AppEvent>,
) -> Result<u32, Failure> {
    let watch = desktop.control().watch();
    Ok(desktop
        .subscriptions()
        .start(follow_state(window, watch, on_event)))
}

/// Sends a job's log so far and as it grows; returns the number for [`unwatch`].
#[tauri::command]
pub async fn watch_log(
    window: WebviewWindow,
    desktop: State<'_, Desktop>,
    job_id: String,
    on_lines: Channel<LogBatch>,
) -> Result<u32, Failure> {
    let log = desktop.control().follow_log(&job_id)?;
    Ok(desktop.subscriptions().start(follow_log(window, log, on_lines)))
}

/// Sends what a running job's browser shows; returns the number for [`unwatch`].
#[tauri::command]
pub async fn watch_frames(
    window: WebviewWindow,
    desktop: State<'_, Desktop>,
    job_id: String,
    on_frame: Channel<FrameView>,
) -> Result<u32, Failure> {
    let frames = desktop.control().follow_frames(&job_id)?;
    Ok(desktop
        .subscriptions()
        .start(follow_frames(window, frames, on_frame)))
}

/// Ends a subscription.
#[tauri::command]
pub async fn unwatch(desktop: State<'_, Desktop>, id: u32) -> Result<(), Failure> {
    desktop.subscriptions().stop(id);
    Ok(())
}

/// Says that the page has shown its first picture: the window is not blank.
#[tauri::command]
pub async fn painted(desktop: State<'_, Desktop>) -> Result<(), Failure> {
    desktop.blank_watch().painted();
    Ok(())
}

/// Answers the calls of the page; one that is in neither list is unknown to it.
pub fn handler() -> impl Fn(Invoke) -> bool + Send + Sync + 'static {
    let own: fn(Invoke) -> bool = tauri::generate_handler![watch, watch_log, watch_frames, unwatch, painted,];
    move |invoke| match Call::find(invoke.message.command()) {
        Some(call) => {
            carry_out(call, invoke);
            true
        }
        None => own(invoke),
    }
}

/// A task of Tauri's does the work and answers: it goes on when the window is closed meanwhile.
fn carry_out(call: &'static Call, invoke: Invoke) {
    let control = invoke.message.webview_ref().state::<Desktop>().shared_control();
    let args = match invoke.message.payload() {
        InvokeBody::Json(args) => args.clone(),
        InvokeBody::Raw(_) => Value::Null,
    };
    invoke
        .resolver
        .respond_async(async move { call.run(&control, args).await.map_err(InvokeError::from) });
}

#[cfg(test)]
mod tests;
