//! The form of the existing binary: a token given, nothing stored, until stopped.

use std::time::Duration;

use everdict_app::{Pairing, Problem, ProfileLock, Result, StoreKind, hub_url, is_runner_token};
use secrecy::{ExposeSecret as _, SecretString};

use crate::args::ForegroundArgs;
use crate::context::{API_URL_VAR, Context};
use crate::exit::Exit;
use crate::serve;

/// The address that clients of the protocol try when none is named.
const DEFAULT_API_URL: &str = "http://localhost:8787";

pub(crate) async fn run(context: &Context, args: &ForegroundArgs) -> Result<Exit> {
    let token = token(context, args)?;
    let address = args
        .api_url
        .as_deref()
        .or_else(|| context.env.get(API_URL_VAR).filter(|url| !url.is_empty()))
        .unwrap_or(DEFAULT_API_URL);
    let hub = hub_url::parse(address)?;
    warn_about(context, args);
    context.paths.prepare()?;
    // With a token that nothing here keeps it is no runner of this profile, and several may run side by side.
    let mut alone = None;
    if let Some(kind @ (StoreKind::Keyring | StoreKind::File)) = args.token_store {
        alone = Some(ProfileLock::take(&context.paths, "everdict-runner")?);
        let registrations = context.registrations();
        let pairing = Pairing {
            store: context.store(kind),
            registrations: &registrations,
        };
        let label = everdict_app::host_name();
        pairing.with_token(&hub, token.clone(), &label).await?;
        context
            .out
            .say(format!("Token kept in: {kind}; next time: everdict-runner start"));
    }
    let mut plan = serve::plan(context, everdict_app::host_name(), hub, token);
    if let Some(cases) = args.max_concurrent {
        plan.max_concurrent = usize::from(cases);
    }
    if let Some(ms) = args.wait_ms {
        plan.wait = Duration::from_millis(ms);
    }
    if let Some(ms) = args.heartbeat_ms {
        plan.heartbeat = Some(Duration::from_millis(ms));
    }
    if let Some(ms) = args.poll_interval_ms {
        plan.poll_interval = Duration::from_millis(ms);
    }
    let plans = vec![plan];
    let mut containers = serve::containers(context, &plans);
    if let Some(ms) = args.ready_timeout_ms {
        containers.ready_timeout = Duration::from_millis(ms);
    }
    if let Some(ms) = args.ready_interval_ms {
        containers.ready_interval = Duration::from_millis(ms);
    }
    let ended = serve::run(context, plans, containers).await;
    drop(alone);
    ended
}

fn token(context: &Context, args: &ForegroundArgs) -> Result<SecretString> {
    let given = match &args.pair {
        Some(token) => Some(SecretString::from(token.clone())),
        None => context.secrets.runner_token().cloned(),
    };
    given
        .filter(|token| is_runner_token(token.expose_secret()))
        .ok_or_else(|| {
            // The words and the exit code are those that scripts around the existing binary know.
            Problem::new(
                everdict_app::ProblemClass::General,
                "--pair <rnr_…> (or EVERDICT_RUNNER_TOKEN) is required",
            )
            .fix("everdict-runner --help lists the commands; `everdict-runner pair` keeps a token")
        })
}

fn warn_about(context: &Context, args: &ForegroundArgs) {
    if args.pair.is_some() {
        context.out.warn(
            "a token on the command line can be seen by other users of this machine; prefer EVERDICT_RUNNER_TOKEN",
        );
    }
    if args.mount_codex_login == Some(true) {
        context
            .out
            .warn("--mount-codex-login has no effect: this version lends no login to containers");
    }
}
