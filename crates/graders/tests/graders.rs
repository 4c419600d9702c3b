//! What each grader answers, by what a case shows.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use everdict_contracts::{EnvSnapshot, ErrorCode, EvalCase, Fault, Score, TraceEvent, decode};
use everdict_graders::{Compute, ComputeExec, ComputeOutput, GradeInput, Gradebook, Needs, plan};
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

const BUDGET: Duration = Duration::from_secs(60);

fn case(graders: Value) -> EvalCase {
    decode(json!({ "id": "c", "env": { "kind": "prompt" }, "task": "t", "expected": "Forty Two", "graders": graders }))
        .expect("a well-formed case")
}

fn trace(events: Value) -> Vec<TraceEvent> {
    decode(events).expect("a well-formed trace")
}

fn said(text: &str) -> Vec<TraceEvent> {
    trace(json!([
        { "t": 1, "kind": "message", "role": "assistant", "text": "thinking: 1" },
        { "t": 2, "kind": "message", "role": "assistant", "text": text },
        { "t": 3, "kind": "message", "role": "user", "text": "thanks, 99" },
    ]))
}

async fn observe(graders: Value, trace: &[TraceEvent]) -> Vec<Value> {
    let case = case(graders);
    let snapshot = EnvSnapshot::prompt("");
    let mut book = Gradebook::new(plan(&case).unwrap());
    book.grade_observations(GradeInput::new(&case, trace, &snapshot), BUDGET)
        .await;
    json_scores(book)
}

async fn compute(graders: Value, compute: &dyn Compute, budget: Duration) -> Vec<Value> {
    let case = case(graders);
    let snapshot = EnvSnapshot::prompt("");
    let mut book = Gradebook::new(plan(&case).unwrap());
    book.grade_compute(GradeInput::new(&case, &[], &snapshot), compute, budget)
        .await;
    json_scores(book)
}

fn json_scores(book: Gradebook) -> Vec<Value> {
    book.into_scores()
        .iter()
        .map(|score: &Score| serde_json::to_value(score).unwrap())
        .collect()
}

fn refused(graders: Value) -> Fault {
    let fault = plan(&case(graders)).expect_err("the plan is refused");
    assert_eq!(fault.code, ErrorCode::BadRequest);
    fault
}

/// Command, folder, standard input.
type Asked = (String, Option<String>, Option<Vec<u8>>);

/// A scripted shell: answers by command, remembers what it was asked.
#[derive(Default)]
struct Shell {
    answers: BTreeMap<&'static str, (i32, &'static str)>,
    /// Runs this long unless its limit is shorter.
    busy: Duration,
    asked: Mutex<Vec<Asked>>,
    broken: bool,
}

impl Compute for Shell {
    fn exec(&self, exec: ComputeExec) -> BoxFuture<'_, Result<ComputeOutput, Fault>> {
        async move {
            if self.broken {
                return Err(Fault::new(ErrorCode::ComputeExecFailed, "the sandbox is gone"));
            }
            tokio::time::sleep(self.busy.min(exec.timeout)).await;
            if self.busy >= exec.timeout {
                return Ok(ComputeOutput {
                    exit_code: 124,
                    timed_out: true,
                    ..ComputeOutput::default()
                });
            }
            let (exit_code, stdout) = self
                .answers
                .get(exec.command.as_str())
                .copied()
                .unwrap_or_default();
            self.asked
                .lock()
                .unwrap()
                .push((exec.command, exec.cwd, exec.stdin));
            Ok(ComputeOutput {
                exit_code,
                stdout: stdout.to_owned(),
                ..ComputeOutput::default()
            })
        }
        .boxed()
    }
}

#[tokio::test]
async fn steps_cost_and_latency_read_the_trace() {
    let trace = trace(json!([
        { "t": 1000, "kind": "tool_call", "id": "a", "name": "bash" },
        { "t": 1500, "kind": "llm_call", "model": "m", "cost": { "inputTokens": 1, "outputTokens": 2, "usd": 0.25 } },
        { "t": 1600, "kind": "llm_call", "model": "m" },
        { "t": 1700, "kind": "tool_call", "id": "b", "name": "bash" },
        { "t": 3250, "kind": "llm_call", "model": "m", "cost": { "inputTokens": 1, "outputTokens": 2, "usd": 0.5 } },
    ]));
    let graders = json!([{ "id": "latency" }, { "id": "steps" }, { "id": "cost" }]);
    let scores = observe(graders.clone(), &trace).await;
    let read: Vec<_> = scores
        .iter()
        .map(|s| (s["graderId"].clone(), s["metric"].clone(), s["value"].clone()))
        .collect();
    assert_eq!(
        read,
        [
            (json!("latency"), json!("span"), json!(2250)),
            (json!("steps"), json!("tool_calls"), json!(2)),
            (json!("cost"), json!("usd"), json!(0.75))
        ]
    );
    for score in observe(graders, &[]).await {
        assert_eq!(score["value"], json!(0), "{score}");
        assert!(score.get("pass").is_none(), "a reading is no verdict");
    }
}

