//! The command line: what may be typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use everdict_app::StoreKind;

/// Runs evaluation cases of a hub on this machine, submits cases to it, or is the hub.
#[derive(Debug, Parser)]
#[command(
    name = "everdict-runner",
    version,
    disable_help_subcommand = true,
    after_help = "Without a command it runs in the foreground with the token given:\n  \
        EVERDICT_RUNNER_TOKEN=rnr_… everdict-runner --api-url https://hub.example\n\n\
        More: `everdict-runner help exit-codes`, `help environment`, `help output`, `help settings`, `help signals`."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) foreground: ForegroundArgs,
    /// Print JSON: one document, or one object per line for commands that go on
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be the hub: keep runners, harnesses and runs, hand out cases (goes on until stopped)
    Hub(HubArgs),
    /// Pair this machine with a hub
    Pair(PairArgs),
    /// Forget a pairing; works without the hub
    Unpair(UnpairArgs),
    /// Lease and run cases with the paired runners (goes on until stopped)
    Start(StartArgs),
    /// Run in the foreground with a token given; nothing is stored
    Runner(ForegroundArgs),
    /// Submit cases from a file
    Submit(SubmitArgs),
    /// Harnesses at the hub
    Harness {
        #[command(subcommand)]
        action: HarnessAction,
    },
    /// List runs
    Runs(RunsArgs),
    /// Show the log of a run
    Logs(LogsArgs),
    /// Stop a run
    Cancel(CancelArgs),
    /// Show what is paired here and what the hubs say
    Status,
    /// Check this machine and the way to the hub
    Doctor(HubAccessArgs),
    /// Remove what runners that were killed have left on Docker; nothing that is in use, and nothing that isn't ours
    Gc(GcArgs),
    /// The window in a browser: prints a link that works once (goes on until stopped; runs the paired runners too)
    Ui(UiArgs),
    /// Run real cases end to end on a hub and runner of their own, and leave nothing behind
    Demo,
    /// Explain a command, or: exit-codes, environment, output, settings, signals
    Help {
        /// A command or a topic
        topic: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    /// Address and port to listen on [default: settings, 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Folder of the database [default: in the data folder]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// PostgreSQL database in place of the folder's, shared by any number of hubs; without a password, which belongs into
    /// EVERDICT_HUB_DATABASE, EVERDICT_HUB_DATABASE_FILE or PGPASSFILE
    #[arg(long, value_name = "postgres://…", global = true)]
    pub(crate) database: Option<String>,
    /// How long a lease lives without a heartbeat, in milliseconds [default: 45000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) lease_ttl_ms: Option<u64>,
    #[command(subcommand)]
    pub(crate) action: Option<HubAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HubAction {
    /// Copy the database, of a running hub too, into a new file (for PostgreSQL use pg_dump)
    Backup {
        /// The new file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// API keys of this hub
    Key {
        #[command(subcommand)]
        action: KeyAction,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyAction {
    /// Make a key and print it once
    Create {
        /// Workspace the key acts in
        #[arg(long, default_value = "default")]
        workspace: String,
        /// What the key may do: admin, member or viewer
        #[arg(long, default_value = "admin")]
        role: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PairArgs {
    /// Address of the hub [default: EVERDICT_API_URL, else settings]
    #[arg(long, visible_alias = "api-url", value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// Read the API key from standard input instead of EVERDICT_API_KEY
    #[arg(long, conflicts_with_all = ["token", "token_stdin"])]
    pub(crate) api_key_stdin: bool,
    /// Pair with a runner token made elsewhere (visible to other users in the process list: prefer --token-stdin)
    #[arg(long, value_name = "rnr_…", conflicts_with = "token_stdin")]
    pub(crate) token: Option<String>,
    /// Read the runner token from standard input
    #[arg(long)]
    pub(crate) token_stdin: bool,
    /// Sign in in the browser of this machine, where the hub offers it; no key is needed
    #[arg(long, conflicts_with_all = ["token", "token_stdin", "api_key_stdin", "save_api_key"])]
    pub(crate) sign_in: bool,
    /// Name of this runner [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Option<String>,
    /// Where the token is kept: keyring, file or env [default: settings, keyring]
    #[arg(long, value_name = "STORE")]
    pub(crate) token_store: Option<StoreKind>,
    /// Keep the API key too, in the same store, for submit, runs and logs
    #[arg(long, conflicts_with_all = ["token", "token_stdin"])]
    pub(crate) save_api_key: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UnpairArgs {
    /// Runners to forget, by id or label [default: the only one]
    #[arg(value_name = "RUNNER")]
    pub(crate) runners: Vec<String>,
    /// Forget all runners of this machine
    #[arg(long, conflicts_with = "runners")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Runners to start, by id or label [default: all]
    #[arg(value_name = "RUNNER")]
    pub(crate) runners: Vec<String>,
    /// Cases at the same time per runner (1 to 64) [default: settings]
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) max_concurrent: Option<u16>,
}

/// The flags of the existing binary, and nothing they didn't mean.
#[derive(Debug, Default, Args)]
pub(crate) struct ForegroundArgs {
    /// The runner token (visible to other users in the process list: prefer EVERDICT_RUNNER_TOKEN)
    #[arg(long, value_name = "rnr_…")]
    pub(crate) pair: Option<String>,
    /// Address of the hub [default: EVERDICT_API_URL, else http://localhost:8787]
    #[arg(long, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// Cases at the same time (1 to 64) [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) max_concurrent: Option<u16>,
    /// How long one poll may wait at the hub (0 to 60000) [default: 25000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) wait_ms: Option<u64>,
    /// Time between heartbeats of a running case [default: a third of the lease]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) heartbeat_ms: Option<u64>,
    /// First pause after a failed poll [default: 2000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) poll_interval_ms: Option<u64>,
    /// Longest wait for a service of a topology to become ready, where the harness says none [default: 60000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) ready_timeout_ms: Option<u64>,
    /// Longest pause between two looks whether it is ready [default: 1000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) ready_interval_ms: Option<u64>,
    /// Lend this user's Codex login to containers of cases
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) mount_codex_login: Option<bool>,
    /// Also keep the token: keyring or file [default: not kept]
    #[arg(long, value_name = "STORE")]
    pub(crate) token_store: Option<StoreKind>,
}

impl ForegroundArgs {
    /// Tells whether any flag was given.
    pub(crate) fn any(&self) -> bool {
        self.pair.is_some()
            || self.api_url.is_some()
            || self.max_concurrent.is_some()
            || self.wait_ms.is_some()
            || self.heartbeat_ms.is_some()
            || self.poll_interval_ms.is_some()
            || self.ready_timeout_ms.is_some()
            || self.ready_interval_ms.is_some()
            || self.mount_codex_login.is_some()
            || self.token_store.is_some()
    }
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only list what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Address and port to listen on, of this machine alone [default: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
}

/// Which hub, and as whom.
#[derive(Debug, Default, Args)]
pub(crate) struct HubAccessArgs {
    /// Address of the hub [default: EVERDICT_API_URL, else the one paired here, else settings]
    #[arg(long, visible_alias = "api-url", value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// Read the API key from standard input [default: EVERDICT_API_KEY, else the one kept by pair]
    #[arg(long)]
    pub(crate) api_key_stdin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// A case or run as JSON, or a dataset with one of them per line
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// A registered harness for cases that name none
    #[arg(long, value_name = "ID@VERSION", conflicts_with = "harness_file")]
    pub(crate) harness: Option<String>,
    /// A harness from a file, sent along with each case that names none
    #[arg(long, value_name = "FILE")]
    pub(crate) harness_file: Option<PathBuf>,
    /// Where to run, for cases that don't say: self, self:<runner id>, self:ws …
    #[arg(long, value_name = "TARGET", default_value = "self")]
    pub(crate) runtime: String,
    /// Follow the runs and print the verdicts; exit 1 unless each passes (or is as its line expects)
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) access: HubAccessArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HarnessAction {
    /// Store a new version of a harness
    Push {
        /// A harness spec, a template, an instance, or {"template": …, "instance": …} as JSON
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        access: HubAccessArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Show at most this many, newest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) access: HubAccessArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Go on until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) access: HubAccessArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) access: HubAccessArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_flags_of_the_existing_binary_are_taken_with_and_without_its_word() {
        let flags = [
            "--pair",
            "rnr_x",
            "--api-url",
            "http://h",
            "--max-concurrent",
            "2",
            "--wait-ms",
            "10",
            "--heartbeat-ms",
            "20",
            "--poll-interval-ms",
            "30",
            "--ready-timeout-ms",
            "40",
            "--ready-interval-ms",
            "50",
            "--mount-codex-login",
        ];
        let bare = Cli::try_parse_from(["everdict-runner"].into_iter().chain(flags)).unwrap();
        assert_eq!(bare.foreground.pair.as_deref(), Some("rnr_x"));
        assert_eq!(bare.foreground.mount_codex_login, Some(true));
        let word = Cli::try_parse_from(["everdict-runner", "runner"].into_iter().chain(flags)).unwrap();
        let Some(Command::Runner(args)) = word.command else {
            panic!("not the runner command");
        };
        assert_eq!(args.max_concurrent, Some(2));
        assert_eq!(args.heartbeat_ms, Some(20));
    }

    #[test]
    fn json_is_taken_before_and_after_the_command() {
        for line in [["x", "--json", "status"], ["x", "status", "--json"]] {
            assert!(Cli::try_parse_from(line).unwrap().json);
        }
    }
}
