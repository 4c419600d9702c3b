//! What the page may call. Each command is named in `permissions/app.toml`, or the web view refuses it.

use tauri::State;

use crate::overview::{Machine, Overview};
use crate::shell::Desktop;
use crate::tray_host::TrayHost;

/// Reads the facts of the overview anew.
#[tauri::command]
pub async fn get_overview(desktop: State<'_, Desktop>) -> Result<Overview, String> {
    let tray = TrayHost::probe().await;
    let runners = desktop.runners();
    Ok(Overview::new(Machine::read(), tray, runners))
}
