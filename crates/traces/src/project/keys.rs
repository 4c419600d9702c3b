//! Which attributes hold what: the mapping's own first, then the names in common use.

use everdict_contracts::{Cost, SpanAttrMapping};
use serde_json::Value;

use crate::span::SpanRecord;
use crate::value::{count, number, show, unwrapped};

pub(super) const ARTIFACT_REF: &[&str] = &["artifact.ref", "artifact.uri", "mlflow.artifact.uri"];
pub(super) const ARTIFACT_NAME: &[&str] = &["artifact.name"];
pub(super) const ARTIFACT_TYPE: &[&str] = &["artifact.media_type", "artifact.mediaType"];
pub(super) const ARTIFACT_ROLE: &[&str] = &["artifact.role"];
pub(super) const PLANE: &[&str] = &["everdict.plane"];
pub(super) const INFRA_MESSAGE: &[&str] = &["everdict.infra.message", "message"];
pub(super) const INFRA_EVENT: &[&str] = &["everdict.infra.event"];
pub(super) const INFRA_UNIT: &[&str] = &["everdict.infra.unit"];
pub(super) const INFRA_NODE: &[&str] = &["everdict.infra.node"];
pub(super) const INFRA_SERVICE: &[&str] = &["everdict.infra.service", "service.name"];
pub(super) const ENV_ACTION: &[&str] = &["everdict.env_action"];
pub(super) const ENV_DETAIL: &[&str] = &["everdict.env_action.detail", "everdict.input"];
pub(super) const MESSAGE_ROLE: &[&str] = &["everdict.message.role"];
pub(super) const AGENT_INPUT: &[&str] = &["gen_ai.input.messages", "everdict.input"];

const MODEL: &[&str] = &[
    "gen_ai.request.model",
    "gen_ai.response.model",
    "mlflow.llm.model",
    "llm.model_name",
];
const INPUT_TOKENS: &[&str] = &["gen_ai.usage.input_tokens", "llm.token_count.prompt"];
const OUTPUT_TOKENS: &[&str] = &["gen_ai.usage.output_tokens", "llm.token_count.completion"];
const COST: &[&str] = &["everdict.cost.usd", "gen_ai.usage.cost"];
const TOOL_NAME: &[&str] = &["gen_ai.tool.name", "tool.name"];
const TOOL_CALL_ID: &[&str] = &["gen_ai.tool.call.id", "tool.call_id"];
// The first three are the protocol's; the rest fill what would else be empty for the common instrumentations.
const TOOL_ARGS: &[&str] = &[
    "tool.arguments",
    "gen_ai.input.messages",
    "everdict.input",
    "gen_ai.tool.call.arguments",
    "input.value",
    "mlflow.spanInputs",
];
const TOOL_RESULT: &[&str] = &[
    "tool.result",
    "gen_ai.output.messages",
    "everdict.output",
    "gen_ai.tool.call.result",
    "output.value",
    "mlflow.spanOutputs",
];
const TEXT: &[&str] = &[
    "gen_ai.output.messages",
    "everdict.output",
    "message.content",
    "output.value",
];
const OPERATION: &[&str] = &["gen_ai.operation.name"];
const KIND: &[&str] = &[
    "mlflow.spanType",
    "openinference.span.kind",
    "span.kind",
    "traceloop.span.kind",
];

/// MLflow's objects, asked last.
const MLFLOW_USAGE: &str = "mlflow.chat.tokenUsage";
const MLFLOW_COST: &str = "mlflow.llm.cost";

/// Returns the first attribute that is there.
pub(super) fn first<'a>(span: &'a SpanRecord, keys: &[&str]) -> Option<&'a Value> {
    keys.iter()
        .filter_map(|key| span.attributes.get(*key))
        .find(|value| !value.is_null())
}

/// The attributes by meaning.
pub(super) struct Keys<'a> {
    mapping: &'a SpanAttrMapping,
}

