//! The table of known keys, and the walk that checks a file against it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::problem::{Problem, Result};

enum Kind {
    Int {
        min: u64,
        max: u64,
    },
    Folders,
    Switch,
    OneOf(&'static [&'static str]),
    Address,
    Url,
    /// Address of a container engine; empty finds it.
    Engine,
    /// Address of an identity provider; empty is none.
    Issuer,
    /// Values of a claim with their roles.
    Roles,
    Text,
}

/// A day: longer waits are a mistyped unit.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A topology that is to stand longer than a week unused is forgotten, not kept.
const WEEK_S: u64 = 7 * 24 * 60 * 60;

/// A petabyte: more is a number in another unit.
const MAX_GB: u64 = 1_000_000;

const KEYS: &[(&str, Kind)] = &[
    ("hub.url", Kind::Url),
    ("hub.listen", Kind::Address),
    ("hub.data_dir", Kind::Text),
    ("oidc.issuer", Kind::Issuer),
    ("oidc.client_id", Kind::Text),
    ("oidc.workspace", Kind::Text),
    ("oidc.role", Kind::OneOf(&["none", "viewer", "member", "admin"])),
    ("oidc.role_claim", Kind::Text),
    ("oidc.roles", Kind::Roles),
    ("oidc.workspace_claim", Kind::Text),
    ("oidc.key_ttl_s", Kind::Int { min: 60, max: 3600 }),
    ("runner.max_concurrent", Kind::Int { min: 1, max: 64 }),
    ("runner.wait_ms", Kind::Int { min: 0, max: 60_000 }),
    ("runner.heartbeat_ms", Kind::Int { min: 0, max: DAY_MS }),
    ("runner.poll_interval_ms", Kind::Int { min: 1, max: DAY_MS }),
    ("runner.work_root", Kind::Text),
    ("runner.term_deadline_s", Kind::Int { min: 0, max: 3600 }),
    ("topology.endpoint", Kind::Engine),
    ("topology.idle_ttl_s", Kind::Int { min: 60, max: WEEK_S }),
    ("topology.disk_floor_gb", Kind::Int { min: 0, max: MAX_GB }),
    ("topology.image_budget_gb", Kind::Int { min: 0, max: MAX_GB }),
    ("topology.browser_image", Kind::Text),
    ("topology.prepare_databases", Kind::Switch),
    ("topology.allow_host_volumes", Kind::Folders),
    ("secrets.store", Kind::OneOf(&["keyring", "file", "env"])),
    ("log.filter", Kind::Text),
];

#[derive(Debug, Clone)]
enum Value {
    Int(u64),
    Text(String),
    List(Vec<String>),
    Switch(bool),
}

/// Checked values by key, later files over earlier ones.
#[derive(Debug, Default)]
pub(super) struct Values(BTreeMap<&'static str, Value>);

impl Values {
    pub(super) fn merge(&mut self, file: &str, text: &str) -> Result<()> {
        let source = Source { file, text };
        let root = DeTable::parse(text).map_err(|error| {
            source.refuse(
                error.span().unwrap_or(0..0),
                error.message().to_lowercase().trim_end_matches('.'),
            )
        })?;
        for (table, body) in root.get_ref() {
            let name = table.get_ref().as_ref();
            if !tables().any(|known| known == name) {
                let hint = nearest(name, tables());
                return Err(source.refuse(table.span(), &format!("unknown table {name}{hint}")));
            }
            let DeValue::Table(entries) = body.get_ref() else {
                return Err(source.refuse(body.span(), &format!("{name} must be a table")));
            };
            for (key, value) in entries {
                let path = format!("{name}.{}", key.get_ref());
                let Some((known, kind)) = KEYS.iter().find(|(known, _)| *known == path) else {
                    let hint = nearest(&path, KEYS.iter().map(|(known, _)| *known));
                    return Err(source.refuse(key.span(), &format!("unknown key {path}{hint}")));
                };
                let checked = kind.check(value.get_ref()).ok_or_else(|| {
                    let shown = text.get(value.span()).unwrap_or_default();
                    let allowed = kind.allowed();
                    source.refuse(
                        value.span(),
                        &format!("{path} can't be {shown}; allowed: {allowed}"),
                    )
                })?;
                self.0.insert(known, checked);
            }
        }
        Ok(())
    }

    pub(super) fn int(&self, key: &str) -> u64 {
        match self.0.get(key) {
            Some(Value::Int(value)) => *value,
            other => unreachable!("BUG: {key} is not a whole number: {other:?}"),
        }
    }

    pub(super) fn text(&self, key: &str) -> String {
        match self.0.get(key) {
            Some(Value::Text(value)) => value.clone(),
            other => unreachable!("BUG: {key} is not text: {other:?}"),
        }
    }

    pub(super) fn switch(&self, key: &str) -> bool {
        match self.0.get(key) {
            Some(Value::Switch(value)) => *value,
            other => unreachable!("BUG: {key} is no switch: {other:?}"),
        }
    }

    pub(super) fn list(&self, key: &str) -> &[String] {
        match self.0.get(key) {
            Some(Value::List(values)) => values,
            other => unreachable!("BUG: {key} is no list: {other:?}"),
        }
    }

    pub(super) fn folders(&self, key: &str) -> Vec<PathBuf> {
        self.list(key).iter().map(PathBuf::from).collect()
    }

    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        let text = self.text(key);
        (!text.is_empty()).then(|| PathBuf::from(text))
    }
}

