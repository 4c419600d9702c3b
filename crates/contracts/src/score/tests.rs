use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::decode;

fn normalised(value: Value) -> Value {
    let score: Score = decode(&value).unwrap_or_else(|error| panic!("{error} in {value}"));
    serde_json::to_value(score).unwrap()
}

#[test]
fn a_value_is_stamped_measured_and_strangers_are_dropped() {
    assert_eq!(
        normalised(
            json!({"graderId": "g", "metric": "m", "value": 2, "pass": true, "label": "l", "detail": null, "x": 1})
        ),
        json!({"graderId": "g", "metric": "m", "status": "measured", "value": 2, "pass": true, "label": "l", "detail": null})
    );
    assert_eq!(
        normalised(
            json!({"graderId": "g", "metric": "m", "value": 0.5, "status": "whatever", "traceEvents": []})
        ),
        json!({"graderId": "g", "metric": "m", "status": "measured", "value": 0.5})
    );
}

#[test]
fn an_unmeasured_score_loses_its_value() {
    assert_eq!(
        normalised(json!({
            "graderId": "g", "metric": "m", "status": "unmeasured", "value": 0,
            "reason": "grader_timeout", "retryable": true, "attempts": 3
        })),
        json!({
            "graderId": "g", "metric": "m", "status": "unmeasured",
            "reason": "grader_timeout", "retryable": true, "attempts": 3
        })
    );
    assert_eq!(
        normalised(json!({
            "graderId": "g", "metric": "m", "status": "unmeasured", "reason": "tired", "retryable": "yes", "attempts": -1
        })),
        json!({"graderId": "g", "metric": "m", "status": "unmeasured", "reason": "unsupported", "retryable": false})
    );
}

#[test]
fn older_graders_say_in_the_detail_that_nothing_was_measured() {
    let unmeasured = |detail: &str, reason: &str, retryable: bool| {
        json!({
            "graderId": "g", "metric": "m", "status": "unmeasured",
            "reason": reason, "retryable": retryable, "detail": detail
        })
    };
    let old = |detail: &str| json!({"graderId": "g", "metric": "m", "value": 0, "detail": detail});
    assert_eq!(
        normalised(old("[grader-error] boom")),
        unmeasured("[grader-error] boom", "grader_error", true)
    );
    assert_eq!(
        normalised(old("skipped: no key")),
        unmeasured("skipped: no key", "unsupported", false)
    );

    let mut verdict = old("skipped: no key");
    verdict["pass"] = json!(false);
    assert_eq!(
        normalised(verdict)["status"],
        "measured",
        "a verdict stands whatever the detail says"
    );
    let mut stamped = old("[grader-error] boom");
    stamped["status"] = json!("measured");
    assert_eq!(
        normalised(stamped)["status"],
        "measured",
        "a status stands whatever the detail says"
    );
}

#[test]
fn what_cannot_be_a_score_is_invalid_not_zero() {
    let invalid =
        json!({"graderId": "g", "metric": "m", "status": "invalid", "reason": "contract_violation"});
    assert_eq!(normalised(json!({"graderId": "g", "metric": "m"})), invalid);
    assert_eq!(
        normalised(json!({"graderId": "g", "metric": "m", "value": null})),
        invalid
    );
    assert_eq!(
        normalised(json!({"graderId": "g", "metric": "m", "value": "1"})),
        invalid
    );
    assert_eq!(
        normalised(json!({"graderId": "g", "metric": "m", "value": 1, "status": "invalid"})),
        invalid
    );
    assert_eq!(
        normalised(json!({"graderId": "", "metric": "m", "value": 1}))["status"],
        "invalid"
    );
    assert_eq!(
        normalised(json!({"graderId": "g", "metric": "", "value": 1}))["status"],
        "invalid"
    );
    assert_eq!(normalised(json!({}))["status"], "invalid");
}

#[test]
fn a_score_is_an_object() {
    let error = decode::<Vec<Score>>(json!([1])).unwrap_err();
    assert_eq!(error.path, "[0]");
}

fn any_field() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z:]{0,4}".prop_map(Value::from),
        prop::sample::select(vec![
            "measured",
            "unmeasured",
            "invalid",
            "grader_error",
            "policy_skip",
            "[grader-error] x",
            "skipped: y",
        ])
        .prop_map(Value::from),
        Just(json!([])),
        Just(json!({"a": [1]})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn every_object_becomes_a_score_and_stays_it(
        fields in prop::collection::btree_map(
            prop::sample::select(vec![
                "graderId", "metric", "value", "status", "pass", "label", "detail", "reason", "retryable", "attempts",
                "traceEvents", "stranger",
            ]),
            any_field(),
            0..12,
        )
    ) {
        let object: Map<String, Value> = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let once = normalised(Value::Object(object));
        prop_assert_eq!(normalised(once.clone()), once);
    }
}