impl<'a> Keys<'a> {
    pub(super) fn new(mapping: &'a SpanAttrMapping) -> Self {
        Self { mapping }
    }

    pub(super) fn operation<'s>(&self, span: &'s SpanRecord) -> Option<&'s str> {
        first(span, OPERATION)?.as_str()
    }

    pub(super) fn model(&self, span: &SpanRecord) -> Option<String> {
        text(self.find(span, self.mapping.model.as_ref(), MODEL))
    }

    /// Whether the span counts tokens.
    pub(super) fn has_tokens(&self, span: &SpanRecord) -> bool {
        self.input_tokens(span).is_some() || self.output_tokens(span).is_some()
    }

    /// Tokens and money; `None` when the span has neither.
    pub(super) fn cost(&self, span: &SpanRecord) -> Option<Cost> {
        let input = self.input_tokens(span);
        let output = self.output_tokens(span);
        let usd = self
            .find(span, self.mapping.cost_usd.as_ref(), COST)
            .and_then(number)
            .or_else(|| nested(span, MLFLOW_COST, "total_cost").as_ref().and_then(number))
            .filter(|usd| *usd >= 0.0);
        if input.is_none() && output.is_none() && usd.is_none() {
            return None;
        }
        Some(Cost {
            input_tokens: input.unwrap_or(0),
            output_tokens: output.unwrap_or(0),
            usd: usd.unwrap_or(0.0),
        })
    }

    fn input_tokens(&self, span: &SpanRecord) -> Option<u64> {
        self.find(span, self.mapping.input_tokens.as_ref(), INPUT_TOKENS)
            .and_then(count)
            .or_else(|| count(&nested(span, MLFLOW_USAGE, "input_tokens")?))
    }

    fn output_tokens(&self, span: &SpanRecord) -> Option<u64> {
        self.find(span, self.mapping.output_tokens.as_ref(), OUTPUT_TOKENS)
            .and_then(count)
            .or_else(|| count(&nested(span, MLFLOW_USAGE, "output_tokens")?))
    }

    pub(super) fn tool_name(&self, span: &SpanRecord) -> Option<String> {
        text(self.find(span, self.mapping.tool_name.as_ref(), TOOL_NAME))
    }

    pub(super) fn tool_call_id(&self, span: &SpanRecord) -> Option<String> {
        text(self.find(span, self.mapping.tool_call_id.as_ref(), TOOL_CALL_ID))
    }

    pub(super) fn tool_args(&self, span: &SpanRecord) -> Option<Value> {
        self.find(span, self.mapping.tool_args.as_ref(), TOOL_ARGS)
            .map(unwrapped)
    }

    pub(super) fn tool_result(&self, span: &SpanRecord) -> Option<String> {
        self.find(span, self.mapping.tool_result.as_ref(), TOOL_RESULT)
            .map(show)
    }

    /// What was said, where that is text.
    pub(super) fn message(&self, span: &SpanRecord) -> Option<String> {
        let found = self.find(span, self.mapping.message_text.as_ref(), TEXT)?;
        found.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Whether the span is declared to be a tool in one of the ways in use.
    pub(super) fn is_tool(&self, span: &SpanRecord) -> bool {
        KIND.iter()
            .filter_map(|key| span.attributes.get(*key)?.as_str())
            .any(|kind| kind.eq_ignore_ascii_case("tool") || kind.eq_ignore_ascii_case("function"))
    }

    fn find<'s>(
        &self,
        span: &'s SpanRecord,
        mapped: Option<&Vec<String>>,
        defaults: &[&str],
    ) -> Option<&'s Value> {
        mapped
            .into_iter()
            .flatten()
            .filter_map(|key| span.attributes.get(key))
            .find(|value| !value.is_null())
            .or_else(|| first(span, defaults))
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.map(show).filter(|text| !text.is_empty())
}

fn nested(span: &SpanRecord, key: &str, field: &str) -> Option<Value> {
    unwrapped(span.attributes.get(key)?).get(field).cloned()
}
