//! How an agent under test is run: a process, a command, or a topology of services.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::decode::fields::{non_empty, opt};
use crate::decode::{carry, from_value, tagged, unexpected};

pub mod command;
pub mod dependency;
pub mod front_door;
pub mod mapping;
mod resolve;
pub mod service;
pub mod target;
pub mod template;

pub use command::{CommandHarness, CommandTraceSpec, LiveScreenSpec};
pub use resolve::resolve;
pub use service::ServiceHarness;

/// The harnesses that need no spec: a runner brings them. Set by the protocol.
pub const BUILT_IN_HARNESSES: &[&str] = &["claude-code", "scripted"];

/// A harness, resolved: no pins or secrets left to look up.
#[expect(
    clippy::large_enum_variant,
    reason = "a process has one per job; a box would only get in the way of matching"
)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum HarnessSpec {
    Process(ProcessHarness),
    Command(CommandHarness),
    Service(Box<ServiceHarness>),
}

tagged!(HarnessSpec by "kind" { "process" => Process, "command" => Command, "service" => Service });

impl HarnessSpec {
    /// Returns the harness's id.
    pub fn id(&self) -> &str {
        match self {
            Self::Process(spec) => &spec.id,
            Self::Command(spec) => &spec.id,
            Self::Service(spec) => &spec.id,
        }
    }

    /// Returns the harness's version, never empty.
    pub fn version(&self) -> &str {
        match self {
            Self::Process(spec) => &spec.version,
            Self::Command(spec) => &spec.version,
            Self::Service(spec) => &spec.version,
        }
    }
}

/// A harness that every runner has built in, named by its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessHarness {
    pub id: String,
    #[serde(deserialize_with = "non_empty")]
    pub version: String,
}

/// A model by plain name, or by reference to a model document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ModelBinding {
    Name(String),
    Ref(ModelRef),
}

impl ModelBinding {
    /// Returns the name, or the id of the document: what `{{model}}` stands for.
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Ref(reference) => &reference.r#ref,
        }
    }
}

/// A reference to a model document, and the names its connection is injected under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRef {
    pub r#ref: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub env: Option<ModelRefEnv>,
}

/// Environment names for a model's connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelRefEnv {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl<'de> Deserialize<'de> for ModelBinding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or(deserializer, Self::Name, Self::Ref, "text or a model reference")
    }
}

/// The value of an environment variable: plain, or a secret that the control plane fills in before dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EnvValue {
    Plain(String),
    Secret(SecretRef),
}

/// Names a secret of the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    #[serde(deserialize_with = "non_empty")]
    pub secret_ref: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub scope: Option<SecretScope>,
}

/// Whose secret it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretScope {
    User,
    Workspace,
}

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or(
            deserializer,
            Self::Plain,
            Self::Secret,
            "text or a secret reference",
        )
    }
}

impl From<&str> for EnvValue {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

/// Environment variables by name.
pub type EnvMap = BTreeMap<String, EnvValue>;

/// Decodes the untagged union of text and one object form.
pub(crate) fn text_or<'de, D, T, U>(
    deserializer: D,
    text: fn(String) -> T,
    object: fn(U) -> T,
    expected: &'static str,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    U: serde::de::DeserializeOwned,
{
    match Value::deserialize(deserializer)? {
        Value::String(plain) => Ok(text(plain)),
        value @ Value::Object(_) => from_value(value).map(object).map_err(|error| carry(&error)),
        other => Err(D::Error::invalid_type(unexpected(&other), &expected)),
    }
}
