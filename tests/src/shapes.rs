//! The shape of a JSON value: names and types, without the values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// For each path (`job.evalCase.graders[].id`) the JSON types seen there.
pub type Shape = BTreeMap<String, BTreeSet<&'static str>>;

/// Adds what `value` shows to `shape`; array items share one path.
pub fn shape_of(value: &Value, path: &str, shape: &mut Shape) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            for item in items {
                shape_of(item, &format!("{path}[]"), shape);
            }
            "array"
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let below = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                shape_of(field, &below, shape);
            }
            "object"
        }
    };
    shape.entry(path.to_owned()).or_default().insert(kind);
}
