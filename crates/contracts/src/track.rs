//! The tracks of a recording.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::decode::fields::{num, opt, opt_num};
use crate::decode::{carry, discriminator, from_value};
use crate::trace::OutputStream;

/// One entry of one track. `t` is in milliseconds throughout.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "track", content = "entry", rename_all = "camelCase")]
pub enum TrackEntry {
    Frames(FrameEntry),
    DomEvents(DomEventsEntry),
    Network(NetworkEntry),
    Console(ConsoleEntry),
    Nav(NavEntry),
    StateDeltas(StateDeltaEntry),
    Logs(LogEntry),
    Runtime(RuntimeEntry),
    Custom(CustomEntry),
}

const TRACKS: &[&str] = &[
    "frames",
    "domEvents",
    "network",
    "console",
    "nav",
    "stateDeltas",
    "logs",
    "runtime",
    "custom",
];

impl<'de> Deserialize<'de> for TrackEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Map::<String, Value>::deserialize(deserializer)?;
        let track = discriminator(&object, "track", TRACKS).map_err(|error| carry(&error))?;
        let Some(entry) = object.remove("entry") else {
            return Err(serde::de::Error::missing_field("entry"));
        };
        let read = match track {
            "frames" => from_value(entry).map(Self::Frames),
            "domEvents" => from_value(entry).map(Self::DomEvents),
            "network" => from_value(entry).map(Self::Network),
            "console" => from_value(entry).map(Self::Console),
            "nav" => from_value(entry).map(Self::Nav),
            "stateDeltas" => from_value(entry).map(Self::StateDeltas),
            "logs" => from_value(entry).map(Self::Logs),
            "runtime" => from_value(entry).map(Self::Runtime),
            _ => from_value(entry).map(Self::Custom),
        };
        read.map_err(|error| carry(&error.under("entry")))
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub r#ref: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// A batch of page changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DomEventsEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub r#ref: String,
}

/// A request of the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub method: String,
    pub url: String,
    #[serde(default, with = "opt_num", skip_serializing_if = "Option::is_none")]
    pub status: Option<f64>,
    #[serde(default, with = "opt_num", skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub body_ref: Option<String>,
}

/// A console line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsoleEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub level: String,
    pub text: String,
}

/// A navigation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NavEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub url: String,
}

/// A change of state, kept elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateDeltaEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub kind: StateDeltaKind,
    pub r#ref: String,
}

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateDeltaKind {
    Dom,
    RepoDiff,
    OsWindows,
}

/// A line of output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub stream: OutputStream,
    pub text: String,
}

/// What the runtime used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    #[serde(default, with = "opt_num", skip_serializing_if = "Option::is_none")]
    pub cpu_pct: Option<f64>,
    #[serde(default, with = "opt_num", skip_serializing_if = "Option::is_none")]
    pub mem_bytes: Option<f64>,
    #[serde(default, with = "opt_num", skip_serializing_if = "Option::is_none")]
    pub rx_bytes: Option<f64>,
    #[serde(default, with = "opt_num", skip_serializing_if = "Option::is_none")]
    pub tx_bytes: Option<f64>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

/// Anything else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomEntry {
    #[serde(serialize_with = "num")]
    pub t: f64,
    pub name: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub r#ref: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
