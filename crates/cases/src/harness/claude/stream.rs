//! Maps the lines of `--output-format stream-json` to trace events.

use everdict_contracts::{Cost, LlmCall, Message, Role, ToolCall, ToolResult, TraceEvent, TraceEventKind};
use everdict_exec::MAX_LINE_CHARS;
use jiff::Timestamp;
use serde_json::Value;

use crate::recorder::event_at;

/// A line longer than this is no message any more. Tool results carry whole files, so it is far above a page.
const MAX_JOINED_BYTES: usize = 8 << 20;

/// Joins the pieces of long lines and maps each whole line.
#[derive(Debug, Default)]
pub(super) struct StreamParser {
    partial: String,
}

/// What one line gives.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) events: Vec<TraceEvent>,
    pub(super) log: Vec<String>,
}

impl StreamParser {
    /// Takes the next line, or the next piece of a long one.
    pub(super) fn line(&mut self, piece: &str) -> Step {
        self.partial.push_str(piece);
        // A full-length piece in the middle of an object: the rest follows. Parsing only at its end keeps the work for a
        // long line proportional to its length.
        let full = piece.chars().count() == MAX_LINE_CHARS && self.partial.len() < MAX_JOINED_BYTES;
        let whole = if full && !piece.ends_with('}') {
            None
        } else {
            serde_json::from_str::<Value>(&self.partial).ok()
        };
        match whole {
            Some(message) => {
                self.partial.clear();
                map(&message)
            }
            None if full && self.partial.starts_with('{') => Step::default(),
            None => {
                self.partial.clear();
                Step {
                    events: Vec::new(),
                    log: vec![piece.to_owned()],
                }
            }
        }
    }
}

fn map(message: &Value) -> Step {
    let mut step = Step::default();
    match message["type"].as_str() {
        Some("assistant") => assistant(&message["message"], &mut step),
        Some("user") => {
            for part in parts(&message["message"]["content"]) {
                tool_result(part, &mut step);
            }
        }
        Some("result") => {
            if let Some(usd) = message["total_cost_usd"].as_f64().filter(|usd| *usd >= 0.0) {
                // The turns carry the tokens; this one has only the price of all of them.
                step.push(llm_call(
                    "aggregate",
                    Cost {
                        input_tokens: 0,
                        output_tokens: 0,
                        usd,
                    },
                ));
            }
        }
        _ => {}
    }
    step
}

fn assistant(message: &Value, step: &mut Step) {
    for part in parts(&message["content"]) {
        match part["type"].as_str() {
            Some("text") => {
                let text = part["text"].as_str().unwrap_or_default();
                step.log.extend(text.lines().map(str::to_owned));
                step.push(Message {
                    role: Role::Assistant,
                    text: text.to_owned(),
                });
            }
            Some("tool_use") => tool_call(part, step),
            _ => {}
        }
    }
    let usage = &message["usage"];
    if usage.is_object() {
        let tokens = |key: &str| usage[key].as_u64().unwrap_or_default();
        let cost = Cost {
            input_tokens: tokens("input_tokens"),
            output_tokens: tokens("output_tokens"),
            usd: 0.0,
        };
        step.push(llm_call(message["model"].as_str().unwrap_or_default(), cost));
    }
}

fn tool_call(part: &Value, step: &mut Step) {
    let id = part["id"].as_str().unwrap_or_default().to_owned();
    let name = part["name"].as_str().unwrap_or_default().to_owned();
    step.log.push(format!("→ {name}"));
    let args = part.get("input").cloned();
    step.push(ToolCall {
        id: id.clone(),
        name,
        args,
    });
    step.last().span_id = Some(id);
}

fn tool_result(part: &Value, step: &mut Step) {
    if part["type"] != "tool_result" {
        return;
    }
    let id = part["tool_use_id"].as_str().unwrap_or_default().to_owned();
    let ok = part["is_error"] != true;
    let output = match &part["content"] {
        Value::String(text) => text.clone(),
        other => parts(other)
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    };
    step.push(ToolResult {
        id: id.clone(),
        ok,
        output,
    });
    step.last().parent_id = Some(id);
}

fn llm_call(model: &str, cost: Cost) -> LlmCall {
    LlmCall {
        model: model.to_owned(),
        cost: Some(cost),
        latency_ms: None,
    }
}

fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().into_iter().flatten()
}

impl Step {
    fn push(&mut self, kind: impl Into<TraceEventKind>) {
        self.events.push(event_at(Timestamp::now(), kind));
    }

    fn last(&mut self) -> &mut TraceEvent {
        self.events.last_mut().expect("BUG: an event was just pushed")
    }
}
