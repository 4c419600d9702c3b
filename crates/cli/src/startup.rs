//! From `main` to the command: the order of these steps matters and is the reason for this file.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use everdict_app::{EnvSecrets, OwnLog, Paths, Problem, Result, Settings};
use everdict_exec::HostEnv;
use secrecy::ExposeSecret as _;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};
use crate::commands;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::Output;
use crate::scrub;

/// One thread for the hub session and the heartbeats, one for the cases' output; more only cost memory.
const WORKERS: usize = 2;

/// What still blocks after the command is done (a keyring prompt, a DNS look-up) isn't worth waiting for.
const LINGER: Duration = Duration::from_millis(200);

/// Runs the program: the watchdog when asked for, else subreaper, environment, secrets, TLS, then threads.
#[must_use]
pub fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(exit) = everdict_app::watchdog_main(&argv) {
        return exit;
    }
    // Before anything can be started: processes that leave their group are then handed to this one.
    let reaper = everdict_exec::become_subreaper();
    let captured = HostEnv::capture();
    let secrets = EnvSecrets::from_env(&captured);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let wants_json = arguments.iter().any(|argument| argument == "--json");
    let no_colour = captured.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    let cli = Cli::try_parse_from(&arguments);
    wipe_secrets(&secrets, cli.as_ref().ok());
    let env = Arc::new(HostEnv::capture());
    let out = Output::new(wants_json, no_colour);
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage(&error, out).code()),
    };
    // Fails only when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exit = run(cli, env, secrets, out, reaper).unwrap_or_else(|problem| out.problem(&problem));
    ExitCode::from(exit.code())
}

fn run(cli: Cli, env: Arc<HostEnv>, secrets: EnvSecrets, out: Output, reaper: bool) -> Result<Exit> {
    if let Some(Command::Help { topic }) = &cli.command {
        return commands::help::run(topic, out);
    }
    let paths = Paths::from_env(&env)?;
    let settings = Settings::load(&paths.settings_file())?;
    trace(&env, &settings, &paths)?;
    if !reaper {
        tracing::debug!("not a subreaper: processes that leave their group are found by a search");
    }
    let context = Context {
        env,
        secrets,
        paths,
        settings,
        out,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(|error| Problem::machine("can't start threads").because(error))?;
    let exit = runtime.block_on(commands::run(cli, &context));
    runtime.shutdown_timeout(LINGER);
    exit
}

/// What goes wrong behind the scenes goes to standard error, and into a file of bounded size for whoever looks later.
fn trace(env: &HostEnv, settings: &Settings, paths: &Paths) -> Result<()> {
    let (place, text) = match env.get("EVERDICT_LOG") {
        Some(text) if !text.is_empty() => ("EVERDICT_LOG", text),
        _ => ("log.filter", settings.log_filter.as_str()),
    };
    let filter = EnvFilter::try_new(text).map_err(|error| {
        Problem::input(format!("{place} can't be \"{text}\""))
            .fix("use error, warn, info or debug, alone or per module (everdict_hub=debug,warn)")
            .because(error)
    })?;
    let own = OwnLog::in_dir(paths.log_dir());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || own.clone())
        .with_ansi(false);
    match env.get("EVERDICT_LOG_FORMAT") {
        None | Some("" | "text") => log.init(),
        Some("json") => log.json().flatten_event(true).init(),
        Some(other) => {
            return Err(
                Problem::input(format!("EVERDICT_LOG_FORMAT can't be \"{other}\"")).fix("use text or json"),
            );
        }
    }
    Ok(())
}

/// No child, and no other program that looks into `/proc`, may find a secret of ours there.
fn wipe_secrets(secrets: &EnvSecrets, cli: Option<&Cli>) {
    let mut found: Vec<&[u8]> = [secrets.runner_token(), secrets.api_key(), secrets.hub_database()]
        .into_iter()
        .flatten()
        .map(|secret| secret.expose_secret().as_bytes())
        .collect();
    if let Some(cli) = cli {
        let pair = cli.foreground.pair.as_deref();
        let token = match &cli.command {
            Some(Command::Runner(args)) => args.pair.as_deref(),
            Some(Command::Pair(args)) => args.token.as_deref(),
            _ => None,
        };
        found.extend([pair, token].into_iter().flatten().map(str::as_bytes));
    }
    scrub::wipe(&found);
    for name in EnvSecrets::VARS {
        // SAFETY: the first thread of this process starts in `run`, after this.
        unsafe { std::env::remove_var(name) };
    }
}

fn usage(error: &clap::Error, out: Output) -> Exit {
    if !error.use_stderr() {
        // Help or version: what was asked for.
        let _ = error.print();
        return Exit::Ok;
    }
    if out.is_json() {
        let text = error.to_string();
        // The first paragraph says what; usage and tips follow.
        let what: Vec<&str> = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.is_empty())
            .collect();
        let problem = Problem::input(what.join(" ").trim_start_matches("error: "))
            .fix("everdict-runner --help lists commands and flags");
        return out.problem(&problem);
    }
    let _ = error.print();
    Exit::Usage
}
