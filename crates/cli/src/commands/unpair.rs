//! `unpair`: forget runners here, and revoke them at the hub where a key allows it.

use everdict_app::{HubClient, HubSide, Problem, Registration, Result, unpair};
use serde_json::{Value, json};

use crate::args::UnpairArgs;
use crate::context::Context;
use crate::exit::Exit;

pub(crate) async fn run(context: &Context, args: &UnpairArgs) -> Result<Exit> {
    let registrations = context.registrations();
    let chosen = registrations.select(&args.runners)?;
    if chosen.len() > 1 && args.runners.is_empty() && !args.all {
        return Err(
            Problem::input(format!("this machine has {} runners", chosen.len()))
                .fix("name the one to forget, or use --all; `everdict-runner status` lists them"),
        );
    }
    let mut done: Vec<Value> = Vec::new();
    for registration in &chosen {
        let client = context
            .secrets
            .api_key()
            .map(|key| HubClient::new(registration.hub()?, Some(key.clone())))
            .transpose()?;
        let store = context.store(registration.store);
        let side = unpair(registration, store.as_ref(), &registrations, client.as_ref()).await?;
        done.push(report(context, registration, &side));
    }
    context.out.document(&json!({"unpaired": done}));
    Ok(Exit::Ok)
}

fn report(context: &Context, registration: &Registration, side: &HubSide) -> Value {
    let out = context.out;
    out.say(format!(
        "Unpaired {} from {}",
        registration.label, registration.hub_url
    ));
    let (word, note) = match side {
        HubSide::Revoked => ("revoked", None),
        HubSide::NotAsked => (
            "not_asked",
            Some("the hub still lists it: revoke it on its Runners page, or set EVERDICT_API_KEY".to_owned()),
        ),
        HubSide::Failed(fault) => ("failed", Some(format!("the hub may still list it: {fault}"))),
    };
    if let Some(note) = &note {
        out.say(format!("  {note}"));
    }
    json!({
        "runnerId": registration.runner_id,
        "label": registration.label,
        "hubUrl": registration.hub_url,
        "atHub": word,
        "note": note,
    })
}
