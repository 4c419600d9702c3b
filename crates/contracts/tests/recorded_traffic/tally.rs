//! Counts what was read and notes where this crate and a recording differ.

use std::collections::{BTreeMap, BTreeSet};

use everdict_contracts::decode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Keys of the recordings that are not written again, by the path where they stand.
const LEFT_OUT: &[&str] = &[
    // Sent to see whether unknown keys are ignored.
    "unknown_field",
    "pad",
    // A value beside an unmeasured score: the normaliser drops it.
    "result.scores[].value",
];

/// Keys that decoding fills in when a message leaves them out.
const FILLED_IN: &[&str] = &[
    // Of the registered command templates.
    "env",
    "params",
    "setup",
    // The normaliser stamps every score.
    "result.scores[].status",
];

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<&'static str, usize>,
    pub(crate) faults: BTreeSet<String>,
}

impl Tally {
    pub(crate) fn count(&mut self, sort: &'static str) {
        *self.counts.entry(sort).or_default() += 1;
    }

    /// Decodes a message and compares it with what this crate would have written.
    pub(crate) fn round_trip<T: DeserializeOwned + Serialize>(
        &mut self,
        sort: &'static str,
        recorded: &Value,
    ) -> Option<T> {
        self.count(sort);
        let typed = match decode::<T>(recorded) {
            Ok(typed) => typed,
            Err(error) => {
                self.faults.insert(format!("{sort}: {error}"));
                return None;
            }
        };
        let written = serde_json::to_value(&typed).expect("a decoded message can be written");
        let mut faults = Vec::new();
        compare("", recorded, &written, &mut faults);
        self.faults
            .extend(faults.into_iter().map(|fault| format!("{sort}: {fault}")));
        Some(typed)
    }

    /// Compares both sides of a call that was answered.
    pub(crate) fn call<A, R>(&mut self, sort: &'static str, arguments: &Value, reply: &Value)
    where
        A: DeserializeOwned + Serialize,
        R: DeserializeOwned + Serialize,
    {
        self.round_trip::<A>(sort, arguments);
        self.round_trip::<R>(sort, reply);
    }

    /// Expects that this crate refuses what the recorded control plane refused.
    pub(crate) fn refused<T: DeserializeOwned>(&mut self, sort: &'static str, recorded: &Value) {
        self.count(sort);
        if decode::<T>(recorded).is_ok() {
            self.faults.insert(format!("{sort}: took {recorded}"));
        }
    }
}

fn compare(path: &str, recorded: &Value, written: &Value, faults: &mut Vec<String>) {
    match (recorded, written) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                let place = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match right.get(key) {
                    Some(other) => compare(&place, value, other, faults),
                    None if listed(LEFT_OUT, &place) => {}
                    None => faults.push(format!("{place} was lost")),
                }
            }
            for key in right.keys().filter(|key| !left.contains_key(*key)) {
                let place = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                if !listed(FILLED_IN, &place) {
                    faults.push(format!("{place} was added"));
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (one, other) in left.iter().zip(right) {
                compare(&format!("{path}[]"), one, other, faults);
            }
        }
        _ if recorded == written => {}
        _ => faults.push(format!("{path}: {recorded} became {written}")),
    }
}

fn listed(list: &[&str], place: &str) -> bool {
    list.contains(&place)
}
