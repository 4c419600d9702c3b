//! Which secrets a case could show, and the one place where what it shows is masked.
//!
//! What processes print is masked as a stream, where they are read; here it is what comes on other ways: remarks, trace
//! events, files, the diff, faults.

use std::sync::Arc;

use everdict_contracts::{CaseJob, CaseResult, Fault, TraceEvent, TrackEntry, decode};
use everdict_exec::Redactor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::{CaseContext, Progress};

/// A variable is only guessed to hold a secret, by its name. A shorter value is too often an ordinary word.
const MIN_GUESSED: usize = 8;

/// Last words of a variable's name that tell a secret.
const SECRET_ENDS: [&str; 11] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "KEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "PAT",
    "DSN",
];

/// The parts of a result that say whose it is: they come from the job, and the hub looks the case up by them.
const IDENTITY: [&str; 2] = ["caseId", "harness"];

/// The context with the job's and the host's secrets known, and a progress that shows none of them.
pub(crate) fn covered(job: &CaseJob, ctx: &CaseContext) -> CaseContext {
    let mask = ctx.mask.with(known(job, ctx));
    CaseContext {
        progress: Arc::new(Covered {
            inner: Arc::clone(&ctx.progress),
            mask: Arc::clone(&mask),
        }),
        mask,
        ..ctx.clone()
    }
}

fn known(job: &CaseJob, ctx: &CaseContext) -> Vec<String> {
    let mut secrets: Vec<String> = Vec::new();
    secrets.extend(job.repo_token.iter().map(|token| token.expose().to_owned()));
    secrets.extend(job.judge_auth.iter().map(|auth| auth.api_key.expose().to_owned()));
    let passwords = job.pull_credentials().iter();
    secrets.extend(passwords.map(|auth| auth.password.expose().to_owned()));
    for (name, value) in ctx.host_env.vars() {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            guess(name, value, &mut secrets);
        }
    }
    for part in [
        serde_json::to_value(&job.harness_spec),
        serde_json::to_value(&job.eval_case),
    ] {
        variables(&part.unwrap_or_default(), &mut secrets);
    }
    secrets
}

/// Every variable in a part of the job, however deep: command harnesses, services and graders each have their own.
fn variables(part: &Value, secrets: &mut Vec<String>) {
    match part {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(text) => guess(name, text, secrets),
                    inner => variables(inner, secrets),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| variables(item, secrets)),
        _ => {}
    }
}

fn guess(name: &str, value: &str, secrets: &mut Vec<String>) {
    let is_variable = name
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if !is_variable {
        return;
    }
    let last = name.rsplit('_').next().unwrap_or_default();
    let tells = SECRET_ENDS.contains(&last) || name.ends_with("CONNECTION_STRING");
    if tells && value.trim().len() >= MIN_GUESSED {
        secrets.push(value.to_owned());
    }
    secrets.extend(password_of(value).map(str::to_owned));
}

/// The password of `scheme://user:password@host`.
fn password_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _host) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    (password.len() >= MIN_GUESSED).then_some(password)
}

/// The result with every secret masked.
///
/// # Errors
/// `INTERNAL` when it can't be looked through: it is not given out then.
pub(crate) fn cover_result(mask: &Redactor, result: CaseResult) -> Result<CaseResult, Fault> {
    if mask.is_empty() {
        return Ok(result);
    }
    let unseen = |error: String| {
        Fault::internal(format!(
            "the result could not be searched for secrets, and is held back: {error}"
        ))
    };
    let mut value = serde_json::to_value(&result).map_err(|error| unseen(error.to_string()))?;
    let mut changed = false;
    if let Value::Object(map) = &mut value {
        for (key, part) in map {
            if !IDENTITY.contains(&key.as_str()) {
                changed |= cover_value(mask, part);
            }
        }
    }
    if !changed {
        return Ok(result);
    }
    decode(value).map_err(|error| unseen(error.to_string()))
}

