//! Harnesses as a registry keeps them: a template with open slots, and instances that fill them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::command::{CommandTraceSpec, LiveScreenSpec};
use super::dependency::TopologyDependency;
use super::front_door::FrontDoorSpec;
use super::service::{ReadinessSpec, TopologyService, TraceSourceSpec};
use super::target::TopologyTarget;
use super::{EnvMap, ModelBinding};
use crate::case::ResourceRequest;
use crate::decode::fields::{non_empty, opt, opt_int, opt_min1};
use crate::decode::{DecodeError, carry, from_value, tagged};
use crate::job::HarnessRef;

/// A harness with slots left open.
#[expect(
    clippy::large_enum_variant,
    reason = "a process has one per job; a box would only get in the way of matching"
)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum HarnessTemplate {
    Process(ProcessTemplate),
    Command(CommandTemplate),
    Service(Box<ServiceTemplate>),
}

tagged!(HarnessTemplate by "kind" { "process" => Process, "command" => Command, "service" => Service });

impl HarnessTemplate {
    /// Returns the template's name and version.
    pub fn reference(&self) -> HarnessRef {
        match self {
            Self::Process(template) => HarnessRef::new(&template.id, &template.version),
            Self::Command(template) => HarnessRef::new(&template.id, &template.version),
            Self::Service(template) => HarnessRef::new(&template.id, &template.version),
        }
    }
}

/// A template of a built-in harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTemplate {
    #[serde(deserialize_with = "non_empty")]
    pub category: String,
    pub id: String,
    #[serde(deserialize_with = "non_empty")]
    pub version: String,
}

/// A template of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandTemplate {
    #[serde(deserialize_with = "non_empty")]
    pub category: String,
    pub id: String,
    #[serde(deserialize_with = "non_empty")]
    pub version: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    #[serde(default)]
    pub setup: Vec<String>,
    pub command: String,
    #[serde(default)]
    pub env: EnvMap,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    #[serde(default)]
    pub trace: CommandTraceSpec,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub live_screen: Option<LiveScreenSpec>,
}

/// A template of a topology.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTemplate {
    #[serde(deserialize_with = "non_empty")]
    pub category: String,
    pub id: String,
    #[serde(deserialize_with = "non_empty")]
    pub version: String,
    pub services: Vec<SlottedService>,
    #[serde(default)]
    pub dependencies: Vec<TopologyDependency>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub target: Option<TopologyTarget>,
    pub front_door: FrontDoorSpec,
    pub trace_source: TraceSourceSpec,
}

/// A service whose image an instance may fill in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlottedService {
    /// The name under which an instance pins the image; the service's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    #[serde(flatten)]
    pub service: TopologyService,
}

impl SlottedService {
    /// Returns the name under which the image is pinned.
    pub fn slot(&self) -> &str {
        self.slot.as_deref().unwrap_or(&self.service.name)
    }
}

impl<'de> Deserialize<'de> for SlottedService {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A service whose image may still come from a pin.
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct Open(#[serde(deserialize_with = "TopologyService::deserialize")] TopologyService);

        let mut object = Map::<String, Value>::deserialize(deserializer)?;
        let slot = match object.remove("slot") {
            None => None,
            Some(Value::String(slot)) => Some(slot),
            Some(other) => {
                let message = format!(
                    "invalid type: {}, expected text",
                    crate::decode::unexpected(&other)
                );
                return Err(carry(&DecodeError::invalid("slot", message)));
            }
        };
        let Open(service) = from_value(Value::Object(object)).map_err(|error| carry(&error))?;
        service.check_host().map_err(|error| carry(&error))?;
        Ok(Self { slot, service })
    }
}

/// A template filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessInstance {
    pub template: HarnessRef,
    pub id: String,
    #[serde(deserialize_with = "non_empty")]
    pub version: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Image by slot; for a command `image` and `model`.
    #[serde(default)]
    pub pins: BTreeMap<String, String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub pin_sources: Option<BTreeMap<String, PinSource>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub overrides: Option<InstanceOverrides>,
}

/// Where a pin came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinSource {
    pub source: String,
    pub id: String,
    pub version: String,
}

/// What an instance changes of its template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceOverrides {
    /// By service name.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub services: Option<BTreeMap<String, ServiceOverride>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub front_door: Option<FrontDoorOverride>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetOverride>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvMap>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub params: Option<BTreeMap<String, String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
}

/// What an instance changes of one service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOverride {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvMap>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub unset_env: Option<Vec<String>>,
    #[serde(default, with = "opt_int", skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequest>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub readiness: Option<ReadinessSpec>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelBinding>,
}

/// What an instance changes of the front door.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontDoorOverride {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestOverride>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub completion: Option<CompletionOverride>,
}

impl FrontDoorOverride {
    /// Returns the entries for the body template.
    pub fn body_template(&self) -> Option<&Map<String, Value>> {
        self.request.as_ref()?.body_template.as_ref()
    }
}

/// Entries that take the place of a body template's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestOverride {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub body_template: Option<Map<String, Value>>,
}

/// Times that take the place of a completion's, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionOverride {
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, with = "opt_min1", skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
}

/// What an instance changes of the browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetOverride {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub extension: Option<super::target::ExtensionRef>,
}
