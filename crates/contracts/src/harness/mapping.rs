//! Which span attributes hold what, for traces of a foreign shape.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::text_or;
use crate::decode::fields::opt;

/// Names that evidence may not take because graders' templates use them.
const RESERVED_EVIDENCE: &[&str] = &[
    "task",
    "rubric",
    "criteria",
    "dom",
    "expected",
    "final_answer",
    "finalAnswer",
    "response",
    "trace",
    "screenshot",
    "verdict_instruction",
];

/// Span attributes by meaning; each is a list of keys, the first that is there wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanAttrMapping {
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub model: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub tool_args: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub message_text: Option<Vec<String>>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<EvidenceSlot>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub dom: Option<EvidenceSlot>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub screenshot: Option<EvidenceSlot>,
    #[serde(
        default,
        deserialize_with = "evidence_map",
        skip_serializing_if = "Option::is_none"
    )]
    pub evidence: Option<BTreeMap<String, EvidenceSlot>>,
}

/// Where one piece of evidence may be found, best first.
pub type EvidenceSlot = Vec<EvidenceKey>;

/// One place to look for evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EvidenceKey {
    Key(String),
    Pick(EvidencePick),
}

/// A place within an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidencePick {
    pub key: String,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, with = "opt", skip_serializing_if = "Option::is_none")]
    pub pick: Option<Pick>,
}

/// Which of several finds counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    Last,
    First,
}

impl<'de> Deserialize<'de> for EvidenceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or(
            deserializer,
            Self::Key,
            Self::Pick,
            "text or an object with `key`",
        )
    }
}

fn evidence_map<'de, D>(deserializer: D) -> Result<Option<BTreeMap<String, EvidenceSlot>>, D::Error>
where
    D: Deserializer<'de>,
{
    let slots = BTreeMap::<String, EvidenceSlot>::deserialize(deserializer)?;
    for name in slots.keys() {
        let mut letters = name.chars();
        let plain = letters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        if !plain {
            return Err(D::Error::custom(format_args!(
                "evidence name `{name}` is not a plain word"
            )));
        }
        if RESERVED_EVIDENCE.contains(&name.as_str()) {
            return Err(D::Error::custom(format_args!(
                "evidence name `{name}` is reserved"
            )));
        }
    }
    Ok(Some(slots))
}
