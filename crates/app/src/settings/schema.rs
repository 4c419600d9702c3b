//! The table of known keys, and the walk that checks a file against it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::problem::{Problem, Result};

pub(super) enum Kind {
    Int {
        min: u64,
        max: u64,
    },
    Folders,
    Switch,
    OneOf(&'static [&'static str]),
    /// A list of some of these, each at most once.
    AnyOf(&'static [&'static str]),
    /// `HH:MM` of a day.
    TimeOfDay,
    Address,
    Url,
    /// Address of a container engine; empty finds it.
    Engine,
    /// Address of an identity provider; empty is none.
    Issuer,
    /// Values of a claim with their roles.
    Roles,
    /// Address of a feed; empty is none.
    Feed,
    Text,
}

/// A day: longer waits are a mistyped unit.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A topology that is to stand longer than a week unused is forgotten, not kept.
const WEEK_S: u64 = 7 * 24 * 60 * 60;

/// A petabyte: more is a number in another unit.
const MAX_GB: u64 = 1_000_000;

/// One known key.
pub(super) struct Key {
    /// `table.key`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether a change takes effect while the app runs.
    pub(super) live: bool,
    /// What a number counts.
    pub(super) unit: Option<&'static str>,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key {
        name,
        kind,
        live: false,
        unit: None,
    }
}

impl Key {
    const fn live(mut self) -> Self {
        self.live = true;
        self
    }

    const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }
}

pub(super) const KEYS: &[Key] = &[
    key("hub.url", Kind::Url),
    key("hub.listen", Kind::Address),
    key("hub.data_dir", Kind::Text),
    key("oidc.issuer", Kind::Issuer),
    key("oidc.client_id", Kind::Text),
    key("oidc.workspace", Kind::Text),
    key("oidc.role", Kind::OneOf(&["none", "viewer", "member", "admin"])),
    key("oidc.role_claim", Kind::Text),
    key("oidc.roles", Kind::Roles),
    key("oidc.workspace_claim", Kind::Text),
    key("oidc.key_ttl_s", Kind::Int { min: 60, max: 3600 }).unit("s"),
    key("runner.max_concurrent", Kind::Int { min: 1, max: 64 }).live(),
    key("runner.wait_ms", Kind::Int { min: 0, max: 60_000 }).unit("ms"),
    key("runner.heartbeat_ms", Kind::Int { min: 0, max: DAY_MS }).unit("ms"),
    key("runner.poll_interval_ms", Kind::Int { min: 1, max: DAY_MS }).unit("ms"),
    key("runner.work_root", Kind::Text),
    key("runner.term_deadline_s", Kind::Int { min: 0, max: 3600 }).unit("s"),
    key(
        "power.on_battery",
        Kind::OneOf(&["finish", "hand-back", "ignore"]),
    )
    .live(),
    key("power.keep_awake", Kind::Switch).live(),
    key("network.on_metered", Kind::OneOf(&["wait", "ignore"])).live(),
    key("hours.days", Kind::AnyOf(DAYS)).live(),
    key("hours.from", Kind::TimeOfDay).live(),
    key("hours.to", Kind::TimeOfDay).live(),
    key("limits.while_in_use", Kind::OneOf(&["take", "wait"])).live(),
    key("limits.cpu_in_use", PERCENT).live().unit("%"),
    key("limits.cpu_idle", PERCENT).live().unit("%"),
    key("limits.disk_floor_gb", Kind::Int { min: 0, max: MAX_GB })
        .live()
        .unit("GB"),
    key("consent.ask", Kind::OneOf(&["ask", "always"])).live(),
    key("topology.endpoint", Kind::Engine),
    key("topology.egress", Kind::OneOf(&["fence", "open"])),
    key("topology.idle_ttl_s", Kind::Int { min: 60, max: WEEK_S }).unit("s"),
    key("topology.disk_floor_gb", Kind::Int { min: 0, max: MAX_GB }).unit("GB"),
    key("topology.image_budget_gb", Kind::Int { min: 0, max: MAX_GB }).unit("GB"),
    key("topology.browser_image", Kind::Text),
    key("topology.prepare_databases", Kind::Switch),
    key("topology.allow_host_volumes", Kind::Folders),
    key("notifications.show", Kind::Switch).live(),
    key("notifications.quiet_from", Kind::TimeOfDay).live(),
    key("notifications.quiet_to", Kind::TimeOfDay).live(),
    key("update.feed", Kind::Feed),
    key("update.key", Kind::Text),
    key("secrets.store", Kind::OneOf(&["keyring", "file", "env"])).live(),
    key("log.filter", Kind::Text),
];

