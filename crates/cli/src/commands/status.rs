//! `status`: what is paired here, and what each hub says about it now.

use everdict_app::{HubClient, HubFault, Problem, Registration, Result};
use everdict_contracts::RunnerMeta;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Cell, Hue, age};

/// A runner that called within this long is online; the hub counts the same.
const ONLINE_SECONDS: i64 = 90;

pub(crate) async fn run(context: &Context) -> Result<Exit> {
    let registrations = context.registrations().list()?;
    let mut rows = Vec::new();
    let mut document: Vec<Value> = Vec::new();
    let mut exit = Exit::Ok;
    for registration in &registrations {
        let asked = ask(context, registration).await;
        if let Err(problem) = &asked {
            exit = Exit::from(problem.class());
        }
        rows.push(row(registration, &asked));
        document.push(entry(registration, &asked));
    }
    context.out.document(&json!({"runners": document}));
    if registrations.is_empty() {
        context
            .out
            .say("Not paired with any hub. Next: everdict-runner pair --hub <address>");
        return Ok(Exit::Ok);
    }
    context
        .out
        .table(&["RUNNER", "HUB", "STATE", "TARGET", "TOKEN"], &rows);
    Ok(exit)
}

async fn ask(context: &Context, registration: &Registration) -> Result<Option<RunnerMeta>> {
    let store = context.store(registration.store);
    let token = store
        .get(&registration.secret_name()?)
        .await
        .map_err(Problem::from)?;
    let hub = registration.hub()?;
    let client = HubClient::new(hub.clone(), Some(token))?;
    // Only a member sees the roster; the runner's own token proves that the hub still knows it.
    client.me().await?;
    let member = match context.secrets.api_key() {
        Some(key) => Some(key.clone()),
        None => context.kept_api_key(&hub).await?,
    };
    let asking = match member {
        Some(key) => HubClient::new(hub, Some(key))?,
        None => client,
    };
    match asking.runners().await {
        Ok(roster) => Ok(roster.into_iter().find(|meta| meta.id == registration.runner_id)),
        Err(HubFault::Forbidden { .. } | HubFault::Unauthenticated { .. }) => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

fn words(asked: &Result<Option<RunnerMeta>>) -> (String, Hue) {
    match asked {
        Err(problem) => (problem.chain(), Hue::Bad),
        Ok(None) => ("Known to the hub".to_owned(), Hue::Plain),
        Ok(Some(meta)) => match &meta.last_seen_at {
            None => ("Never connected".to_owned(), Hue::Plain),
            Some(seen) if is_online(seen) => {
                let said = meta
                    .status
                    .as_ref()
                    .map_or("Online", |status| status.text.as_str());
                (format!("{said} · {}", age(seen)), Hue::Good)
            }
            Some(seen) => (format!("Offline · last seen {}", age(seen)), Hue::Warn),
        },
    }
}

fn is_online(seen: &str) -> bool {
    seen.parse::<Timestamp>()
        .is_ok_and(|seen| Timestamp::now().duration_since(seen).as_secs() < ONLINE_SECONDS)
}

fn row(registration: &Registration, asked: &Result<Option<RunnerMeta>>) -> Vec<Cell> {
    let (state, hue) = words(asked);
    vec![
        Cell::plain(&registration.label),
        Cell::plain(&registration.hub_url),
        Cell::new(state, hue),
        Cell::plain(format!("self:{}", registration.runner_id)),
        Cell::plain(registration.store.as_str()),
    ]
}

fn entry(registration: &Registration, asked: &Result<Option<RunnerMeta>>) -> Value {
    let (state, _) = words(asked);
    json!({
        "registration": registration,
        "target": format!("self:{}", registration.runner_id),
        "state": state,
        "atHub": asked.as_ref().ok().and_then(Option::as_ref),
        "error": asked.as_ref().err().map(|problem| json!({
            "class": problem.class().as_str(),
            "message": problem.chain(),
            "fix": problem.next_step(),
        })),
    })
}
