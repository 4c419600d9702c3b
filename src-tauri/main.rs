//! The desktop shell of Everdict Runner: a tray icon, and a window when someone asks for one.
//!
//! It composes and connects to the operating system; it decides nothing about runners or jobs. Invariants: one
//! instance per session, no web view before a window is opened and none after it is closed, and the page may call
//! only the commands that `permissions/app.toml` names.

#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod commands;
mod overview;
mod runners;
mod shell;
mod startup;
mod tray;
mod tray_host;
mod window;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use everdict_exec::HostEnv;

use crate::startup::Invocation;

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(exit) = everdict_app::watchdog_main(&argv) {
        return exit;
    }
    let env = HostEnv::capture();
    let started = startup::read(argv, &env).and_then(|invocation| match invocation {
        Invocation::Print(text) => {
            println!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        Invocation::Run(opening) => {
            startup::connect_display()?;
            Ok(shell::run(&env, opening))
        }
    });
    started.unwrap_or_else(|refusal| {
        eprintln!("everdict-desktop: {refusal}");
        refusal.exit_code()
    })
}
