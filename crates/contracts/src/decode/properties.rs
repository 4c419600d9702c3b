use proptest::prelude::*;

use super::tests::{JOB, RESULT, TOPOLOGY};
use super::*;
use crate::{CaseJob, CaseResult, HarnessInstance, HarnessTemplate, LeaseReply, ReportTrackArgs, RunRecord};

/// Any JSON, with keys that the types know mixed in.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z`.\\[\\]]{0,6}".prop_map(Value::from),
        prop::sample::select(vec!["repo", "command", "service", "measured", "message", "self"])
            .prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-zA-Z`. ]{0,5}",
        prop::sample::select(vec![
            "kind", "evalCase", "env", "source", "git", "trace", "scores", "status", "t", "job"
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every place in a document, as JSON pointers.
fn places(prefix: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                let place = format!("{prefix}/{}", key.replace('~', "~0").replace('/', "~1"));
                places(&place, inner, found);
                found.push(place);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                let place = format!("{prefix}/{index}");
                places(&place, inner, found);
                found.push(place);
            }
        }
        _ => {}
    }
}

fn decode_as_everything(value: &Value) {
    let _ = decode::<CaseJob>(value);
    let _ = decode::<CaseResult>(value);
    let _ = decode::<LeaseReply>(value);
    let _ = decode::<RunRecord>(value);
    let _ = decode::<HarnessTemplate>(value);
    let _ = decode::<HarnessInstance>(value);
    let _ = decode::<ReportTrackArgs>(value);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn decoding_any_json_never_panics(value in any_json()) {
        decode_as_everything(&value);
    }

    #[test]
    fn a_document_with_one_spoilt_place_is_read_or_refused_with_a_place(
        which in 0..3usize,
        place in any::<prop::sample::Index>(),
        junk in any_json(),
    ) {
        let mut document: Value = serde_json::from_str([JOB, TOPOLOGY, RESULT][which]).unwrap();
        let mut found = Vec::new();
        places("", &document, &mut found);
        *document.pointer_mut(place.get::<String>(&found)).unwrap() = junk;
        let fault = if which == 2 {
            decode::<CaseResult>(&document).err()
        } else {
            decode::<CaseJob>(&document).err()
        };
        if let Some(error) = fault {
            prop_assert!(!error.path.is_empty() && !error.message.contains("at `"), "{}", error);
        }
    }
}
