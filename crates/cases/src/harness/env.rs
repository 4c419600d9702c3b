//! What a harness finds in its environment.

use everdict_contracts::{CommandHarness, EnvValue, Fault};
use everdict_exec::HostEnv;

/// The model credentials a harness gets from the host when they are set there, and the only ones.
const MODEL_AUTH: [&str; 7] = [
    "CLAUDE_CODE_OAUTH_TOKEN",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
];

/// The host's model credentials, as far as they are set.
pub(super) fn model_auth(host: &HostEnv) -> Vec<(String, String)> {
    MODEL_AUTH
        .iter()
        .filter_map(|name| host.get(name).map(|value| (*name, value)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The variables a command harness declares.
///
/// # Errors
/// `BAD_REQUEST` naming every variable whose secret was not resolved, or the first that no process can take.
pub(super) fn declared(spec: &CommandHarness) -> Result<Vec<(String, String)>, Fault> {
    let mut unresolved = Vec::new();
    let mut pairs = Vec::with_capacity(spec.env.len());
    for (name, value) in &spec.env {
        match value {
            EnvValue::Secret(_) => unresolved.push(name.as_str()),
            EnvValue::Plain(value) => {
                check(name, value)?;
                pairs.push((name.clone(), value.clone()));
            }
        }
    }
    if unresolved.is_empty() {
        return Ok(pairs);
    }
    Err(Fault::bad_request(format!(
        "harnessSpec.env: the secrets of {} arrived unresolved; the control plane has to fill them in before it sends the job",
        unresolved.join(", ")
    )))
}

fn check(name: &str, value: &str) -> Result<(), Fault> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Fault::bad_request(format!(
            "harnessSpec.env: `{name}` can't be the name of a variable"
        )));
    }
    if value.contains('\0') {
        return Err(Fault::bad_request(format!(
            "harnessSpec.env.{name}: the value contains a NUL character"
        )));
    }
    Ok(())
}
