//! The service harness: a topology of services and stores behind a front door.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::front_door::FrontDoorSpec;
use super::mapping::SpanAttrMapping;
use super::target::TopologyTarget;
use super::{EnvMap, ModelBinding, text_or};
use crate::case::{Os, ResourceRequest, StoreKind};
use crate::decode::fields::{int, non_empty, non_empty_list, opt_int, opt_positive, positive, present};
use crate::decode::{carry, from_value};
use crate::harness::command::Correlate;

/// A harness made of services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceHarness {
    pub id: String,
    #[serde(deserialize_with = "non_empty")]
    pub version: String,
    pub services: Vec<TopologyService>,
    #[serde(default)]
    pub dependencies: Vec<TopologyDependency>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub target: Option<TopologyTarget>,
    pub front_door: FrontDoorSpec,
    pub trace_source: TraceSourceSpec,
}

fn one() -> i64 {
    1
}

/// One service of a topology. A container needs `image`; host execution forbids it and needs a command.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyService {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    pub needs: Vec<String>,
    pub per_run: Vec<String>,
    pub replicas: i64,
    pub env: EnvMap,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelBinding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<ReadinessSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires: Option<ServiceRequires>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ServiceExec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wiring: Option<Vec<PeerWiring>>,
}

/// The fields of a service as they stand on the wire, before the rules that span several of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceForm {
    pub name: String,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub image: Option<String>,
    #[serde(
        default,
        deserialize_with = "opt_int",
        skip_serializing_if = "Option::is_none"
    )]
    pub port: Option<i64>,
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default)]
    pub per_run: Vec<String>,
    #[serde(default = "one", deserialize_with = "int")]
    pub replicas: i64,
    #[serde(default)]
    pub env: EnvMap,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub model: Option<ModelBinding>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub volumes: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub readiness: Option<ReadinessSpec>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub resources: Option<ResourceRequest>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub requires: Option<ServiceRequires>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub exec: Option<ServiceExec>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub wiring: Option<Vec<PeerWiring>>,
}

impl ServiceForm {
    /// Applies the rules between `image`, `exec.kind` and `exec.command`.
    pub(crate) fn check(self) -> Result<TopologyService, &'static str> {
        let host = self.exec.as_ref().is_some_and(|exec| exec.kind == ExecKind::Host);
        if host {
            if self.image.is_some() {
                return Err("at `image`: a service on the host takes no image");
            }
            if self
                .exec
                .as_ref()
                .and_then(|exec| exec.command.as_ref())
                .is_none_or(Vec::is_empty)
            {
                return Err("at `exec.command`: a service on the host needs a command");
            }
        } else if self.image.is_none() {
            return Err("at `image`: a service in a container needs an image");
        }
        Ok(self.into_service())
    }

    pub(crate) fn into_service(self) -> TopologyService {
        TopologyService {
            name: self.name,
            image: self.image,
            port: self.port,
            needs: self.needs,
            per_run: self.per_run,
            replicas: self.replicas,
            env: self.env,
            model: self.model,
            volumes: self.volumes,
            readiness: self.readiness,
            resources: self.resources,
            requires: self.requires,
            exec: self.exec,
            wiring: self.wiring,
        }
    }
}

impl<'de> Deserialize<'de> for TopologyService {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ServiceForm::deserialize(deserializer)?
            .check()
            .map_err(D::Error::custom)
    }
}

impl TopologyService {
    /// Tells whether the service runs on the host rather than in a container.
    pub fn on_host(&self) -> bool {
        self.exec.as_ref().is_some_and(|exec| exec.kind == ExecKind::Host)
    }
}

fn minute() -> u64 {
    60_000
}

fn second() -> u64 {
    1_000
}

/// How long and how often to ask whether a service is up, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessSpec {
    #[serde(default = "minute", deserialize_with = "positive")]
    pub timeout_ms: u64,
    #[serde(default = "second", deserialize_with = "positive")]
    pub interval_ms: u64,
}

/// What a service demands of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceRequires {
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub os: Option<Os>,
}

/// How a service is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceExec {
    pub kind: ExecKind,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub command: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact: Option<ExecArtifact>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub provision: Option<ExecProvision>,
}

/// Where a service runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecKind {
    Container,
    Host,
}

/// Prepares the host once for a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecProvision {
    #[serde(deserialize_with = "non_empty_list")]
    pub command: Vec<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<String>,
}

/// What a host service needs fetched: a place, or a place with a checksum and headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ExecArtifact {
    Source(String),
    Detailed(DetailedArtifact),
}

/// A fetched file that is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetailedArtifact {
    #[serde(deserialize_with = "non_empty")]
    pub source: String,
    /// `<md5|sha1|sha256|sha512>:<hex>`.
    #[serde(
        default,
        deserialize_with = "checksum",
        skip_serializing_if = "Option::is_none"
    )]
    pub checksum: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub headers: Option<EnvMap>,
}

impl<'de> Deserialize<'de> for ExecArtifact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match text_or(
            deserializer,
            Self::Source,
            Self::Detailed,
            "text or an object with `source`",
        )? {
            Self::Source(text) if text.is_empty() => Err(D::Error::custom("expected text that is not empty")),
            artifact => Ok(artifact),
        }
    }
}

fn checksum<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = match text.split_once(':') {
        Some(("md5", hex)) => Some((32, hex)),
        Some(("sha1", hex)) => Some((40, hex)),
        Some(("sha256", hex)) => Some((64, hex)),
        Some(("sha512", hex)) => Some((128, hex)),
        _ => None,
    };
    match digits {
        Some((length, hex)) if hex.len() == length && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Ok(Some(text))
        }
        _ => Err(D::Error::custom(
            "expected a checksum such as `sha256:` and 64 hex digits",
        )),
    }
}

/// Injects a peer's address under names the service already knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PeerWiring {
    pub service: String,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub host_env: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub port_env: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub url_env: Option<String>,
}

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
    #[serde(
        default,
        deserialize_with = "opt_positive",
        skip_serializing_if = "Option::is_none"
    )]
    pub memory_mb: Option<u64>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub evict_when_full: Option<bool>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
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
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    service: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    inject: Option<Vec<StoreInject>>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
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
        let value = Value::deserialize(deserializer)?;
        let form: DependencyForm = from_value(value).map_err(|error| carry(&error))?;
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

/// The backend that a service harness sends its trace to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceSourceSpec {
    pub kind: TraceBackend,
    pub endpoint: String,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub auth_secret: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub correlate: Option<Correlate>,
    /// Tag to look for; `everdict.run_id` when absent.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub correlate_tag: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub service: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub project: Option<String>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub mapping: Option<SpanAttrMapping>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_base_url: Option<String>,
}

/// The trace backends of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceBackend {
    Otel,
    Mlflow,
    Langfuse,
    Langsmith,
    Phoenix,
}