/// The fault with every secret masked; what caused it goes into its own words first.
pub(crate) fn cover_fault(mask: &Redactor, fault: Fault) -> Fault {
    let said = fault.full_message();
    let told = mask.text(&said);
    let tail = fault.extra.log_tail.as_deref().map(|tail| mask.text(tail));
    let clean = *told == said && tail == fault.extra.log_tail.as_deref().map(Into::into);
    if clean {
        return fault;
    }
    let mut covered = Fault::new(fault.code, told);
    covered.extra = fault.extra.clone();
    covered.extra.log_tail = tail.map(std::borrow::Cow::into_owned);
    covered
}

fn cover_value(mask: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => match mask.text(text) {
            std::borrow::Cow::Borrowed(_) => false,
            std::borrow::Cow::Owned(masked) => {
                *text = masked;
                true
            }
        },
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |changed, item| cover_value(mask, item) | changed),
        Value::Object(map) => map
            .values_mut()
            .fold(false, |changed, item| cover_value(mask, item) | changed),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Shows nothing of the secrets.
struct Covered {
    inner: Arc<dyn Progress>,
    mask: Arc<Redactor>,
}

impl Covered {
    /// `None` for what can't be looked through.
    fn cover<T: Serialize + DeserializeOwned>(&self, item: T) -> Option<T> {
        if self.mask.is_empty() {
            return Some(item);
        }
        let mut value = serde_json::to_value(&item).ok()?;
        if cover_value(&self.mask, &mut value) {
            decode(value).ok()
        } else {
            Some(item)
        }
    }
}

impl Progress for Covered {
    fn log(&self, line: &str) {
        self.inner.log(&self.mask.text(line));
    }

    fn log_of(&self, part: &str, line: &str) {
        self.inner.log_of(part, &self.mask.text(line));
    }

    fn trace(&self, events: Vec<TraceEvent>) {
        let events = events.into_iter().filter_map(|event| self.cover(event));
        self.inner.trace(events.collect());
    }

    fn track(&self, entry: TrackEntry) {
        if let Some(entry) = self.cover(entry) {
            self.inner.track(entry);
        }
    }

    fn frame(&self, png_base64: String) {
        self.inner.frame(png_base64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(name: &str, value: &str) -> bool {
        let mut secrets = Vec::new();
        guess(name, value, &mut secrets);
        !secrets.is_empty()
    }

    #[test]
    fn a_secret_is_guessed_by_the_name_of_its_variable() {
        for name in [
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD_PASSWORD",
            "API_KEY",
            "DB_CONNECTION_STRING",
        ] {
            assert!(guessed(name, "long enough"), "{name}");
        }
        for name in [
            "AWS_ACCESS_KEY_ID",
            "SSH_AUTH_SOCK",
            "KEY_FILE",
            "PWD",
            "apiKey",
            "authSecret",
        ] {
            assert!(!guessed(name, "long enough"), "{name}");
        }
        assert!(!guessed("API_KEY", "short"));
    }

    #[test]
    fn the_password_in_an_address_is_one() {
        assert_eq!(
            password_of("postgres://u:correct-horse@db:5432/x?y"),
            Some("correct-horse")
        );
        for url in [
            "http://h/p",
            "http://u@h",
            "no address",
            "http://h/a:longenough@b",
        ] {
            assert_eq!(password_of(url), None, "{url}");
        }
    }

    #[test]
    fn a_fault_is_masked_with_its_causes_and_its_log() {
        let mask = Redactor::new(["hunter2-hunter2"]);
        let cause = std::io::Error::other("401 for hunter2-hunter2");
        let fault = Fault::internal("it failed")
            .caused_by(cause)
            .with_log_tail("token hunter2-hunter2");
        let covered = cover_fault(&mask, fault);
        assert_eq!(covered.full_message(), "it failed: 401 for ***");
        assert_eq!(covered.extra.log_tail.as_deref(), Some("token ***"));
    }
}
