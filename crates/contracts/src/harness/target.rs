//! The browser that a topology's agent drives, and how a case gets one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decode::fields::{opt, positive};
use crate::decode::{DecodeError, checked, tagged};

/// What the agent acts on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyTarget {
    pub kind: TargetKind,
    pub engine: TargetEngine,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub extension: Option<ExtensionRef>,
    #[serde(default)]
    pub lifecycle: TargetLifecycle,
    #[serde(default = "observe_all")]
    pub observe: Vec<Observation>,
    /// How the snapshot reaches the grader; by reference when absent.
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub acquire: Option<Acquire>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

fn observe_all() -> Vec<Observation> {
    vec![Observation::Dom, Observation::Screenshot, Observation::Url]
}

/// The one kind of target there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    Browser,
}

/// The one engine there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetEngine {
    Chromium,
}

/// A browser extension by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtensionRef {
    pub r#ref: String,
}

/// How much of a browser each case has to itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetLifecycle {
    #[default]
    PerCaseInstance,
    PerCaseContext,
}

/// What is recorded of a browser when a case ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Observation {
    Dom,
    Screenshot,
    Url,
}

/// How observations travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Delivery {
    Reference(ByReference),
    Sentinel(BySentinel),
    Egress(ByEgress),
    Trace(ByTrace),
}

tagged!(Delivery by "mode" {
    "reference" => Reference, "sentinel" => Sentinel, "egress" => Egress, "trace" => Trace,
});

/// Observations stay where they are and are named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByReference {}

/// Observations come between markers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BySentinel {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Observations are sent out to a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByEgress {
    pub sink: String,
}

/// Observations ride in the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByTrace {}

/// How a case comes by its browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Acquire {
    Provision(Provision),
    Service(Box<AcquireService>),
}

tagged!(Acquire by "mode" { "provision" => Provision, "service" => Service });

/// The runtime starts a browser.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provision {}

/// A service of the topology hands out browsers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcquireService {
    pub service: String,
    /// Method and path, like `POST /sessions`.
    pub open: String,
    /// Variable name to the dotted path of its value in the reply.
    pub coordinates: BTreeMap<String, String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub close: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub cdp_base: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub capacity: Option<AcquireCapacity>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub wait: Option<AcquireWait>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub ready: Option<AcquireReady>,
}

/// How many browsers the service has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireCapacity {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    pub poll: String,
    pub total: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

/// Bounds of a service's copies; the least is not above the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Scale {
    #[serde(deserialize_with = "positive")]
    pub min: u64,
    #[serde(deserialize_with = "positive")]
    pub max: u64,
}

checked!(Scale);

impl Scale {
    fn check(&self) -> Result<(), DecodeError> {
        if self.min > self.max {
            return Err(DecodeError::invalid(
                "min",
                format!("{} is more than max {}", self.min, self.max),
            ));
        }
        Ok(())
    }
}

fn busy_statuses() -> Vec<i64> {
    vec![409, 429]
}

fn two_minutes() -> u64 {
    120_000
}

fn minute() -> u64 {
    60_000
}

fn second() -> u64 {
    1_000
}

/// What counts as "none free, ask again", and for how long to ask; milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcquireWait {
    #[serde(default = "busy_statuses")]
    pub statuses: Vec<i64>,
    #[serde(default = "two_minutes", deserialize_with = "positive")]
    pub timeout_ms: u64,
    #[serde(default = "second", deserialize_with = "positive")]
    pub interval_ms: u64,
}

/// How to ask whether a handed-out browser is up; milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcquireReady {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    pub poll: String,
    #[serde(default = "second", deserialize_with = "positive")]
    pub interval_ms: u64,
    #[serde(default = "minute", deserialize_with = "positive")]
    pub timeout_ms: u64,
}