impl Kind {
    fn check(&self, value: &DeValue<'_>) -> Option<Value> {
        match (self, value) {
            (Self::Int { min, max }, DeValue::Integer(number)) => {
                let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
                (*min..=*max).contains(&number).then_some(Value::Int(number))
            }
            (Self::OneOf(names), DeValue::String(text)) => names
                .contains(&text.as_ref())
                .then(|| Value::Text(text.to_string())),
            (Self::Address, DeValue::String(text)) => text
                .parse::<SocketAddr>()
                .ok()
                .map(|_| Value::Text(text.to_string())),
            (Self::Url, DeValue::String(text)) => crate::hub_url::parse(text)
                .ok()
                .map(|_| Value::Text(text.to_string())),
            (Self::Engine, DeValue::String(text)) => (text.is_empty()
                || ["unix:///", "npipe://"]
                    .iter()
                    .any(|scheme| text.starts_with(scheme)))
            .then(|| Value::Text(text.to_string())),
            (Self::Issuer, DeValue::String(text)) => {
                (text.is_empty() || super::oidc::is_issuer(text)).then(|| Value::Text(text.to_string()))
            }
            (Self::Roles, DeValue::Array(items)) => items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => super::oidc::parse_role(text).map(|_| text.to_string()),
                    _ => None,
                })
                .collect::<Option<Vec<String>>>()
                .map(Value::List),
            (Self::Folders, DeValue::Array(items)) => items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) if Path::new(text.as_ref()).is_absolute() => Some(text.to_string()),
                    _ => None,
                })
                .collect::<Option<Vec<String>>>()
                .map(Value::List),
            (Self::Switch, DeValue::Boolean(value)) => Some(Value::Switch(*value)),
            (Self::Text, DeValue::String(text)) => Some(Value::Text(text.to_string())),
            _ => None,
        }
    }

    fn allowed(&self) -> String {
        match self {
            Self::Int { min, max } => format!("a whole number from {min} to {max}"),
            Self::OneOf(names) => names
                .iter()
                .map(|name| format!("\"{name}\""))
                .collect::<Vec<_>>()
                .join(", "),
            Self::Address => "an address and port such as \"127.0.0.1:8787\"".to_owned(),
            Self::Engine => "\"\", or an address such as \"unix:///var/run/docker.sock\"".to_owned(),
            Self::Issuer => "\"\", an https:// address, or http:// on loopback".to_owned(),
            Self::Roles => {
                "a list such as [\"staff=member\"], with the roles viewer, member and admin".to_owned()
            }
            Self::Switch => "true, false".to_owned(),
            Self::Folders => "a list of absolute paths such as [\"/srv/data\"]".to_owned(),
            Self::Url => "an http:// or https:// address".to_owned(),
            Self::Text => "text in quotes".to_owned(),
        }
    }
}

struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn refuse(&self, span: Range<usize>, what: &str) -> Problem {
        let end = span.start.min(self.text.len());
        let line = 1 + self.text.as_bytes()[..end]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        Problem::input(format!("{}:{line}: {what}", self.file))
            .fix("correct that line; `everdict-runner help settings` prints every key with its default")
    }
}

fn tables() -> impl Iterator<Item = &'static str> {
    ["hub", "oidc", "runner", "topology", "secrets", "log"].into_iter()
}

/// Below this likeness a suggestion would be a guess.
const LIKENESS: f64 = 0.8;

fn nearest(name: &str, known: impl Iterator<Item = &'static str>) -> String {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("; did you mean {candidate}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_file_documents_every_key() {
        let mut values = Values::default();
        values.merge("defaults.toml", super::super::DEFAULTS).unwrap();
        for (key, _) in KEYS {
            assert!(values.0.contains_key(key), "{key} has no default");
        }
    }

    #[test]
    fn every_key_is_in_a_known_table() {
        for (key, _) in KEYS {
            let table = key.split('.').next().unwrap();
            assert!(tables().any(|known| known == table), "{key}");
        }
    }
}
