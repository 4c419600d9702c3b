//! Picks values out of what a topology answers: dotted paths and status conditions.

use everdict_contracts::{Scalar, StatusMatch};
use serde_json::Value;

/// The value at a dotted path; numbers pick from lists, an empty path is the whole.
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if path.is_empty() {
        return Some(value);
    }
    path.split('.').try_fold(value, |value, key| match value {
        Value::Object(object) => object.get(key),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The text at a dotted path, when there is some.
pub(crate) fn text_at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    at(value, path)?.as_str().filter(|text| !text.is_empty())
}

/// Tells whether a status meets a condition: `equals` where it is there, else `oneOf`; types count.
pub(crate) fn meets(condition: &StatusMatch, status: &Value) -> bool {
    let Some(value) = at(status, &condition.field) else {
        return false;
    };
    match (&condition.equals, &condition.one_of) {
        (Some(wanted), _) => same(wanted, value),
        (None, Some(any)) => any.iter().any(|wanted| same(wanted, value)),
        (None, None) => false,
    }
}

/// A number is the same however it is written: `1` and `1.0` are one in JSON's own language.
fn same(wanted: &Scalar, value: &Value) -> bool {
    match (wanted, value) {
        (Scalar::Text(wanted), Value::String(text)) => wanted == text,
        (Scalar::Number(wanted), Value::Number(number)) => {
            wanted == number
                || wanted
                    .as_f64()
                    .is_some_and(|wanted| number.as_f64() == Some(wanted))
        }
        (Scalar::Bool(wanted), Value::Bool(truth)) => wanted == truth,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use everdict_contracts::decode;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dotted_path_leads_through_objects_and_lists() {
        let value = json!({ "run": { "ids": ["a", "b"], "empty": "" }, "n": 1 });
        assert_eq!(text_at(&value, "run.ids.1"), Some("b"));
        assert_eq!(at(&value, ""), Some(&value));
        for path in [
            "run.ids.2",
            "run.ids.x",
            "run.ids[1]",
            "n.x",
            "missing",
            ".",
            "run.",
            "run.empty",
            "n",
        ] {
            assert_eq!(text_at(&value, path), None, "{path}");
        }
    }

    #[test]
    fn a_status_is_compared_with_its_type() {
        let meets = |condition: Value, status: Value| meets(&decode(condition).unwrap(), &status);
        let done = json!({ "field": "s.code", "equals": 1 });
        assert!(meets(done.clone(), json!({ "s": { "code": 1 } })));
        assert!(meets(done.clone(), json!({ "s": { "code": 1.0 } })));
        assert!(!meets(done.clone(), json!({ "s": { "code": "1" } })));
        assert!(!meets(done.clone(), json!({ "s": { "code": true } })));
        assert!(!meets(done, json!({ "s": null })));
        let any = json!({ "field": "state", "oneOf": ["done", true, 2] });
        for (state, met) in [
            (json!("done"), true),
            (json!(true), true),
            (json!(2), true),
            (json!("DONE"), false),
        ] {
            assert_eq!(meets(any.clone(), json!({ "state": state })), met);
        }
    }

    /// Both tests given: `equals` is the one that counts.
    #[test]
    fn equals_goes_before_one_of() {
        let both: StatusMatch = decode(json!({ "field": "s", "equals": "a", "oneOf": ["b"] })).unwrap();
        assert!(meets(&both, &json!({ "s": "a" })));
        assert!(!meets(&both, &json!({ "s": "b" })));
    }
}
