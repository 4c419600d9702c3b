//! A case's result, cut down to what a window shows and a history keeps.

use everdict_contracts::{CaseResult, EnvSnapshot, Score, TraceEvent, TraceEventKind};
use serde_json::Value;

use super::view::{ChangesView, ScoreStatus, ScoreView, StepKind, TraceStep, TraceView};

/// A diff beyond this is read in an editor, not in a window.
const MAX_DIFF: usize = 64 * 1024;

/// The raw result beyond this is read in an editor too.
const MAX_RAW: usize = 256 * 1024;

/// More steps than this nobody reads one by one.
const MAX_STEPS: usize = 200;

/// Some lines of text: enough to recognise a step or to understand a reason.
const MAX_TEXT: usize = 2000;

/// The kept parts of a result.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) scores: Vec<ScoreView>,
    pub(super) changes: Option<ChangesView>,
    pub(super) trace: Option<TraceView>,
    pub(super) raw: Option<String>,
}

impl Parts {
    pub(super) fn of(result: &CaseResult) -> Self {
        let raw = serde_json::to_string_pretty(result)
            .ok()
            .filter(|text| text.len() <= MAX_RAW);
        Self {
            scores: result.scores.iter().map(score).collect(),
            changes: changes(&result.snapshot),
            trace: Some(trace(&result.trace)),
            raw,
        }
    }

    /// Tokens in and out, where the trace tells.
    pub(super) fn tokens(&self) -> Option<u64> {
        let trace = self.trace.as_ref()?;
        match (trace.input_tokens, trace.output_tokens) {
            (None, None) => None,
            (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
        }
    }

    pub(super) fn cost_usd(&self) -> Option<f64> {
        self.trace.as_ref()?.cost_usd
    }
}

fn score(score: &Score) -> ScoreView {
    match score {
        Score::Measured(score) => ScoreView {
            grader: score.grader_id.clone(),
            metric: score.metric.clone(),
            status: ScoreStatus::Measured,
            value: Some(score.value).filter(|value| value.is_finite()),
            pass: score.pass,
            label: score.label.clone(),
            reason: score.detail.as_ref().and_then(text),
        },
        Score::Unmeasured(score) => ScoreView {
            grader: score.grader_id.clone(),
            metric: score.metric.clone(),
            status: ScoreStatus::Unmeasured,
            value: None,
            pass: None,
            label: None,
            reason: score
                .detail
                .as_ref()
                .and_then(text)
                .or_else(|| word(&score.reason)),
        },
        Score::Invalid(score) => ScoreView {
            grader: score.grader_id.clone(),
            metric: score.metric.clone(),
            status: ScoreStatus::Invalid,
            value: None,
            pass: None,
            label: None,
            reason: score
                .detail
                .as_ref()
                .and_then(text)
                .or_else(|| word(&score.reason)),
        },
    }
}

/// The name that an enum has on the wire.
fn word(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(cut(text, MAX_TEXT).to_owned()),
        other => Some(cut(&other.to_string(), MAX_TEXT).to_owned()),
    }
}

fn changes(snapshot: &EnvSnapshot) -> Option<ChangesView> {
    let EnvSnapshot::Repo(repo) = snapshot else {
        return None;
    };
    let diff = cut(&repo.diff, MAX_DIFF);
    Some(ChangesView {
        files: repo.changed_files.clone(),
        truncated: diff.len() < repo.diff.len(),
        diff: diff.to_owned(),
    })
}

fn trace(events: &[TraceEvent]) -> TraceView {
    let begin = events.first().map_or(0.0, |event| event.t);
    let mut view = TraceView {
        events: events.len(),
        left_out: events.len().saturating_sub(MAX_STEPS),
        ..TraceView::default()
    };
    for (index, event) in events.iter().enumerate() {
        count(&mut view, &event.kind);
        if index < MAX_STEPS {
            view.steps.push(step(event, begin));
        }
    }
    view
}

fn count(view: &mut TraceView, kind: &TraceEventKind) {
    match kind {
        TraceEventKind::LlmCall(call) => {
            view.llm_calls += 1;
            if let Some(cost) = &call.cost {
                *view.input_tokens.get_or_insert(0) += cost.input_tokens;
                *view.output_tokens.get_or_insert(0) += cost.output_tokens;
                *view.cost_usd.get_or_insert(0.0) += cost.usd;
            }
        }
        TraceEventKind::ToolCall(_) => view.tool_calls += 1,
        TraceEventKind::Error(_) => view.errors += 1,
        _ => {}
    }
}

