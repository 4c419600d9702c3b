//! `help`: commands, and topics that belong to no single command.

use clap::CommandFactory as _;
use everdict_app::{DEFAULT_SETTINGS, Problem, Result};
use serde_json::{Value, json};

use crate::args::Cli;
use crate::exit::{Exit, TABLE};
use crate::output::{Cell, Output};

const VARIABLES: [(&str, &str); 12] = [
    (
        "EVERDICT_RUNNER_TOKEN",
        "token (rnr_…) of the foreground form and of runners paired with --token-store env",
    ),
    (
        "EVERDICT_API_KEY",
        "API key (ak_…) for pair, submit, runs, logs, cancel, harness",
    ),
    (
        "EVERDICT_API_URL",
        "address of the hub [default: http://localhost:8787]",
    ),
    (
        "EVERDICT_RUNNER_VERSION",
        "version to report instead of this program's own",
    ),
    ("EVERDICT_HOME", "one folder for settings, data, state and cache"),
    (
        "EVERDICT_LOG",
        "what goes to stderr: error, warn, info, debug, or per module",
    ),
    (
        "EVERDICT_LOG_FORMAT",
        "how it is written: text, or json (one object a line)",
    ),
    (
        "EVERDICT_HUB_DATABASE",
        "postgres:// address of the hub's database, where a password belongs (not into --database)",
    ),
    ("EVERDICT_HUB_DATABASE_FILE", "a file with that address"),
    (
        "DOCKER_HOST",
        "container engine to use, unless topology.endpoint in settings.toml names one; see doctor",
    ),
    ("NO_COLOR", "when set, no colour"),
    (
        "HTTPS_PROXY, NO_PROXY",
        "the proxy on the way to the hub, and the hosts reached without it",
    ),
];

const FORMS: [(&str, &str); 3] = [
    (
        "one document",
        "with --json every command prints exactly one JSON document on stdout; a failure is {\"error\": {class, message, fix, exitCode}}",
    ),
    (
        "one object per line",
        "hub, start, ui, runner and the foreground form ({\"event\": …}), logs -f ({\"line\"} or {\"status\"}); pair --sign-in prints {\"event\": \"sign_in\", \"url\"} before its document",
    ),
    (
        "stderr",
        "words for people and the log (EVERDICT_LOG), in both forms",
    ),
];

const SIGNALS: [(&str, &str); 4] = [
    (
        "SIGINT once",
        "drain: take no new case, finish and report what runs, exit 0",
    ),
    ("SIGINT twice", "cancel what runs, clean up, exit 130"),
    (
        "SIGINT three times",
        "exit at once with 130; the next start sweeps up",
    ),
    (
        "SIGTERM, SIGHUP",
        "drain, and after runner.term_deadline_s (5 s) cancel and clean up; exit 0 when all was reported, else 130",
    ),
];

pub(crate) fn run(topic: &[String], out: Output) -> Result<Exit> {
    let words: Vec<&str> = topic.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["exit-codes"] => exit_codes(out),
        ["environment" | "env"] => pairs(out, ["VARIABLE", "MEANING"], &VARIABLES),
        ["signals"] => pairs(out, ["SIGNAL", "WHAT HAPPENS"], &SIGNALS),
        ["output" | "json"] => pairs(out, ["FORM", "MEANING"], &FORMS),
        ["settings"] => {
            out.document(&json!({"defaults": DEFAULT_SETTINGS}));
            out.say(DEFAULT_SETTINGS.trim_end());
        }
        path => command(path, out)?,
    }
    Ok(Exit::Ok)
}

fn exit_codes(out: Output) {
    let rows: Vec<Vec<Cell>> = TABLE
        .iter()
        .map(|(exit, meaning)| vec![Cell::plain(exit.code().to_string()), Cell::plain(*meaning)])
        .collect();
    let document: Vec<Value> = TABLE
        .iter()
        .map(|(exit, meaning)| json!({"code": exit.code(), "meaning": meaning}))
        .collect();
    out.document(&json!({"exitCodes": document}));
    out.table(&["CODE", "MEANING"], &rows);
}

fn pairs(out: Output, header: [&str; 2], rows: &[(&str, &str)]) {
    let document: Vec<Value> = rows
        .iter()
        .map(|(name, meaning)| json!({"name": name, "meaning": meaning}))
        .collect();
    out.document(&document);
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|(name, meaning)| vec![Cell::plain(*name), Cell::plain(*meaning)])
        .collect();
    out.table(&header, &cells);
}

fn command(path: &[&str], out: Output) -> Result<()> {
    let mut command = Cli::command();
    command.build();
    for word in path {
        command = command.find_subcommand(word).cloned().ok_or_else(|| {
            Problem::input(format!("there is no command or topic {word}"))
                .fix("everdict-runner --help lists the commands; topics: exit-codes, environment, output, settings, signals")
        })?;
    }
    let text = command.render_long_help().to_string();
    out.document(&json!({"help": text}));
    out.say(text.trim_end());
    Ok(())
}
