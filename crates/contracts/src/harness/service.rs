//! The service harness: a topology of services and stores behind a front door.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::dependency::TopologyDependency;
use super::front_door::FrontDoorSpec;
use super::mapping::SpanAttrMapping;
use super::target::TopologyTarget;
use super::{EnvMap, ModelBinding, text_or};
use crate::case::{Os, ResourceRequest};
use crate::decode::fields::{int, non_empty, non_empty_list, opt, opt_int, positive};
use crate::decode::{DecodeError, checked};
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
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub target: Option<TopologyTarget>,
    pub front_door: FrontDoorSpec,
    pub trace_source: TraceSourceSpec,
}

fn one() -> i64 {
    1
}

/// One service of a topology. A container needs `image`; host execution forbids it and needs a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct TopologyService {
    pub name: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, with = "opt_int", skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Peers that must be up first.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Names of variables that are injected anew for each run.
    #[serde(default)]
    pub per_run: Vec<String>,
    #[serde(default = "one", deserialize_with = "int")]
    pub replicas: i64,
    #[serde(default)]
    pub env: EnvMap,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelBinding>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub readiness: Option<ReadinessSpec>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub requires: Option<ServiceRequires>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub exec: Option<ServiceExec>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub wiring: Option<Vec<PeerWiring>>,
}

checked!(TopologyService);

impl TopologyService {
    /// Tells whether the service runs on the host rather than in a container.
    pub fn on_host(&self) -> bool {
        self.exec.as_ref().is_some_and(|exec| exec.kind == ExecKind::Host)
    }

    fn check(&self) -> Result<(), DecodeError> {
        if !self.on_host() && self.image.is_none() {
            return Err(DecodeError::invalid(
                "image",
                "a service in a container needs an image",
            ));
        }
        self.check_host()
    }

    /// Checks what must hold even while a template leaves the image open.
    pub(crate) fn check_host(&self) -> Result<(), DecodeError> {
        if self.on_host() {
            if self.image.is_some() {
                return Err(DecodeError::invalid(
                    "image",
                    "a service on the host takes no image",
                ));
            }
            if self
                .exec
                .as_ref()
                .and_then(|exec| exec.command.as_ref())
                .is_none_or(Vec::is_empty)
            {
                return Err(DecodeError::invalid(
                    "exec.command",
                    "a service on the host needs a command",
                ));
            }
        }
        Ok(())
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
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub os: Option<Os>,
}

/// How a service is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceExec {
    pub kind: ExecKind,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ExecArtifact>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
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
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
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
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
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
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub host_env: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub port_env: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
}

/// The backend that a service harness sends its trace to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceSourceSpec {
    pub kind: TraceBackend,
    pub endpoint: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub auth_secret: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub correlate: Option<Correlate>,
    /// Tag to look for; `everdict.run_id` when absent.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub correlate_tag: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub mapping: Option<SpanAttrMapping>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
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
