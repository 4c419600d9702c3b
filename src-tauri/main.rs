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

use std::process::ExitCode;

use everdict_exec::HostEnv;

use crate::startup::Invocation;

fn main() -> ExitCode {
    let env = HostEnv::capture();
    match startup::read(std::env::args_os().skip(1), &env) {
        Ok(Invocation::Print(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Invocation::Run(opening)) => shell::run(&env, opening),
        Err(refusal) => {
            eprintln!("everdict-desktop: {refusal}");
            refusal.exit_code()
        }
    }
}