#[tokio::test]
async fn answer_match_ignores_case_and_layout_of_the_last_answer() {
    let contains = json!([{ "id": "answer-match" }]);
    let exact = json!([{ "id": "answer-match", "config": { "expect": "the answer", "mode": "exact" } }]);
    for (graders, answer, pass) in [
        (&contains, "It is\n FORTY   two.", true),
        (&contains, "It is 43", false),
        (&contains, "", false),
        (&exact, " The  Answer\n", true),
        (&exact, "the answer is", false),
    ] {
        let scores = observe(graders.clone(), &said(answer)).await;
        assert_eq!(
            (&scores[0]["pass"], &scores[0]["metric"]),
            (&json!(pass), &json!("answer_match")),
            "{answer}"
        );
    }
    let empty = observe(
        json!([{ "id": "answer-match", "config": { "expect": " " } }]),
        &said("anything"),
    )
    .await;
    assert_eq!(empty[0]["pass"], false, "nothing expected is never matched");
}

#[tokio::test]
async fn text_metric_reads_a_number_or_says_there_is_none() {
    let graders = json!([{ "id": "text-metric", "config": { "pattern": "acc=([0-9.]+)", "metric": "accuracy", "id": "acc" } }]);
    let hit = observe(graders.clone(), &said("acc=0.75 done")).await;
    assert_eq!(
        (&hit[0]["graderId"], &hit[0]["metric"], &hit[0]["value"]),
        (&json!("acc"), &json!("accuracy"), &json!(0.75))
    );
    for miss in ["no number", "acc=..."] {
        let scores = observe(graders.clone(), &said(miss)).await;
        assert_eq!(scores[0]["value"], 0, "{miss}");
        assert!(scores[0]["detail"].as_str().unwrap().contains("no number"));
    }
}

