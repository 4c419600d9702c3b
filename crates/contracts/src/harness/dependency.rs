//! The stores of a topology: how they are isolated and how services learn their addresses.

use serde::{Deserialize, Serialize};

use crate::case::StoreKind;
use crate::decode::fields::{non_empty, opt, opt_min1};
use crate::decode::{DecodeError, checked};

/// A store that the topology needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct TopologyDependency {
    pub store: StoreKind,
    pub role: String,
    #[serde(default)]
    pub purpose: StorePurpose,
    pub isolate_by: IsolateBy,
    /// Only this service gets the connection; all of them when absent.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Empty or absent when the store is isolated externally.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub inject: Option<Vec<StoreInject>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub store_config: Option<StoreConfig>,
}

checked!(TopologyDependency);

impl TopologyDependency {
    fn check(&self) -> Result<(), DecodeError> {
        let inject = self.inject.as_deref().unwrap_or_default();
        if self.isolate_by == IsolateBy::External && !inject.is_empty() {
            return Err(DecodeError::invalid(
                "inject",
                "an external store injects nothing",
            ));
        }
        let known = self.store.inject_fields();
        for (index, item) in inject.iter().enumerate() {
            if let Some(field) = unknown_field(&item.template, known) {
                return Err(DecodeError::invalid(
                    format!("inject[{index}].template"),
                    format!("unknown field {{{field}}}, expected one of {}", known.join(", ")),
                ));
            }
        }
        Ok(())
    }
}

/// Whether a store is part of what a case is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorePurpose {
    #[default]
    Plumbing,
    Data,
}

/// How two cases keep out of each other's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IsolateBy {
    #[serde(rename = "thread_id")]
    ThreadId,
    #[serde(rename = "key-prefix")]
    KeyPrefix,
    #[serde(rename = "object-prefix")]
    ObjectPrefix,
    #[serde(rename = "schema")]
    Schema,
    #[serde(rename = "external")]
    External,
}

fn url_template() -> String {
    "{url}".to_owned()
}

/// One variable that carries part of a store's connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreInject {
    #[serde(deserialize_with = "non_empty")]
    pub env: String,
    /// Text with `{field}` places.
    #[serde(default = "url_template")]
    pub template: String,
}

/// Sizes of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoreConfig {
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub evict_when_full: Option<bool>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub persistence: Option<bool>,
}

impl StoreKind {
    /// Returns the fields that a [`StoreInject`] template may name.
    pub fn inject_fields(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &[
                "host", "port", "endpoint", "url", "user", "password", "userinfo", "database",
            ],
            Self::Redis => &[
                "host",
                "port",
                "endpoint",
                "url",
                "user",
                "password",
                "userinfo",
                "keyPrefix",
            ],
            Self::Minio => &[
                "host",
                "port",
                "endpoint",
                "url",
                "accessKey",
                "secretKey",
                "bucket",
            ],
        }
    }
}

/// Finds the first `{name}` of a template that isn't known.
fn unknown_field<'t>(template: &'t str, known: &[&str]) -> Option<&'t str> {
    template.split('{').skip(1).find_map(|part| {
        let (name, _) = part.split_once('}')?;
        let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (word && !known.contains(&name)).then_some(name)
    })
}
