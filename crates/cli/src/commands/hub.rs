//! `hub`: be the control plane, or make keys for it.

use std::net::SocketAddr;
use std::time::Duration;

use everdict_app::{HubHost, HubOptions, Problem, Result, backup_hub, create_api_key, hub_url};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use crate::args::{HubAction, HubArgs, KeyAction};
use crate::context::Context;
use crate::exit::Exit;
use crate::signals::{Signals, Stop};

/// The workspace of a hub that one person uses.
const FIRST_WORKSPACE: &str = "default";

/// The hub drains for at most 5 s by itself; with this it is gone within the 10 s that `docker stop` grants.
const TERM_DEADLINE: Duration = Duration::from_secs(8);

pub(crate) async fn run(context: &Context, args: &HubArgs) -> Result<Exit> {
    let options = options(context, args)?;
    if let Some(HubAction::Key {
        action: KeyAction::Create { workspace, role },
    }) = &args.action
    {
        return create_key(context, &options, workspace, role).await;
    }
    if let Some(HubAction::Backup { file }) = &args.action {
        backup_hub(&options, file).await?;
        context.out.document(&json!({"backup": file}));
        context.out.say(format!("Backup in {}", file.display()));
        return Ok(Exit::Ok);
    }
    let mut signals = Signals::listen(TERM_DEADLINE)
        .map_err(|error| Problem::machine("can't listen for signals").because(error))?;
    warn_if_open(context, options.listen);
    let data_dir = &options.data_dir;
    let mut hub = HubHost::start(&options).await?;
    let key = hub.first_api_key(FIRST_WORKSPACE).await?;
    let url = hub_url::text(hub.url());
    let shown = key.as_ref().map(secrecy::ExposeSecret::expose_secret);
    context
        .out
        .event(&json!({"event": "listening", "url": url, "dataDir": data_dir, "apiKey": shown}));
    let place = match options.database {
        Some(_) => "PostgreSQL".to_owned(),
        None => data_dir.display().to_string(),
    };
    context.out.say(format!("Hub at {url}, data in {place}"));
    if let Some(key) = shown {
        context.out.say(format!(
            "First API key, shown once (admin of workspace {FIRST_WORKSPACE}):\n  EVERDICT_API_KEY={key}"
        ));
        context
            .out
            .say("  (more, while the hub is stopped: everdict-runner hub key create)");
        context.out.say(format!(
            "Next: EVERDICT_API_KEY=… everdict-runner pair --hub {url}"
        ));
    }
    tokio::select! {
        ended = hub.ended() => {
            return ended.and_then(|()| Err(Problem::machine("the hub stopped by itself")));
        }
        _ = signals.next() => {}
    }
    stop(context, hub, signals).await
}

async fn stop(context: &Context, hub: HubHost, mut signals: Signals) -> Result<Exit> {
    context.out.say("Stopping; once more: leave at once");
    let insist = async { while signals.next().await == Stop::Drain {} };
    tokio::select! {
        stopped = hub.stop() => stopped?,
        () = insist => return Ok(Exit::Interrupted),
    }
    context.out.event(&json!({"event": "stopped"}));
    Ok(Exit::Ok)
}

fn options(context: &Context, args: &HubArgs) -> Result<HubOptions> {
    Ok(HubOptions {
        database: database(context, args)?,
        data_dir: args
            .data_dir
            .clone()
            .or_else(|| context.settings.hub_data_dir.clone())
            .unwrap_or_else(|| context.paths.hub_dir()),
        listen: args.listen.unwrap_or(context.settings.hub_listen),
        lease_ttl: args.lease_ttl_ms.map(Duration::from_millis),
        oidc: context.settings.oidc.clone(),
    })
}

/// The address of a PostgreSQL database, from the first place that has one.
fn database(context: &Context, args: &HubArgs) -> Result<Option<SecretString>> {
    if let Some(address) = &args.database {
        // User and password end before the last @ of the part that names the server.
        let server = address
            .split_once("://")
            .map_or(address.as_str(), |(_, rest)| rest);
        let user = server.split('/').next().and_then(|place| place.rsplit_once('@'));
        if user.is_some_and(|(user, _)| user.contains(':')) || address.contains("password=") {
            return Err(Problem::input("--database has a password, which every user of this machine could read")
                .fix("put the whole address into EVERDICT_HUB_DATABASE or a file (EVERDICT_HUB_DATABASE_FILE), or the password into PGPASSFILE"));
        }
        return Ok(Some(address.clone().into()));
    }
    if let Some(address) = context.secrets.hub_database() {
        return Ok(Some(address.clone()));
    }
    let Some(file) = context
        .env
        .get("EVERDICT_HUB_DATABASE_FILE")
        .filter(|file| !file.is_empty())
    else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Problem::input(format!(
            "EVERDICT_HUB_DATABASE_FILE names {file}, which can't be read"
        ))
        .fix("name a file with a postgres:// address that this user may read")
        .because(error)
    })?;
    Ok(Some(text.trim().to_owned().into()))
}

async fn create_key(context: &Context, options: &HubOptions, workspace: &str, role: &str) -> Result<Exit> {
    let key = create_api_key(options, workspace, role).await?;
    context.out.document(&json!({
        "apiKey": key.expose_secret(),
        "workspace": workspace,
        "role": role,
    }));
    context.out.say(key.expose_secret());
    Ok(Exit::Ok)
}

fn warn_if_open(context: &Context, listen: SocketAddr) {
    if !listen.ip().is_loopback() {
        context.out.warn(format!(
            "{listen} can be reached from other machines, and keys cross the network unencrypted; \
             put a TLS proxy in front"
        ));
    }
}
