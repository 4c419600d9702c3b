//! The stores of a topology: how they are isolated and how services learn their addresses.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::case::StoreKind;
use crate::decode::fields::{non_empty, opt, opt_min1};

/// A store that the topology needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyDependency {
    pub store: StoreKind,
    pub role: String,
    pub purpose: StorePurpose,
    pub isolate_by: IsolateBy,
    /// Only this service gets the connection; all of them when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inject: Option<Vec<StoreInject>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_config: Option<StoreConfig>,
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DependencyForm {
    store: StoreKind,
    role: String,
    #[serde(default)]
    purpose: StorePurpose,
    isolate_by: IsolateBy,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    inject: Option<Vec<StoreInject>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    store_config: Option<StoreConfig>,
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

impl<'de> Deserialize<'de> for TopologyDependency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = DependencyForm::deserialize(deserializer)?;
        let inject = form.inject.as_deref().unwrap_or_default();
        if form.isolate_by == IsolateBy::External && !inject.is_empty() {
            return Err(D::Error::custom("at `inject`: an external store injects nothing"));
        }
        for (index, item) in inject.iter().enumerate() {
            if let Some(field) = unknown_field(&item.template, form.store.inject_fields()) {
                return Err(D::Error::custom(format_args!(
                    "at `inject[{index}].template`: unknown field {{{field}}}, expected one of {}",
                    form.store.inject_fields().join(", ")
                )));
            }
        }
        Ok(Self {
            store: form.store,
            role: form.role,
            purpose: form.purpose,
            isolate_by: form.isolate_by,
            service: form.service,
            inject: form.inject,
            store_config: form.store_config,
        })
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
