//! One rule that turns a finished run into a verdict. Used by every face of the product.
//!
//! In order:
//! 1. `infra`: the failure is of class `infra`, or the run ended without a result (cancelled, given up); it says
//!    nothing about the case. A run that the hub refused to dispatch for a reason of class `config` is `unmeasured`.
//! 2. `timeout`: the harness was stopped at its deadline (`command.exit` with `timedOut`, or exit code 124).
//! 3. `fail`: a failure of class `config`, `harness` or `agent` while installing or running; the reason is its message.
//! 4. `unmeasured`: any other failure (dispatch, collect, grade), since nothing was judged.
//! 5. `fail`: a measured score with `pass: false`.
//! 6. `pass`: at least one measured `pass: true`, and no judging grader left unmeasured.
//! 7. `unmeasured`: anything else.

use serde::{Deserialize, Serialize};

use crate::failure::{CaseFailure, FailureClass, FailureStage};
use crate::fault::ErrorCode;
use crate::result::CaseResult;
use crate::run::RunRecord;
use crate::score::Score;
use crate::trace::{TraceEvent, TraceEventKind};

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Judged and good.
    Pass,
    /// Judged and not good, or the case or harness can't work as it is.
    Fail,
    /// Stopped at its deadline.
    Timeout,
    /// Nothing judged it.
    Unmeasured,
    /// The surroundings failed; not counted.
    Infra,
}

impl Verdict {
    /// Returns the word used on the wire and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Timeout => "timeout",
            Self::Unmeasured => "unmeasured",
            Self::Infra => "infra",
        }
    }

    /// Returns the words people see.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Pass => "Passed",
            Self::Fail => "Failed",
            Self::Timeout => "Timed out",
            Self::Unmeasured => "Unmeasured",
            Self::Infra => "Infra (not counted)",
        }
    }
}

/// A verdict and, where it isn't plain from the scores, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What it came to.
    pub verdict: Verdict,
    /// Why, in a line.
    pub reason: Option<String>,
}

/// The exit code by which `timeout(1)` and the runner say that a command was stopped at its deadline.
const TIMED_OUT: i64 = 124;

/// Graders that observe and never judge; their absence leaves a verdict as it is.
const OBSERVING: [&str; 4] = ["steps", "cost", "latency", "text-metric"];

/// Judges a finished run.
#[must_use]
pub fn judge(run: &RunRecord) -> Judged {
    match (&run.result, &run.error) {
        (Some(result), _) => judge_result(result),
        (None, Some(error)) => Judged {
            verdict: refused(&error.code),
            reason: Some(format!("{}: {}", error.code, error.message)),
        },
        (None, None) => Judged {
            verdict: Verdict::Infra,
            reason: Some("the hub holds no result".to_owned()),
        },
    }
}

/// Without a result the case was never tried; only a refusal of the request itself isn't the surroundings' doing.
fn refused(code: &str) -> Verdict {
    let known = ErrorCode::ALL.into_iter().find(|known| known.as_str() == code);
    match known.map(|code| code.class().0) {
        Some(FailureClass::Config) => Verdict::Unmeasured,
        _ => Verdict::Infra,
    }
}

/// Judges a result.
#[must_use]
pub fn judge_result(result: &CaseResult) -> Judged {
    let failure = result.failure.as_ref();
    if let Some(failure) = failure.filter(|failure| failure.class == FailureClass::Infra) {
        return judged(Verdict::Infra, Some(failure_text(failure)));
    }
    if result.trace.iter().any(is_deadline) {
        let reason = "stopped at the case's time limit".to_owned();
        return judged(Verdict::Timeout, Some(reason));
    }
    if let Some(failure) = failure {
        let verdict = match failure.stage {
            FailureStage::Install | FailureStage::Run => Verdict::Fail,
            FailureStage::Dispatch | FailureStage::Collect | FailureStage::Grade => Verdict::Unmeasured,
        };
        return judged(verdict, Some(failure_text(failure)));
    }
    judge_scores(&result.scores)
}

