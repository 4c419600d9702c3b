//! One module per command.

mod cancel;
mod demo;
mod doctor;
mod foreground;
mod gc;
mod harness;
pub(crate) mod help;
mod hub;
mod logs;
mod pair;
mod runs;
mod start;
mod status;
mod submit;
mod ui;
mod unpair;

use everdict_app::{Problem, Result};
pub(crate) use runs::hue;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::exit::Exit;

/// Runs the command asked for.
pub(crate) async fn run(cli: Cli, context: &Context) -> Result<Exit> {
    let Some(command) = cli.command else {
        return foreground::run(context, &cli.foreground).await;
    };
    if cli.foreground.any() {
        return Err(Problem::input("the flags of the foreground form stand alone")
            .fix("put flags of a command after its name, or leave the command out"));
    }
    match command {
        Command::Hub(args) => hub::run(context, &args).await,
        Command::Pair(args) => pair::run(context, &args).await,
        Command::Unpair(args) => unpair::run(context, &args).await,
        Command::Start(args) => start::run(context, &args).await,
        Command::Runner(args) => foreground::run(context, &args).await,
        Command::Submit(args) => submit::run(context, &args).await,
        Command::Harness { action } => harness::run(context, &action).await,
        Command::Runs(args) => runs::run(context, &args).await,
        Command::Logs(args) => logs::run(context, &args).await,
        Command::Cancel(args) => cancel::run(context, &args).await,
        Command::Status => status::run(context).await,
        Command::Doctor(args) => doctor::run(context, &args).await,
        Command::Gc(args) => gc::run(context, &args).await,
        Command::Ui(args) => ui::run(context, &args).await,
        Command::Demo => demo::run(context).await,
        Command::Help { topic } => help::run(&topic, context.out),
    }
}
