//! Reading JSON of foreign shapes: what isn't there or isn't as expected is absent, never an error.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// Nesting followed into an attribute: deeper values are kept as they are.
const MAX_DEPTH: usize = 16;

/// Returns the first of several fields that is there and not `null`.
pub(crate) fn field<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names
        .iter()
        .filter_map(|name| value.get(name))
        .find(|found| !found.is_null())
}

/// Returns the first of several fields as text; an empty text counts as absent.
pub(crate) fn text_field(value: &Value, names: &[&str]) -> Option<String> {
    field(value, names)?
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// Returns the elements of the first of several fields that is there.
pub(crate) fn list<'a>(value: &'a Value, names: &[&str]) -> &'a [Value] {
    field(value, names)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Reads a number, also one that is written as text.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value
        .as_f64()
        .or_else(|| value.as_str()?.trim().parse().ok())
        .filter(|number: &f64| number.is_finite())
}

/// Reads a count, also one that is written as text.
pub(crate) fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        number(value)
            .filter(|number| *number >= 0.0)
            .map(|number| number as u64)
    })
}

/// Shows a value as text: text as it is, anything else as JSON.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Takes text that is a JSON object or list for what it says.
pub(crate) fn unwrapped(value: &Value) -> Value {
    match value {
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        other => other.clone(),
    }
}

/// Reads nanoseconds since 1970, a number or text, as milliseconds.
pub(crate) fn nanos(value: &Value) -> Option<f64> {
    let exact = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    exact
        .map(|nanos| nanos as f64 / 1e6)
        .or_else(|| number(value).map(|nanos| nanos / 1e6))
}

/// Reads an ISO 8601 time as milliseconds since 1970; without a zone it is UTC.
pub(crate) fn iso(value: &Value) -> Option<f64> {
    let text = value.as_str()?;
    let time = text.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(civil).ok()
    })?;
    Some(time.as_microsecond() as f64 / 1e3)
}

/// Writes milliseconds since 1970 as ISO 8601.
pub(crate) fn to_iso(ms: f64) -> Option<String> {
    Timestamp::from_millisecond(ms.round() as i64)
        .ok()
        .map(|time| format!("{time:.3}"))
}

/// Reads the attributes of OTLP/JSON: a list of keys with typed values, in either spelling.
pub(crate) fn attributes(list: &[Value]) -> Map<String, Value> {
    list.iter()
        .filter_map(|entry| Some((text_field(entry, &["key"])?, any_value(entry.get("value")?, 0))))
        .collect()
}

/// Unwraps a typed value of OTLP/JSON. Text, numbers and so on that aren't wrapped stand for themselves.
fn any_value(value: &Value, depth: usize) -> Value {
    let Some(object) = value.as_object().filter(|_| depth < MAX_DEPTH) else {
        return value.clone();
    };
    let Some((kind, inner)) = object.iter().next() else {
        return Value::Null;
    };
    match kind.as_str() {
        "stringValue" | "string_value" | "boolValue" | "bool_value" | "bytesValue" | "bytes_value" => {
            inner.clone()
        }
        "intValue" | "int_value" => {
            // 64-bit integers are text in this format.
            inner
                .as_str()
                .and_then(|text| text.parse::<i64>().ok())
                .map_or_else(|| inner.clone(), Value::from)
        }
        "doubleValue" | "double_value" => number(inner).map_or_else(|| inner.clone(), Value::from),
        "arrayValue" | "array_value" => list(inner, &["values"])
            .iter()
            .map(|value| any_value(value, depth + 1))
            .collect(),
        "kvlistValue" | "kvlist_value" => Value::Object(
            list(inner, &["values"])
                .iter()
                .filter_map(|entry| {
                    Some((
                        text_field(entry, &["key"])?,
                        any_value(entry.get("value")?, depth + 1),
                    ))
                })
                .collect(),
        ),
        _ => value.clone(),
    }
}

/// Adds the leaves of nested objects under dotted keys, as the flat form names them.
pub(crate) fn flatten(nested: &Map<String, Value>) -> Map<String, Value> {
    fn walk(prefix: &str, value: &Value, depth: usize, out: &mut Map<String, Value>) {
        match value {
            Value::Object(object) if depth < MAX_DEPTH => {
                for (key, value) in object {
                    let key = if prefix.is_empty() {
                        key.clone()
                    } else {
                        format!("{prefix}.{key}")
                    };
                    walk(&key, value, depth + 1, out);
                }
            }
            leaf => {
                out.insert(prefix.to_owned(), leaf.clone());
            }
        }
    }
    let mut out = Map::new();
    for (key, value) in nested {
        walk(key, value, 0, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn typed_values_are_unwrapped_in_either_spelling() {
        let list = [
            json!({ "key": "a", "value": { "stringValue": "x" } }),
            json!({ "key": "b", "value": { "int_value": "7" } }),
            json!({ "key": "c", "value": { "kvlist_value": { "values": [{ "key": "n", "value": { "double_value": 0.5 } }] } } }),
            json!({ "key": "d", "value": { "arrayValue": { "values": [{ "boolValue": true }, { "stringValue": "y" }] } } }),
            json!({ "key": "e", "value": "plain" }),
            json!({ "value": { "stringValue": "nameless" } }),
        ];
        let expected = json!({ "a": "x", "b": 7, "c": { "n": 0.5 }, "d": [true, "y"], "e": "plain" });
        assert_eq!(Value::Object(attributes(&list)), expected);
    }

    #[test]
    fn times_are_read_in_every_form() {
        let nanoseconds = json!("1700000000123000000");
        assert_eq!(nanos(&nanoseconds), Some(1_700_000_000_123.0));
        assert_eq!(iso(&json!("2023-11-14T22:13:20.123Z")), Some(1_700_000_000_123.0));
        assert_eq!(
            iso(&json!("2023-11-14T22:13:20.123456")),
            Some(1_700_000_000_123.456)
        );
        assert_eq!(
            iso(&json!("2023-11-14T23:13:20.123+01:00")),
            Some(1_700_000_000_123.0)
        );
        assert_eq!(
            to_iso(1_700_000_000_123.0).as_deref(),
            Some("2023-11-14T22:13:20.123Z")
        );
        assert_eq!(iso(&json!("yesterday")), None);
    }

    #[test]
    fn nested_attributes_become_dotted_ones() {
        let nested = json!({ "llm": { "token_count": { "prompt": 3 } }, "flat.key": 1 });
        let flat = json!({ "llm.token_count.prompt": 3, "flat.key": 1 });
        assert_eq!(Value::Object(flatten(nested.as_object().unwrap())), flat);
    }
}
