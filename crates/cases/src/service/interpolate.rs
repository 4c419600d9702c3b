//! Fills a run's variables into texts, bodies and paths, in one pass: a value is never read as a template.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use everdict_contracts::Fault;
use serde_json::Value;

/// The variables of a run, by name.
pub(crate) type Vars = BTreeMap<String, String>;

/// Variables that are path prefixes by their nature: their slashes part folders.
const PREFIXES: &[&str] = &["object_prefix", "minio_prefix"];

/// Replaces each `{{name}}`; what is no variable stays as it is.
pub(crate) fn text(template: &str, vars: &Vars) -> String {
    let filled = fill(template, ("{{", "}}"), |name, out| {
        let value = vars.get(name);
        out.push_str(value.map_or("", String::as_str));
        Ok(value.is_some())
    });
    filled.expect("BUG: plain values can't be refused")
}

/// Replaces each `{{name}}` in every text of a JSON value, keys left out.
pub(crate) fn json(template: &Value, vars: &Vars) -> Value {
    match template {
        Value::String(template) => Value::String(text(template, vars)),
        Value::Array(items) => items.iter().map(|item| json(item, vars)).collect(),
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| (key.clone(), json(value, vars)));
            Value::Object(entries.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

/// Replaces each `{name}` of a path or an address; what is no variable stays as it is.
///
/// Values are percent-encoded, so that one can't become another path, a query or a fragment. One at the very start of an
/// address stands for its beginning and goes in as it is.
///
/// # Errors
/// `BAD_REQUEST` for a value that would be read as a step up or down the path.
pub(crate) fn path(template: &str, vars: &Vars) -> Result<String, Fault> {
    fill(template, ("{", "}"), |name, out| {
        let Some(value) = vars.get(name) else {
            return Ok(false);
        };
        if out.is_empty() {
            out.push_str(value);
            return Ok(true);
        }
        if matches!(value.as_str(), "." | "..") {
            return Err(Fault::bad_request(format!(
                "`{template}`: the value of `{name}` is `{value}`, which would lead to another path"
            )));
        }
        encode(value, PREFIXES.contains(&name), out);
        Ok(true)
    })
}

/// Copies a template, handing the name of every token to `put`, which says whether it knew it.
fn fill(
    template: &str,
    (open, close): (&str, &str),
    mut put: impl FnMut(&str, &mut String) -> Result<bool, Fault>,
) -> Result<String, Fault> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find(open) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let inner = &rest[open.len()..];
        let end = inner
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(inner.len());
        let (name, after) = inner.split_at(end);
        if !name.is_empty() && after.starts_with(close) && put(name, &mut out)? {
            rest = &after[close.len()..];
        } else {
            // One brace on: `{{{a}}}` holds a token at its second brace.
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn encode(value: &str, keep_slashes: bool, out: &mut String) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if keep_slashes => out.push('/'),
            _ => write!(out, "%{byte:02X}").expect("BUG: a String takes any text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn vars() -> Vars {
        [
            ("task", "say \"{{run_id}}\" & 100%"),
            ("run_id", "r-1"),
            ("object_prefix", "runs/r-1/"),
            ("up", ".."),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    /// A task that looks like a template is only text.
    #[test]
    fn a_value_is_never_read_as_a_template() {
        assert_eq!(
            text("{{task}}|{{run_id}}", &vars()),
            "say \"{{run_id}}\" & 100%|r-1"
        );
    }

    #[test]
    fn what_is_no_variable_stays() {
        for template in [
            "{{unknown}}",
            "{{ run_id }}",
            "{{run-id}}",
            "{{}}",
            "{run_id}",
            "{{run_id",
            "}}{{",
            "{{run_id}",
        ] {
            assert_eq!(text(template, &vars()), template);
        }
        assert_eq!(text("{{{run_id}}}", &vars()), "{r-1}");
        assert_eq!(text("é{{run_id}}é", &vars()), "ér-1é");
    }

    #[test]
    fn a_body_is_filled_at_every_depth_and_keys_and_other_values_are_left() {
        let template = json!({ "{{run_id}}": ["{{run_id}}", { "a": "x{{run_id}}" }, 1, true, null] });
        let filled = json!({ "{{run_id}}": ["r-1", { "a": "xr-1" }, 1, true, null] });
        assert_eq!(json(&template, &vars()), filled);
    }

    /// A task with a slash or a question mark would be another path.
    #[test]
    fn a_value_in_a_path_is_encoded() {
        assert_eq!(
            path("/runs/{run_id}/{task}", &vars()).unwrap(),
            "/runs/r-1/say%20%22%7B%7Brun_id%7D%7D%22%20%26%20100%25"
        );
        assert_eq!(path("/o/{object_prefix}x", &vars()).unwrap(), "/o/runs/r-1/x");
        assert_eq!(path("/o?p={unknown}&{", &vars()).unwrap(), "/o?p={unknown}&{");
        assert!(
            path("/o/{up}/x", &vars())
                .unwrap_err()
                .message
                .contains("another path")
        );
    }

    #[test]
    fn an_address_may_begin_with_a_variable() {
        let vars = Vars::from([
            ("base".to_owned(), "http://sink:80/a".to_owned()),
            ("q".to_owned(), "/".to_owned()),
        ]);
        assert_eq!(path("{base}/s/{q}", &vars).unwrap(), "http://sink:80/a/s/%2F");
    }

    proptest! {
        #[test]
        fn an_encoded_value_reads_back_as_itself(value in "\\PC{1,40}") {
            prop_assume!(value != "." && value != "..");
            let vars = Vars::from([("v".to_owned(), value.clone())]);
            let url = reqwest::Url::parse(&format!("http://h{}", path("/a/{v}/b", &vars).unwrap())).unwrap();
            let segments: Vec<_> = url.path_segments().unwrap().collect();
            prop_assert_eq!(segments.len(), 3);
            let mut bytes = Vec::new();
            let mut rest = segments[1].as_bytes();
            while let Some((first, tail)) = rest.split_first() {
                if *first == b'%' {
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap());
                    rest = &tail[2..];
                } else {
                    bytes.push(*first);
                    rest = tail;
                }
            }
            prop_assert_eq!(String::from_utf8(bytes).unwrap(), value);
        }
    }
}
