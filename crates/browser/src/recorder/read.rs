//! Reading events of the protocol.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Returns the text at a place; empty when there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The arguments of a console call as one line, as the developer tools would show them.
pub(super) fn arguments(params: &Value) -> String {
    let show = |argument: &Value| match argument.get("value") {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => [
            text(argument, "/unserializableValue"),
            text(argument, "/description"),
            text(argument, "/type"),
        ]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default()
        .to_owned(),
    };
    let args = params.get("args").and_then(Value::as_array);
    args.into_iter().flatten().map(show).collect::<Vec<_>>().join(" ")
}

/// What was thrown, with its stack where the page gave one.
pub(super) fn exception(params: &Value) -> &str {
    let description = text(params, "/exceptionDetails/exception/description");
    if description.is_empty() {
        text(params, "/exceptionDetails/text")
    } else {
        description
    }
}

/// Milliseconds since 1970 by this machine's clock, the one that all tracks share.
pub(super) fn wall_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_millis() as f64)
}
