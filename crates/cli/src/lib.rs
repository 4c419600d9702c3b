//! The headless program of Everdict Runner: pair, lease and run cases, submit them, or be the hub.
//!
//! It composes the app crate and prints; it decides nothing that the desktop app would have to decide again.
//! Secrets from the environment and from arguments are wiped before the first thread starts, and never printed
//! except where a command's purpose is to hand one out once.

mod args;
mod commands;
mod context;
mod exit;
mod follow;
mod output;
mod scrub;
mod serve;
mod signals;
mod startup;

pub use startup::main;
