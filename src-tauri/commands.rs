//! What the page may call. Each command is named in `permissions/app.toml`, or the web view refuses it.
//!
//! A failure has a code, a sentence and a next step; the page decides by the code.

use everdict_app::control::{AppEvent, AppSnapshot, Failure, JobDetail, JobView, LogBatch, TokenPlace};
use tauri::ipc::{Channel, Invoke};
use tauri::{State, WebviewWindow};

use crate::shell::Desktop;
use crate::subscriptions::{follow_log, follow_state};

/// More than any list shows.
const MAX_JOBS: usize = 1000;

/// Returns the state at this moment.
#[tauri::command]
pub async fn snapshot(desktop: State<'_, Desktop>) -> Result<AppSnapshot, Failure> {
    Ok(desktop.control().snapshot())
}

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

/// Ends a subscription.
#[tauri::command]
pub async fn unwatch(desktop: State<'_, Desktop>, id: u32) -> Result<(), Failure> {
    desktop.subscriptions().stop(id);
    Ok(())
}

/// Starts the embedded hub and pairs with it. Without a keyring the page asks, and then allows a file.
#[tauri::command]
pub async fn pair_this_computer(
    desktop: State<'_, Desktop>,
    label: String,
    allow_file_store: Option<bool>,
) -> Result<(), Failure> {
    let place = place(allow_file_store);
    Ok(desktop.control().pair_this_computer(&label, place).await?)
}

/// Pairs by a runner token, an attach command or a pairing link.
#[tauri::command]
pub async fn pair_with_token(
    desktop: State<'_, Desktop>,
    hub_url: String,
    text: String,
    label: String,
    allow_file_store: Option<bool>,
) -> Result<(), Failure> {
    let place = place(allow_file_store);
    Ok(desktop
        .control()
        .pair_with_token(&hub_url, &text, &label, place)
        .await?)
}

/// Makes a runner at a hub with a member's key.
#[tauri::command]
pub async fn pair_with_api_key(
    desktop: State<'_, Desktop>,
    hub_url: String,
    api_key: String,
    label: String,
    allow_file_store: Option<bool>,
) -> Result<(), Failure> {
    let place = place(allow_file_store);
    let paired = desktop
        .control()
        .pair_with_api_key(&hub_url, api_key.into(), &label, place);
    Ok(paired.await?)
}

/// Says how people get into a hub: `key`, `oidc`.
#[tauri::command]
pub async fn sign_in_methods(desktop: State<'_, Desktop>, hub_url: String) -> Result<Vec<String>, Failure> {
    Ok(desktop.control().sign_in_methods(&hub_url).await?)
}

/// Opens the system's browser, waits for the person, and pairs. The page sees no code, token or key.
#[tauri::command]
pub async fn sign_in(
    desktop: State<'_, Desktop>,
    hub_url: String,
    label: String,
    allow_file: Option<bool>,
) -> Result<(), Failure> {
    let place = place(allow_file);
    Ok(desktop.control().sign_in(&hub_url, &label, place).await?)
}

/// Ends the sign-in that waits, if one does.
#[tauri::command]
pub async fn cancel_sign_in(desktop: State<'_, Desktop>) -> Result<(), Failure> {
    desktop.control().cancel_sign_in();
    Ok(())
}

/// Stops a runner and forgets it.
#[tauri::command]
pub async fn unpair(desktop: State<'_, Desktop>, runner_id: String) -> Result<(), Failure> {
    Ok(desktop.control().unpair(&runner_id).await?)
}

/// Takes no new jobs for a time, or until resumed.
#[tauri::command]
pub async fn pause(desktop: State<'_, Desktop>, for_seconds: Option<u64>) -> Result<(), Failure> {
    Ok(desktop.control().pause(for_seconds).await?)
}

/// Takes jobs again.
#[tauri::command]
pub async fn resume(desktop: State<'_, Desktop>) -> Result<(), Failure> {
    Ok(desktop.control().resume().await?)
}

/// Takes no new jobs; paused once the running ones are over.
#[tauri::command]
pub async fn finish_then_pause(desktop: State<'_, Desktop>) -> Result<(), Failure> {
    Ok(desktop.control().finish_then_pause().await?)
}

/// Starts the app at login, or no longer.
#[tauri::command]
pub async fn set_autostart(desktop: State<'_, Desktop>, on: bool) -> Result<(), Failure> {
    Ok(desktop.control().set_autostart(on)?)
}

/// Pairs by the link that waits. Its token never reaches the page.
#[tauri::command]
pub async fn accept_link(
    desktop: State<'_, Desktop>,
    label: String,
    allow_file: Option<bool>,
) -> Result<(), Failure> {
    let place = place(allow_file);
    Ok(desktop.control().accept_link(&label, place).await?)
}

/// Forgets the link that waits.
#[tauri::command]
pub async fn dismiss_link(desktop: State<'_, Desktop>) -> Result<(), Failure> {
    desktop.control().dismiss_link();
    Ok(())
}

/// Says that the page has shown its first picture: the window is not blank.
#[tauri::command]
pub async fn painted(desktop: State<'_, Desktop>) -> Result<(), Failure> {
    desktop.blank_watch().painted();
    Ok(())
}

/// Offers a capability, or stops offering it.
#[tauri::command]
pub async fn set_capability(desktop: State<'_, Desktop>, name: String, on: bool) -> Result<(), Failure> {
    Ok(desktop.control().set_capability(&name, on).await?)
}

/// Runs the sample case on the embedded hub; returns the id of the run.
#[tauri::command]
pub async fn submit_sample(desktop: State<'_, Desktop>) -> Result<String, Failure> {
    Ok(desktop.control().submit_sample().await?)
}

/// Lists the jobs: live ones, then ended ones, newest first.
#[tauri::command]
pub async fn jobs(desktop: State<'_, Desktop>, limit: usize) -> Result<Vec<JobView>, Failure> {
    Ok(desktop.control().jobs(limit.min(MAX_JOBS)))
}

/// Returns what a job left so far.
#[tauri::command]
pub async fn job_result(desktop: State<'_, Desktop>, job_id: String) -> Result<JobDetail, Failure> {
    Ok(desktop.control().job_result(&job_id)?)
}

/// Stops a running job.
#[tauri::command]
pub async fn stop_job(desktop: State<'_, Desktop>, job_id: String) -> Result<(), Failure> {
    Ok(desktop.control().stop_job(&job_id)?)
}

/// Answers the calls of the page; one that is not listed is unknown to it.
pub fn handler() -> impl Fn(Invoke) -> bool + Send + Sync + 'static {
    tauri::generate_handler![
        snapshot,
        watch,
        watch_log,
        unwatch,
        pair_this_computer,
        pair_with_token,
        pair_with_api_key,
        sign_in_methods,
        sign_in,
        cancel_sign_in,
        unpair,
        accept_link,
        dismiss_link,
        pause,
        finish_then_pause,
        resume,
        set_capability,
        submit_sample,
        jobs,
        job_result,
        stop_job,
        set_autostart,
        painted,
    ]
}

fn place(allow_file_store: Option<bool>) -> TokenPlace {
    if allow_file_store == Some(true) {
        TokenPlace::File
    } else {
        TokenPlace::Settings
    }
}

#[cfg(test)]
mod tests;
