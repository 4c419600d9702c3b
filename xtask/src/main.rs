//! The project's own tools, run as `cargo xtask <command>`.
//!
//! - `lint`: the dependency direction between crates and the size budget of source files;
//! - `bench lease`: hub and runner on loopback, measured, as one JSON document.
//!
//! It measures and checks; it changes nothing in the tree.
#![expect(
    clippy::disallowed_methods,
    reason = "a build tool: it starts cargo and the binaries it measures, and reads CARGO_* variables"
)]

mod bench;
mod lint;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Result of a tool: the error is a sentence for the person at the terminal.
pub(crate) type ToolResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Everdict Runner's own tools")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the dependency direction between crates and the size budget of source files
    Lint,
    /// Measure; prints one JSON document on stdout
    Bench {
        #[command(subcommand)]
        what: bench::Bench,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Lint => lint::run(),
        Command::Bench { what } => bench::run(what),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