/// The days of a week as the settings name them, Monday first.
pub(crate) const DAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const PERCENT: Kind = Kind::Int { min: 1, max: 100 };

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Int(u64),
    Text(String),
    List(Vec<String>),
    Switch(bool),
}

/// Checked values by key, later files over earlier ones.
#[derive(Debug, Clone, Default)]
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
                let Some(Key { name, kind, .. }) = KEYS.iter().find(|known| known.name == path) else {
                    let hint = nearest(&path, KEYS.iter().map(|known| known.name));
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
                self.0.insert(name, checked);
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> &Value {
        self.0.get(key).expect("BUG: the defaults name every key")
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

/// Minutes since midnight of `HH:MM`.
pub(super) fn minute_of_day(text: &str) -> Option<u16> {
    let time = time_of_day(text)?;
    Some(u16::from(time.hour().unsigned_abs()) * 60 + u16::from(time.minute().unsigned_abs()))
}

fn is_feed(text: &str) -> bool {
    text.is_empty() || reqwest::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
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
            (Self::Feed, DeValue::String(text)) => is_feed(text).then(|| Value::Text(text.to_string())),
            (Self::TimeOfDay, DeValue::String(text)) => {
                time_of_day(text).map(|_| Value::Text(text.to_string()))
            }
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
            (Self::AnyOf(names), DeValue::Array(items)) => {
                let mut chosen = Vec::with_capacity(items.len());
                for item in items {
                    let DeValue::String(text) = item.get_ref() else {
                        return None;
                    };
                    if !names.contains(&text.as_ref()) || chosen.iter().any(|have| have == text.as_ref()) {
                        return None;
                    }
                    chosen.push(text.to_string());
                }
                Some(Value::List(chosen))
            }
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
            Self::AnyOf(names) => format!(
                "a list of {}, each at most once",
                names
                    .iter()
                    .map(|name| format!("\"{name}\""))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::TimeOfDay => "a time of day from \"00:00\" to \"23:59\"".to_owned(),
            Self::Address => "an address and port such as \"127.0.0.1:8787\"".to_owned(),
            Self::Engine => "\"\", or an address such as \"unix:///var/run/docker.sock\"".to_owned(),
            Self::Issuer => "\"\", an https:// address, or http:// on loopback".to_owned(),
            Self::Roles => {
                "a list such as [\"staff=member\"], with the roles viewer, member and admin".to_owned()
            }
            Self::Feed => "\"\", or an http:// or https:// address".to_owned(),
            Self::Switch => "true, false".to_owned(),
            Self::Folders => "a list of absolute paths such as [\"/srv/data\"]".to_owned(),
            Self::Url => "an http:// or https:// address".to_owned(),
            Self::Text => "text in quotes".to_owned(),
        }
    }
}

/// Checks one value of `key`, written as TOML, without a file around it.
pub(super) fn check_alone(key: &Key, value: &str) -> Result<()> {
    let text = format!("value = {}", value.trim());
    let allowed = DeTable::parse(&text).is_ok_and(|root| {
        let value = root.get_ref().get("value");
        value.is_some_and(|value| key.kind.check(value.get_ref()).is_some())
    });
    if allowed {
        return Ok(());
    }
    let (name, allowed) = (key.name, key.kind.allowed());
    Err(
        Problem::input(format!("{name} can't be {}; allowed: {allowed}", value.trim()))
            .fix("choose a value that is allowed; the setting is unchanged")
            .coded("setting_refused"),
    )
}

/// Reads `HH:MM`.
pub(super) fn time_of_day(text: &str) -> Option<jiff::civil::Time> {
    let (hour, minute) = text.split_once(':')?;
    if hour.len() != 2 || minute.len() != 2 || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    {
        return None;
    }
    jiff::civil::Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
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
    [
        "hub",
        "oidc",
        "runner",
        "power",
        "network",
        "hours",
        "limits",
        "consent",
        "topology",
        "notifications",
        "update",
        "secrets",
        "log",
    ]
    .into_iter()
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
        for Key { name, .. } in KEYS {
            assert!(values.0.contains_key(name), "{name} has no default");
        }
    }

    #[test]
    fn every_key_is_in_a_known_table() {
        for Key { name, .. } in KEYS {
            let table = name.split('.').next().unwrap();
            assert!(tables().any(|known| known == table), "{name}");
        }
    }
}
