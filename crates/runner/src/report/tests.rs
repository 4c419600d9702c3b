use everdict_contracts::{Fault, TraceEventKind, decode};
use serde_json::json;

use super::*;

fn job() -> CaseJob {
    decode(json!({
        "evalCase": {"id": "c1", "env": {"kind": "prompt"}, "task": "t", "graders": []},
        "harness": {"id": "h", "version": "1.0.0"},
        "trial": 2,
    }))
    .unwrap()
}

fn place() -> Place {
    Place {
        hostname: "box".to_owned(),
    }
}

fn span() -> Span {
    let leased: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    Span {
        leased,
        finished: leased + jiff::SignedDuration::from_millis(250),
    }
}

fn events(result: &CaseResult) -> Vec<(String, f64)> {
    result
        .trace
        .iter()
        .map(|event| match &event.kind {
            TraceEventKind::Infra(infra) => (infra.event.clone().unwrap(), event.t),
            other => (
                format!("{other:?}").split('(').next().unwrap().to_lowercase(),
                event.t,
            ),
        })
        .collect()
}

#[test]
fn placement_events_frame_the_trace_on_its_own_clock() {
    let mut result = CaseResult::new("c1".into(), "h@1", EnvSnapshot::prompt(""));
    result.trace = vec![TraceEvent::error(3.0, "x")];
    frame(&mut result, &place(), span());
    assert_eq!(
        events(&result),
        [
            ("leased".into(), 0.0),
            ("error".into(), 3.0),
            ("finished".into(), 250.0)
        ]
    );

    let mut result = CaseResult::new("c1".into(), "h@1", EnvSnapshot::prompt(""));
    let start = epoch_ms(span().leased);
    result.trace = vec![TraceEvent::error(start + 3.0, "x")];
    frame(&mut result, &place(), span());
    let times: Vec<f64> = result.trace.iter().map(|event| event.t - start).collect();
    assert_eq!(times, [0.0, 3.0, 250.0]);
    assert_eq!(result.trace[0].at.as_deref(), Some("2026-01-02T03:04:05.000Z"));
}

#[test]
fn a_failed_result_has_the_shape_of_the_protocol() {
    let failure = Fault::internal("boom").failure();
    let result = failed_result(&job(), failure, &place(), span());
    let wire = serde_json::to_value(&result).unwrap();
    assert_eq!(wire["caseId"], "c1");
    assert_eq!(wire["harness"], "h@1.0.0");
    assert_eq!(wire["evidenceVersion"], 2);
    assert_eq!(wire["trial"], 2);
    assert_eq!(wire["snapshot"], json!({"kind": "prompt", "output": ""}));
    assert_eq!(
        wire["scores"],
        json!([{
            "status": "unmeasured", "graderId": "run", "metric": "error", "reason": "missing_evidence",
            "retryable": true, "detail": "[infra] boom",
        }])
    );
    assert_eq!(wire["failure"]["code"], "INTERNAL");
    assert_eq!(events(&result)[0].0, "leased");
    assert_eq!(events(&result)[1].0, "error");
}

#[test]
fn a_trimmed_result_keeps_the_verdict_and_says_what_is_missing() {
    let mut result = CaseResult::new("c1".into(), "h@1", EnvSnapshot::prompt("out"));
    result.trace = vec![TraceEvent::error(f64::NAN, "a"), TraceEvent::error(f64::NAN, "b")];
    result.trace_sealed = Some(true);
    result.scores = vec![Score::verdict("g", "pass", true)];
    let small = trimmed(&result, "trace.0: Invalid input");
    assert_eq!(small.scores, result.scores);
    assert_eq!(small.snapshot, result.snapshot);
    assert_eq!(small.trace_sealed, None);
    assert_eq!(small.trace.len(), 1);
    let text = serde_json::to_string(&small).unwrap();
    assert!(
        text.contains("2 trace events left out: trace.0: Invalid input"),
        "{text}"
    );
}

#[test]
fn the_closing_line_tells_the_verdict() {
    let mut result = CaseResult::new("c1".into(), "h@1", EnvSnapshot::prompt(""));
    result.scores = vec![
        Score::verdict("g", "pass", true),
        Score::verdict("h", "pass", false),
        Score::unmeasured("i", "x", UnmeasuredReason::GraderError, true),
    ];
    assert_eq!(
        closing_line(&result),
        "✓ Completed: 1 of 2 verdicts passed, 1 unmeasured"
    );
    result.failure = Some(Fault::bad_request("no such field").failure());
    assert_eq!(closing_line(&result), "✗ Failed [config / run]: no such field");
}