fn step(event: &TraceEvent, begin: f64) -> TraceStep {
    let (kind, name, said) = match &event.kind {
        TraceEventKind::Message(message) => {
            let name = word(&message.role).unwrap_or_default();
            (StepKind::Message, name, Some(message.text.clone()))
        }
        TraceEventKind::LlmCall(call) => (StepKind::Llm, call.model.clone(), None),
        TraceEventKind::ToolCall(call) => {
            let args = call.args.as_ref().and_then(text);
            (StepKind::Tool, call.name.clone(), args)
        }
        TraceEventKind::ToolResult(result) => {
            (StepKind::Tool, result.id.clone(), Some(result.output.clone()))
        }
        TraceEventKind::Error(error) => (StepKind::Error, "error".to_owned(), Some(error.message.clone())),
        TraceEventKind::EnvAction(action) => {
            let detail = action.detail.as_ref().and_then(text);
            (StepKind::Other, action.action.clone(), detail)
        }
        TraceEventKind::Log(log) => {
            let name = word(&log.stream).unwrap_or_default();
            (StepKind::Other, name, Some(log.text.clone()))
        }
        TraceEventKind::Artifact(artifact) => (StepKind::Other, artifact.name.clone(), None),
        TraceEventKind::Span(span) => (StepKind::Other, span.name.clone(), None),
        TraceEventKind::Infra(infra) => {
            let name = infra.event.clone().unwrap_or_else(|| "infra".to_owned());
            (StepKind::Other, name, Some(infra.message.clone()))
        }
    };
    TraceStep {
        at: finite(event.t - begin),
        duration_ms: event.duration_ms.map(finite),
        kind,
        name,
        text: said.map(|said| cut(&said, MAX_TEXT).to_owned()),
    }
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// The beginning of `text`, at most `max` bytes, never through a character.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parts(patch: &Value) -> Parts {
        let mut value = json!({
            "caseId": "c", "harness": "h@1", "trace": [], "scores": [],
            "snapshot": {"kind": "prompt", "output": ""},
        });
        for (key, part) in patch.as_object().unwrap() {
            value[key] = part.clone();
        }
        Parts::of(&everdict_contracts::decode::<CaseResult>(&value).unwrap())
    }

    #[test]
    fn a_trace_is_counted_whole_and_shown_in_part() {
        let call = json!({"t": 5, "kind": "llm_call", "model": "m", "cost": {"inputTokens": 3, "outputTokens": 2, "usd": 0.5}});
        let mut events = vec![call; 300];
        events.push(json!({"t": 9, "kind": "error", "message": "no"}));
        let parts = parts(&json!({"trace": events}));
        let trace = parts.trace.as_ref().unwrap();
        assert_eq!((trace.events, trace.llm_calls, trace.errors), (301, 300, 1));
        assert_eq!((trace.steps.len(), trace.left_out), (MAX_STEPS, 101));
        assert_eq!(parts.tokens(), Some(1500));
        assert_eq!(parts.cost_usd(), Some(150.0));
    }

    #[test]
    fn a_trace_without_cost_claims_no_tokens() {
        let parts = parts(&json!({"trace": [{"t": 1, "kind": "llm_call", "model": "m"}]}));
        assert_eq!((parts.tokens(), parts.cost_usd()), (None, None));
    }

    #[test]
    fn a_long_diff_is_cut_between_characters_and_says_so() {
        let diff = "é".repeat(MAX_DIFF);
        let snapshot = json!({"kind": "repo", "diff": diff, "changedFiles": ["a"], "headSha": "0"});
        let changes = parts(&json!({"snapshot": snapshot})).changes.unwrap();
        assert!(changes.truncated && changes.diff.len() <= MAX_DIFF);
        assert!(changes.diff.chars().all(|c| c == 'é'));
    }

    #[test]
    fn each_score_says_whether_it_is_one() {
        let scores = json!([
            {"graderId": "g", "metric": "m", "value": 1, "pass": true, "status": "measured"},
            {"graderId": "h", "metric": "m", "status": "unmeasured", "reason": "grader_timeout", "retryable": true},
        ]);
        let scores = parts(&json!({"scores": scores})).scores;
        assert_eq!(
            (scores[0].status, scores[0].pass),
            (ScoreStatus::Measured, Some(true))
        );
        assert_eq!(scores[1].status, ScoreStatus::Unmeasured);
        assert_eq!(scores[1].reason.as_deref(), Some("grader_timeout"));
    }
}
