//! The project's own tools, run as `cargo xtask <command>`.
//!
//! - `lint`: the dependency direction between crates and the size budget of source files;
//! - `images`: stand-ins for the default container images, from Debian packages, where no registry is reached;
//! - `bench lease`, `bench desktop`, `bench topology`: measured from outside, as one JSON document;
//! - `chaos`: kills, freezes and starves a real hub and runner, and counts what is lost.
//!
//! It measures and checks; it changes nothing in the tree.
#![expect(
    clippy::disallowed_methods,
    reason = "a build tool: it starts cargo and the binaries it measures, and reads CARGO_* variables"
)]

mod bench;
mod chaos;
mod images;
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
    /// Build the default container images from Debian packages, where no registry can be reached
    Images {
        /// Passed on: [--force] [--list] [--cache DIR] [all | IMAGE[,IMAGE...]]
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Break a hub and a runner in each way there is, and count what that costs: the numbers to print are zero
    Chaos(chaos::Chaos),
    /// Measure; prints one JSON document on stdout
    Bench {
        #[command(subcommand)]
        what: bench::Bench,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Lint => lint::run(),
        Command::Images { arguments } => images::run(&arguments),
        Command::Chaos(options) => chaos::run(&options),
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