/// The mean of the values of those scores that judge; costs and counts are no part of it. `None` where none judges.
#[must_use]
pub fn mean_score(result: &CaseResult) -> Option<f64> {
    let values: Vec<f64> = result
        .scores
        .iter()
        .filter_map(|score| match score {
            Score::Measured(score) if score.pass.is_some() => Some(score.value),
            _ => None,
        })
        .filter(|value| value.is_finite())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn judge_scores(scores: &[Score]) -> Judged {
    let mut passed = false;
    let mut open = None;
    for score in scores {
        match score {
            Score::Measured(measured) => match measured.pass {
                Some(false) => {
                    let reason = format!("{} says no", measured.grader_id);
                    return judged(Verdict::Fail, Some(reason));
                }
                Some(true) => passed = true,
                None => {}
            },
            Score::Unmeasured(score) if OBSERVING.contains(&score.grader_id.as_str()) => {}
            Score::Unmeasured(score) => {
                open.get_or_insert_with(|| format!("{} could not measure", score.grader_id));
            }
            Score::Invalid(score) => {
                open.get_or_insert_with(|| format!("{} gave an invalid score", score.grader_id));
            }
        }
    }
    match (passed, open) {
        (true, None) => judged(Verdict::Pass, None),
        (_, Some(reason)) => judged(Verdict::Unmeasured, Some(reason)),
        (false, None) => judged(Verdict::Unmeasured, Some("no grader judged it".to_owned())),
    }
}

fn is_deadline(event: &TraceEvent) -> bool {
    let TraceEventKind::EnvAction(event) = &event.kind else {
        return false;
    };
    let Some(detail) = event.detail.as_ref().filter(|_| event.action == "command.exit") else {
        return false;
    };
    detail.get("timedOut").and_then(serde_json::Value::as_bool) == Some(true)
        || detail.get("exitCode").and_then(serde_json::Value::as_i64) == Some(TIMED_OUT)
}

fn failure_text(failure: &CaseFailure) -> String {
    format!("{}: {}", failure.code, failure.message)
}

fn judged(verdict: Verdict, reason: Option<String>) -> Judged {
    Judged { verdict, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn verdict(patch: &Value) -> Verdict {
        let mut value = json!({
            "caseId": "c", "harness": "h@1", "trace": [],
            "snapshot": {"kind": "prompt", "output": ""}, "scores": [],
        });
        for (key, part) in patch.as_object().unwrap() {
            value[key] = part.clone();
        }
        let result = crate::decode::<CaseResult>(&value).unwrap();
        judge_result(&result).verdict
    }

    fn measured(pass: bool) -> Value {
        json!({"graderId": "tests-pass", "metric": "tests", "value": 1, "pass": pass, "status": "measured"})
    }

    fn unmeasured(grader: &str) -> Value {
        json!({"graderId": grader, "metric": "m", "status": "unmeasured", "reason": "grader_error", "retryable": true})
    }

    fn failure(stage: &str, class: &str) -> Value {
        json!({"stage": stage, "class": class, "code": "X", "message": "m", "retryable": false})
    }

    fn exit(detail: &Value) -> Value {
        json!([{"t": 1, "kind": "env_action", "action": "command.exit", "detail": detail}])
    }

    #[test]
    fn scores_decide_when_nothing_failed() {
        let steps = json!({"graderId": "steps", "metric": "steps", "value": 3, "status": "measured"});
        for (scores, expected) in [
            (json!([measured(true), steps]), Verdict::Pass),
            (json!([measured(true), measured(false)]), Verdict::Fail),
            (json!([measured(false), unmeasured("judge")]), Verdict::Fail),
            (json!([measured(true), unmeasured("judge")]), Verdict::Unmeasured),
            (json!([measured(true), unmeasured("cost")]), Verdict::Pass),
            (json!([steps]), Verdict::Unmeasured),
            (json!([]), Verdict::Unmeasured),
            (
                json!([{"graderId": "g", "metric": "", "value": 1}, measured(true)]),
                Verdict::Unmeasured,
            ),
        ] {
            assert_eq!(verdict(&json!({"scores": scores})), expected, "{scores}");
        }
    }

    #[test]
    fn a_deadline_is_a_timeout_whatever_the_graders_say() {
        for detail in [
            json!({"exitCode": 124}),
            json!({"exitCode": -1, "timedOut": true}),
        ] {
            let patch = json!({"trace": exit(&detail), "scores": [measured(true)]});
            assert_eq!(verdict(&patch), Verdict::Timeout, "{detail}");
        }
        let patch = json!({"trace": exit(&json!({"exitCode": 1})), "scores": [measured(true)]});
        assert_eq!(verdict(&patch), Verdict::Pass);
    }

    #[test]
    fn failures_come_before_scores() {
        for (stage, class, expected) in [
            ("run", "infra", Verdict::Infra),
            ("install", "harness", Verdict::Fail),
            ("run", "config", Verdict::Fail),
            ("dispatch", "config", Verdict::Unmeasured),
            ("grade", "harness", Verdict::Unmeasured),
        ] {
            let patch = json!({"failure": failure(stage, class), "scores": [measured(true)]});
            assert_eq!(verdict(&patch), expected, "{stage}/{class}");
        }
        let lost = json!({"failure": failure("run", "infra"), "trace": exit(&json!({"exitCode": 124}))});
        assert_eq!(verdict(&lost), Verdict::Infra);
    }
}