#[tokio::test]
async fn tests_pass_follows_the_exit_code_and_keeps_the_end_of_the_report() {
    let shell = Shell {
        answers: [("make check", (0, "ok")), ("false", (1, "2 failed"))].into(),
        ..Shell::default()
    };
    let graders = json!([{ "id": "tests-pass", "config": { "cmd": "make check" } }, { "id": "tests-pass", "config": { "cmd": "false" } }]);
    let scores = compute(graders, &shell, BUDGET).await;
    assert_eq!(
        (&scores[0]["value"], &scores[0]["pass"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        (&scores[1]["value"], &scores[1]["pass"], &scores[1]["detail"]),
        (&json!(0), &json!(false), &json!("2 failed"))
    );
    assert_eq!(scores[1]["metric"], "tests_pass");

    let long: &'static str = Box::leak(format!("start{}end", "x".repeat(9_000)).into_boxed_str());
    let shell = Shell {
        answers: [("true", (0, long))].into(),
        ..Shell::default()
    };
    let scores = compute(json!([{ "id": "tests-pass" }]), &shell, BUDGET).await;
    let detail = scores[0]["detail"].as_str().unwrap();
    assert_eq!(detail.chars().count(), 2_000);
    assert!(detail.ends_with("end"));
}

#[tokio::test]
async fn command_applies_its_patch_first_and_reads_its_pattern() {
    let shell = Shell {
        answers: [("run", (3, "3 passed, 0 failed"))].into(),
        ..Shell::default()
    };
    let graders = json!([{ "id": "command", "config": {
        "cmd": "run", "cwd": "work/sub", "applyPatch": "diff --git a b", "passPattern": "(?m)^\\d+ passed", "metric": "suite", "id": "mine",
    } }]);
    let scores = compute(graders, &shell, BUDGET).await;
    assert_eq!(
        (&scores[0]["graderId"], &scores[0]["metric"], &scores[0]["pass"]),
        (&json!("mine"), &json!("suite"), &json!(true))
    );
    let asked = shell.asked.lock().unwrap().clone();
    assert_eq!(asked[0].2.as_deref(), Some("diff --git a b".as_bytes()));
    assert_eq!(
        (asked[1].0.as_str(), asked[1].1.as_deref()),
        ("run", Some("work/sub"))
    );

    let shell = Shell {
        answers: [("git apply --whitespace=nowarn -", (1, "corrupt patch"))].into(),
        ..Shell::default()
    };
    let scores = compute(
        json!([{ "id": "command", "config": { "applyPatch": "junk" } }]),
        &shell,
        BUDGET,
    )
    .await;
    assert_eq!(
        (&scores[0]["value"], &scores[0]["pass"]),
        (&json!(0), &json!(false))
    );
    assert_eq!(
        shell.asked.lock().unwrap().len(),
        1,
        "the command ran on an unpatched tree"
    );
}

#[tokio::test]
async fn script_score_passes_from_its_threshold_on() {
    let shell = Shell {
        answers: [
            ("a", (0, "SCORE=0.6")),
            ("b", (0, "SCORE=0.59")),
            ("c", (1, "boom")),
            ("d", (0, "points: 7/10")),
        ]
        .into(),
        ..Shell::default()
    };
    let graders = json!([
        { "id": "script-score", "config": { "cmd": "a" } },
        { "id": "script-score", "config": { "cmd": "b" } },
        { "id": "script-score", "config": { "cmd": "c" } },
        { "id": "script-score", "config": { "cmd": "d", "scorePattern": "points: (\\d+)", "passThreshold": 5, "metric": "points" } },
    ]);
    let scores = compute(graders, &shell, BUDGET).await;
    let read: Vec<_> = scores
        .iter()
        .map(|s| (s["value"].clone(), s["pass"].clone()))
        .collect();
    assert_eq!(
        read,
        [
            (json!(0.6), json!(true)),
            (json!(0.59), json!(false)),
            (json!(0), json!(false)),
            (json!(7), json!(true))
        ]
    );
    assert!(
        scores[2]["detail"]
            .as_str()
            .unwrap()
            .starts_with("no score found (exit 1)")
    );
    assert_eq!(scores[3]["metric"], "points");
}

#[tokio::test]
async fn grader_outage_is_unmeasured() {
    let shell = Shell {
        broken: true,
        ..Shell::default()
    };
    let scores = compute(
        json!([{ "id": "tests-pass" }, { "id": "command" }]),
        &shell,
        BUDGET,
    )
    .await;
    for score in &scores {
        assert_eq!(
            (&score["status"], &score["reason"]),
            (&json!("unmeasured"), &json!("grader_error"))
        );
        assert_eq!(score["retryable"], true);
        assert!(score.get("value").is_none(), "an outage has no value: {score}");
        let detail = score["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("[grader-error] ") && detail.contains("the sandbox is gone"),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn a_command_stopped_by_its_own_limit_fails_and_by_the_budget_is_unmeasured() {
    let shell = Shell {
        busy: Duration::from_secs(3_600),
        ..Shell::default()
    };
    let own = json!([{ "id": "script-score", "config": { "timeoutSec": 0.05 } }]);
    let scores = compute(own, &shell, BUDGET).await;
    assert_eq!(
        (&scores[0]["status"], &scores[0]["pass"]),
        (&json!("measured"), &json!(false))
    );

    let begin = Instant::now();
    let budget = Duration::from_millis(100);
    let scores = compute(
        json!([{ "id": "tests-pass" }, { "id": "command" }]),
        &shell,
        budget,
    )
    .await;
    for score in &scores {
        assert_eq!(
            (&score["reason"], &score["retryable"]),
            (&json!("grader_timeout"), &json!(true)),
            "{score}"
        );
    }
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "the budget is for all graders together"
    );
}

#[tokio::test]
async fn a_metric_of_another_grader_can_not_be_forged() {
    let forged = json!([
        { "id": "command", "config": { "metric": "tests_pass" } },
        { "id": "command", "config": { "metric": "tool_calls", "id": "steps" } },
        { "id": "script-score", "config": { "metric": "usd", "cmd": "s" }, "metrics": [{ "id": "usd" }] },
        { "id": "command", "config": { "metric": "judge:quality" } },
    ]);
    let shell = Shell {
        answers: [("s", (0, "SCORE=1"))].into(),
        ..Shell::default()
    };
    for score in compute(forged, &shell, BUDGET).await {
        assert_eq!(
            (&score["status"], &score["reason"]),
            (&json!("invalid"), &json!("contract_violation")),
            "{score}"
        );
        assert!(score.get("value").is_none());
    }
    let text = json!([{ "id": "text-metric", "config": { "pattern": "(1)", "metric": "span" } }]);
    assert_eq!(observe(text, &said("1")).await[0]["status"], "invalid");

    let granted = json!([{ "id": "command", "authority": "judge", "config": { "metric": "judge:quality" } }]);
    assert_eq!(compute(granted, &shell, BUDGET).await[0]["status"], "measured");
}

#[tokio::test]
async fn known_graders_that_are_missing_here_say_what_is_missing() {
    let ids = ["judge"];
    for id in ids {
        let case = case(json!([{ "id": id }]));
        let planned = plan(&case).unwrap();
        let needs = planned[0].needs();
        let scores = match needs {
            Needs::Compute => compute(json!([{ "id": id }]), &Shell::default(), BUDGET).await,
            Needs::Observation => observe(json!([{ "id": id }]), &[]).await,
        };
        assert_eq!(
            (&scores[0]["status"], &scores[0]["reason"]),
            (&json!("unmeasured"), &json!("unsupported")),
            "{id}"
        );
        assert_eq!(
            (&scores[0]["retryable"], &scores[0]["graderId"]),
            (&json!(false), &json!(id))
        );
        assert!(scores[0]["detail"].as_str().unwrap().contains("lacks"), "{id}");
    }
}

#[tokio::test]
async fn scores_come_in_the_order_of_the_graders() {
    let case =
        case(json!([{ "id": "steps" }, { "id": "tests-pass" }, { "id": "cost" }, { "id": "command" }]));
    let snapshot = EnvSnapshot::prompt("");
    let input = GradeInput::new(&case, &[], &snapshot);
    let mut book = Gradebook::new(plan(&case).unwrap());
    assert!(book.needs_compute());
    book.grade_compute(input, &Shell::default(), BUDGET).await;
    book.grade_observations(input, BUDGET).await;
    let order: Vec<_> = json_scores(book)
        .iter()
        .map(|score| score["graderId"].clone())
        .collect();
    assert_eq!(order, ["steps", "tests-pass", "cost", "command"]);
}

#[test]
fn bad_graders_are_refused_with_their_place() {
    for (graders, place) in [
        (
            json!([{ "id": "steps" }, { "id": "no-such" }]),
            "evalCase.graders[1].id: ",
        ),
        (json!([{ "id": "" }]), "evalCase.graders[0].id: "),
        (
            json!([{ "id": "command", "config": { "cmd": 7 } }]),
            "evalCase.graders[0].config.cmd: expected a string, found a number",
        ),
        (
            json!([{ "id": "command", "config": { "passPattern": "(" } }]),
            "evalCase.graders[0].config.passPattern: ",
        ),
        (
            json!([{ "id": "command", "config": { "metric": "" } }]),
            "evalCase.graders[0].config.metric: ",
        ),
        (
            json!([{ "id": "command", "config": { "passPattern": "(a{999}){999}" } }]),
            "evalCase.graders[0].config.passPattern: ",
        ),
        (
            json!([{ "id": "script-score", "config": { "timeoutSec": 0 } }]),
            "evalCase.graders[0].config.timeoutSec: ",
        ),
        (
            json!([{ "id": "script-score", "config": { "scorePattern": "SCORE" } }]),
            "evalCase.graders[0].config.scorePattern: ",
        ),
        (
            json!([{ "id": "answer-match", "config": { "mode": "fuzzy" } }]),
            "evalCase.graders[0].config.mode: ",
        ),
        (
            json!([{ "id": "text-metric", "config": { "pattern": "(1)" } }]),
            "evalCase.graders[0].config.metric: is required",
        ),
        (
            json!([{ "id": "text-metric" }]),
            "evalCase.graders[0].config.pattern: is required",
        ),
        (
            json!([{ "id": "steps", "metrics": [{ "id": "a" }, { "id": "a" }] }]),
            "evalCase.graders[0].metrics[1].id: ",
        ),
    ] {
        let fault = refused(graders);
        assert!(fault.message.starts_with(place), "{}", fault.message);
        assert!(!fault.message.contains('\n'), "one line: {}", fault.message);
    }
}

#[test]
fn a_declaration_is_carried_as_it_came() {
    let declared = json!({
        "id": "command", "config": { "cmd": "true" }, "authority": "ground_truth", "direction": "higher_is_better",
        "metrics": [{ "id": "command", "authority": "objective", "direction": "neutral" }],
    });
    let planned = plan(&case(json!([declared]))).unwrap();
    assert_eq!(serde_json::to_value(planned[0].spec()).unwrap(), declared);
}
