//! Makes a result one that the hub takes: valid event by event, and not too large.
//!
//! A hub checks a result as a whole, so one bad event would cost all the others, and one that is too large costs
//! everything. What is changed is said in the result itself.

use everdict_contracts::{CaseResult, InvalidReason, InvalidScore, Score, TraceEvent, decode};
use serde_json::Value;

/// A hub takes 16 MiB a call; the rest is for what is around the result.
pub(crate) const MAX_RESULT_BYTES: usize = 15 << 20;

/// Events at either end that are never left out: what was run, and how it ended.
const KEPT_EVENTS: usize = 200;

/// One rule of shortening, mildest first.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Texts in this part are cut to so many characters.
    Texts(&'static str, usize),
    /// This part goes.
    Drop(&'static str),
    /// Only the first and last events stay.
    MiddleEvents,
}

/// What an agent printed is also in the log; the verdict and the diff are nowhere else.
const RULES: [Rule; 9] = [
    Rule::Texts("trace", 16_000),
    Rule::Drop("envDeltas"),
    Rule::Texts("scores", 16_000),
    Rule::Texts("trace", 2_000),
    Rule::MiddleEvents,
    Rule::Drop("evidence"),
    Rule::Texts("scores", 2_000),
    Rule::Texts("snapshot", 1 << 20),
    Rule::Texts("snapshot", 32 << 10),
];

/// The result as it can be sent, at most `limit` bytes of JSON.
pub(crate) fn fit(result: CaseResult, limit: usize) -> CaseResult {
    shrink(repair(result), limit)
}

/// Replaces each event and each score that would not pass by a word about it.
fn repair(mut result: CaseResult) -> CaseResult {
    let mut repaired = 0_usize;
    for event in &mut result.trace {
        if let Err(why) = passes::<TraceEvent>(event) {
            let t = if event.t.is_finite() { event.t } else { 0.0 };
            *event = TraceEvent::error(t, format!("an event that is not valid was left out: {why}"));
            repaired += 1;
        }
    }
    for score in &mut result.scores {
        let checked = match &*score {
            // A hub that is strict refuses it, one that is kind makes the same of it.
            Score::Measured(measured) if !measured.value.is_finite() => {
                Err("its value is no finite number".to_owned())
            }
            other => passes::<Score>(other),
        };
        if let Err(why) = checked {
            *score = Score::Invalid(InvalidScore {
                grader_id: named(score.grader_id()),
                metric: named(score.metric()),
                reason: InvalidReason::ContractViolation,
                detail: Some(format!("the score is not valid: {why}").into()),
                trace_events: None,
            });
            repaired += 1;
        }
    }
    if repaired > 0 {
        tracing::warn!(case = %result.case_id, repaired, "parts of a result were not valid, and are replaced");
        result.trace_sealed = None;
    }
    result
}

fn named(name: &str) -> String {
    if name.is_empty() { "unnamed" } else { name }.to_owned()
}

/// Whether what is written can be read again, as the hub will.
fn passes<T: serde::Serialize + serde::de::DeserializeOwned>(part: &T) -> Result<(), String> {
    let value = serde_json::to_value(part).map_err(|error| error.to_string())?;
    decode::<T>(value).map(drop).map_err(|error| error.to_string())
}

fn shrink(result: CaseResult, limit: usize) -> CaseResult {
    let Ok(mut value) = serde_json::to_value(&result) else {
        return result;
    };
    let before = size(&value);
    if before <= limit {
        return result;
    }
    let mut done = Vec::new();
    for rule in RULES {
        if apply(rule, &mut value) {
            done.push(rule.words());
            // Room for the note.
            if size(&value) + 1_000 <= limit {
                break;
            }
        }
    }
    let after = size(&value);
    let note = format!(
        "result_too_large: {before} bytes, the limit is {limit}; {after} are left after: {}",
        done.join(", ")
    );
    tracing::warn!(case = %result.case_id, "{note}");
    let Ok(mut shrunk) = decode::<CaseResult>(value) else {
        return super::trimmed(&result, &note);
    };
    let t = shrunk.trace.last().map_or(0.0, |event| event.t);
    shrunk.trace.push(TraceEvent::error(t, note));
    // A trace that is not whole must not be vouched for.
    shrunk.trace_sealed = None;
    shrunk.judgments_sealed = None;
    shrunk
}

fn size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

impl Rule {
    fn words(self) -> String {
        match self {
            Self::Texts(part, max) => format!("texts of the {part} cut to {max} characters"),
            Self::Drop(part) => format!("{part} left out"),
            Self::MiddleEvents => format!("all but the first and last {KEPT_EVENTS} events left out"),
        }
    }
}

/// Says whether anything was changed.
fn apply(rule: Rule, result: &mut Value) -> bool {
    match rule {
        Rule::Texts(part, max) => result.get_mut(part).is_some_and(|part| cut_texts(part, max)),
        Rule::Drop(part) => result
            .as_object_mut()
            .is_some_and(|map| map.remove(part).is_some()),
        Rule::MiddleEvents => {
            let Some(Value::Array(trace)) = result.get_mut("trace") else {
                return false;
            };
            let middle = KEPT_EVENTS..trace.len().saturating_sub(KEPT_EVENTS);
            let any = !middle.is_empty();
            if any {
                trace.drain(middle);
            }
            any
        }
    }
}

/// Keeps the end of each text, where an error stands; a text that says what it is (a kind, an id) is short.
fn cut_texts(value: &mut Value, max: usize) -> bool {
    match value {
        Value::String(text) => {
            // Bytes are never fewer than characters.
            let total = if text.len() > max { text.chars().count() } else { 0 };
            if total <= max {
                return false;
            }
            let kept: String = text.chars().skip(total - max).collect();
            *text = format!("[{} characters left out]\n{kept}", total - max);
            true
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |any, item| cut_texts(item, max) | any),
        Value::Object(map) => map
            .values_mut()
            .fold(false, |any, item| cut_texts(item, max) | any),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use everdict_contracts::{EnvSnapshot, OutputStream};

    use super::*;

    fn result(trace: Vec<TraceEvent>) -> CaseResult {
        let mut result = CaseResult::new("c1".into(), "h@1", EnvSnapshot::prompt("out"));
        result.trace = trace;
        result.scores = vec![Score::verdict("g", "pass", true)];
        result.trace_sealed = Some(true);
        result
    }

    #[test]
    fn a_result_that_fits_is_left_as_it_is() {
        let fine = result(vec![TraceEvent::error(1.0, "x")]);
        assert_eq!(fit(fine.clone(), MAX_RESULT_BYTES), fine);
    }

    #[test]
    fn one_bad_event_costs_no_other_and_no_verdict() {
        let mut score = Score::verdict("g", "speed", true);
        if let Score::Measured(measured) = &mut score {
            measured.value = f64::NAN;
        }
        let mut bad = result(vec![
            TraceEvent::error(1.0, "before"),
            TraceEvent::error(f64::NAN, "no time"),
            TraceEvent::error(3.0, "after"),
        ]);
        bad.scores.push(score);
        let fitted = fit(bad, MAX_RESULT_BYTES);
        passes(&fitted).unwrap();
        let text = serde_json::to_string(&fitted.trace).unwrap();
        assert!(
            text.contains("before") && text.contains("after") && text.contains("was left out"),
            "{text}"
        );
        assert_eq!(fitted.trace.len(), 3);
        assert_eq!(fitted.scores[0], Score::verdict("g", "pass", true));
        assert!(matches!(fitted.scores[1], Score::Invalid(_)));
        assert_eq!(fitted.trace_sealed, None);
    }

    #[test]
    fn fifty_megabytes_become_what_the_hub_takes_with_both_sizes_and_the_verdict() {
        let limit = 10 << 20;
        let line = "y".repeat(50_000);
        let big = result(
            (0..1_000)
                .map(|t| TraceEvent::log(f64::from(t), OutputStream::Stdout, line.clone()))
                .collect(),
        );
        let before = serde_json::to_vec(&big).unwrap().len();
        let fitted = fit(big, limit);
        let after = serde_json::to_vec(&fitted).unwrap().len();
        assert!(after <= limit, "{after}");
        assert_eq!(fitted.scores, [Score::verdict("g", "pass", true)]);
        let note = serde_json::to_string(fitted.trace.last().unwrap()).unwrap();
        assert!(note.contains("result_too_large"), "{note}");
        assert!(
            note.contains(&before.to_string()) && note.contains(&limit.to_string()),
            "{note}"
        );
        passes(&fitted).unwrap();
    }

    #[test]
    fn many_small_events_fit_too() {
        let big = result(
            (0..20_000)
                .map(|t| TraceEvent::log(f64::from(t), OutputStream::Stdout, "line of output"))
                .collect(),
        );
        let fitted = fit(big, 1 << 20);
        assert!(serde_json::to_vec(&fitted).unwrap().len() <= 1 << 20);
        assert_eq!(fitted.trace.len(), 2 * KEPT_EVENTS + 1);
    }
}
