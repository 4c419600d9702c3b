//! The desktop shell of Everdict Runner: a tray icon, and a window when someone asks for one.
//!
//! It composes and connects to the operating system; it decides nothing about runners or jobs. Invariants: one
//! instance per session, no web view before a window is opened and none after it is closed, and the page may call
//! only the commands that `permissions/app.toml` names.

#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod blank;
mod commands;
mod notifier;
mod rendering;
mod shell;
mod startup;
mod subscriptions;
mod tray;
mod tray_host;
mod updates;
#[cfg(target_os = "linux")]
mod web_view;
mod window;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use everdict_app::{OwnLog, Paths};
use everdict_exec::HostEnv;
use tracing_subscriber::EnvFilter;

use crate::startup::Invocation;

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(exit) = everdict_app::watchdog_main(&argv).or_else(|| updates::guard_main(&argv)) {
        return exit;
    }
    // Before anything can be started: processes that leave their group are then handed to this one. The web view starts
    // children of its own, which no job's clean-up may touch.
    let reaper = everdict_exec::become_subreaper_beside_other_children();
    let env = HostEnv::capture();
    rendering::choose(&env);
    let started = startup::read(argv, &env).and_then(|invocation| match invocation {
        Invocation::Print(text) => {
            println!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        run @ (Invocation::Run(_) | Invocation::Link(_)) => {
            startup::connect_display()?;
            #[cfg(target_os = "linux")]
            web_view::keep_lean();
            trace(&env);
            if !reaper {
                tracing::debug!("not a subreaper: processes that leave their group are found by a search");
            }
            Ok(shell::run(env, run))
        }
    });
    started.unwrap_or_else(|refusal| {
        eprintln!("everdict-desktop: {refusal}");
        refusal.exit_code()
    })
}

/// What goes wrong behind the scenes goes where the session keeps the output of its programs, and into the own log.
fn trace(env: &HostEnv) {
    let filter = env
        .get("EVERDICT_LOG")
        .filter(|text| !text.is_empty())
        .unwrap_or("warn");
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    // Without a home there is no log, and the app says so in a moment.
    match Paths::from_env(env) {
        Ok(paths) => {
            let own = OwnLog::in_dir(paths.log_dir());
            subscriber.with_writer(move || own.clone()).init();
        }
        Err(_) => subscriber.with_writer(std::io::stderr).init(),
    }
}
