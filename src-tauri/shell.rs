//! Puts the parts together and runs the event loop.

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use everdict_app::Paths;
use everdict_exec::HostEnv;
use tauri::{App, AppHandle, Manager as _, RunEvent};

use crate::runners::Runners;
use crate::startup::{self, Invocation, Opening};
use crate::tray::{Tray, TrayModel};
use crate::tray_host::TrayHost;
use crate::words::Words;
use crate::{commands, window};

/// How old the tray may get: someone who pairs in a terminal and looks up finds it there. Reading one small file at
/// this rate costs no CPU worth measuring.
const TRAY_PERIOD: Duration = Duration::from_secs(5);

/// What the page's commands share.
pub struct Desktop {
    paths: Paths,
    refresh_tray: SyncSender<()>,
}

impl Desktop {
    /// Reads the pairings, and lets the tray catch up with what the page is about to show.
    pub fn runners(&self) -> Runners {
        // A full channel means that a refresh is due already.
        let _ = self.refresh_tray.try_send(());
        Runners::read(&self.paths)
    }
}

/// Runs the app until someone quits it.
#[expect(
    clippy::disallowed_methods,
    reason = "the code of generate_context! holds an exit of Tauri's own"
)]
pub fn run(env: &HostEnv, opening: Opening) -> ExitCode {
    let paths = match Paths::from_env(env) {
        Ok(paths) => paths,
        Err(problem) => {
            let fix = problem
                .next_step()
                .map(|step| format!("; {step}"))
                .unwrap_or_default();
            eprintln!("everdict-desktop: {problem}{fix}");
            return ExitCode::FAILURE;
        }
    };
    let words = Words::for_session(env);
    let built = tauri::Builder::default()
        // First of all, so that a second start does nothing but open the window of the first.
        .plugin(tauri_plugin_single_instance::init(|app, argv, _cwd| {
            second_start(app, argv);
        }))
        .invoke_handler(tauri::generate_handler![commands::get_overview])
        .setup(move |app| Ok(set_up(app, paths, words, opening)?))
        .build(tauri::generate_context!());
    match built {
        Ok(app) => {
            app.run(|_app, event| {
                // The last window closed: stay in the tray. Quit carries a code and passes.
                if let RunEvent::ExitRequested { code: None, api, .. } = event {
                    api.prevent_exit();
                }
            });
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("everdict-desktop: can't start: {error}");
            ExitCode::FAILURE
        }
    }
}

fn set_up(app: &App, paths: Paths, words: Words, opening: Opening) -> tauri::Result<()> {
    let model = TrayModel::new(&Runners::read(&paths), &words);
    let tray = Tray::build(app.handle(), model)?;
    // One waiting request is enough: it makes the tray read everything anew.
    let (refresh_tray, requests) = sync_channel(1);
    let tray_paths = paths.clone();
    std::thread::Builder::new()
        .name("tray".to_owned())
        .spawn(move || keep_tray_true(tray, &tray_paths, &words, &requests))?;
    app.manage(Desktop { paths, refresh_tray });
    let host = tauri::async_runtime::block_on(TrayHost::probe());
    if opening.opens(host) {
        window::open(app.handle())?;
    }
    Ok(())
}

fn keep_tray_true(mut tray: Tray, paths: &Paths, words: &Words, requests: &Receiver<()>) {
    loop {
        match requests.recv_timeout(TRAY_PERIOD) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let model = TrayModel::new(&Runners::read(paths), words);
        if let Err(error) = tray.show(model) {
            eprintln!("everdict-desktop: can't update the tray icon: {error}");
        }
    }
}

fn second_start(app: &AppHandle, argv: Vec<String>) {
    // The first argument is the program's name. A start that only wanted the app to be there has that already.
    match startup::parse(argv.into_iter().skip(1).map(Into::into)) {
        Ok(Invocation::Run(Opening::Never)) => {}
        _ => window::open_or_report(app),
    }
}
