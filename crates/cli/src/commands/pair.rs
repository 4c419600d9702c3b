//! `pair`: make a runner at a hub with an API key or a sign-in, or take one by its token.

mod sign_in;

use everdict_app::{
    HubClient, Pairing, Problem, ProblemClass, Registration, Result, SecretName, StoreKind, hub_url,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use crate::args::PairArgs;
use crate::context::{Context, secret_from_stdin};
use crate::exit::Exit;

pub(crate) async fn run(context: &Context, args: &PairArgs) -> Result<Exit> {
    context.paths.prepare()?;
    let hub = context.hub(args.hub.as_deref())?;
    if hub_url::is_cleartext(&hub) {
        context.out.warn(format!(
            "{} is reached without encryption: anyone on the way can read the token",
            hub_url::host(&hub)
        ));
    }
    let label = args.label.clone().unwrap_or_else(everdict_app::host_name);
    let kind = args.token_store.unwrap_or(context.settings.secret_store);
    let registrations = context.registrations();
    let pairing = Pairing {
        store: context.store(kind),
        registrations: &registrations,
    };
    if args.sign_in {
        let (registration, token) = sign_in::pair(context, &hub, &pairing, &label).await?;
        let shown = (kind == StoreKind::Env).then_some(token);
        report(context, &registration, shown.as_ref());
        return Ok(Exit::Ok);
    }
    if let Some(token) = given_token(context, args)? {
        let registration = pairing.with_token(&hub, token, &label).await?;
        report(context, &registration, None);
        return Ok(Exit::Ok);
    }
    let key = api_key(context, args)?;
    let client = HubClient::new(hub.clone(), Some(key.clone()))?;
    let (registration, token) = pairing.with_api_key(&client, &label).await?;
    if args.save_api_key
        && let Err(fault) = pairing.store.set(&SecretName::api_key(&hub), &key).await
    {
        context
            .out
            .warn(format!("paired, but the API key is not kept: {fault}"));
    }
    // Nothing keeps it for the person who chose `env`; this is the only time it can be seen.
    let shown = (kind == StoreKind::Env).then_some(token);
    report(context, &registration, shown.as_ref());
    Ok(Exit::Ok)
}

fn given_token(context: &Context, args: &PairArgs) -> Result<Option<SecretString>> {
    if let Some(token) = &args.token {
        context.out.warn(
            "a token on the command line can be seen by other users of this machine; prefer --token-stdin",
        );
        return Ok(Some(SecretString::from(token.clone())));
    }
    if args.token_stdin {
        return secret_from_stdin("runner token").map(Some);
    }
    // With no API key at hand, the token the environment brought is what the person means.
    let has_key = args.api_key_stdin || context.secrets.api_key().is_some();
    Ok(context.secrets.runner_token().filter(|_| !has_key).cloned())
}

fn api_key(context: &Context, args: &PairArgs) -> Result<SecretString> {
    if args.api_key_stdin {
        return secret_from_stdin("API key");
    }
    context.secrets.api_key().cloned().ok_or_else(|| {
        Problem::new(
            ProblemClass::NotPaired,
            "no API key and no runner token to pair with",
        )
        .fix(
            "set EVERDICT_API_KEY or use --api-key-stdin; with a token made elsewhere use --token-stdin; \
             --sign-in where the hub offers it",
        )
    })
}

fn report(context: &Context, registration: &Registration, token: Option<&SecretString>) {
    let out = context.out;
    let target = format!("self:{}", registration.runner_id);
    out.document(&json!({
        "runner": registration,
        "target": target,
        "token": token.map(secrecy::ExposeSecret::expose_secret),
    }));
    out.say(format!(
        "Paired {} with {}",
        registration.label, registration.hub_url
    ));
    out.say(format!(
        "  owner {}, workspace {}, target {target}",
        registration.owner, registration.workspace
    ));
    match token {
        Some(token) => out.say(format!(
            "  The token is not kept. Set it at each start:\n  EVERDICT_RUNNER_TOKEN={}",
            token.expose_secret()
        )),
        None => out.say(format!("  token kept in: {}", registration.store)),
    }
    out.say("Next: everdict-runner start");
}
