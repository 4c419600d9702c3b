//! What the graders of a page and of a store answer, by what a run left behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::sync::Mutex;
use std::time::Duration;

use everdict_contracts::{BrowserSnapshot, EnvSnapshot, ErrorCode, EvalCase, Fault, StoreKind, decode};
use everdict_graders::{GradeInput, Gradebook, StateQuery, StateReader, plan};
use futures_util::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

fn case(graders: Value, expected: Option<&str>) -> EvalCase {
    let mut case = json!({ "id": "c", "env": { "kind": "prompt" }, "task": "t", "graders": graders });
    if let Some(expected) = expected {
        case["expected"] = expected.into();
    }
    decode(case).unwrap()
}

async fn grade(case: &EvalCase, snapshot: &EnvSnapshot, stores: Option<&dyn StateReader>) -> Vec<Value> {
    let mut book = Gradebook::new(plan(case).unwrap());
    let mut input = GradeInput::new(case, &[], snapshot);
    if let Some(stores) = stores {
        input = input.with_state(stores);
    }
    book.grade_observations(input, Duration::from_secs(60)).await;
    let scores = book.into_scores();
    scores
        .iter()
        .map(|score| serde_json::to_value(score).unwrap())
        .collect()
}

fn page(url: &str, dom: &str) -> EnvSnapshot {
    EnvSnapshot::Browser(BrowserSnapshot {
        url: url.into(),
        dom: dom.into(),
        ..BrowserSnapshot::default()
    })
}

/// Store, role, slice, query.
type Asked = (StoreKind, Option<String>, String, String);

/// A store that answers one thing, and remembers what it was asked.
struct Store {
    answer: Result<&'static str, ErrorCode>,
    asked: Mutex<Vec<Asked>>,
}

impl Store {
    fn answers(answer: &'static str) -> Self {
        Self {
            answer: Ok(answer),
            asked: Mutex::default(),
        }
    }
}

impl StateReader for Store {
    fn read<'a>(&'a self, query: StateQuery<'a>) -> BoxFuture<'a, Result<String, Fault>> {
        let row = (
            query.store,
            query.role.map(str::to_owned),
            query.query.to_owned(),
            query.path.to_owned(),
        );
        self.asked.lock().unwrap().push(row);
        let answer = self
            .answer
            .map(str::to_owned)
            .map_err(|code| Fault::new(code, "the store is gone"));
        async move { answer }.boxed()
    }
}

#[tokio::test]
async fn the_dom_is_searched_letter_for_letter() {
    let snapshot = page("https://shop.test/cart", "<h1>Order #42 placed</h1>");
    for (text, pass) in [("Order #42", true), ("order #42", false), ("Order #43", false)] {
        let case = case(
            json!([{ "id": "dom-contains", "config": { "text": text } }]),
            None,
        );
        let scores = grade(&case, &snapshot, None).await;
        assert_eq!(scores[0]["pass"], pass, "{text}");
        assert_eq!(
            (&scores[0]["graderId"], &scores[0]["metric"]),
            (&json!("dom-contains"), &json!("dom_contains"))
        );
    }
}

#[tokio::test]
async fn the_address_is_searched_for_the_pattern_and_shown() {
    let snapshot = page("https://shop.test/cart?id=7", "");
    for (config, pass) in [
        (json!({ "pattern": "/cart\\?id=\\d+$" }), true),
        (json!({ "pattern": "^/cart" }), false),
        (json!({}), true),
    ] {
        let case = case(json!([{ "id": "url-matches", "config": config }]), None);
        let scores = grade(&case, &snapshot, None).await;
        assert_eq!(
            (&scores[0]["pass"], &scores[0]["detail"]),
            (&json!(pass), &json!("https://shop.test/cart?id=7"))
        );
    }
}

#[tokio::test]
async fn a_case_without_a_page_is_not_a_bad_page() {
    let graders = json!([{ "id": "dom-contains", "config": { "text": "x" } }, { "id": "url-matches" }]);
    let scores = grade(&case(graders, None), &EnvSnapshot::prompt("x"), None).await;
    for score in &scores {
        assert_eq!(
            (&score["status"], &score["reason"]),
            (&json!("unmeasured"), &json!("missing_evidence"))
        );
        assert_eq!(score["retryable"], false);
    }
    assert_eq!(scores.len(), 2);
}

#[tokio::test]
async fn a_store_is_asked_what_the_config_says_and_its_trimmed_answer_counts() {
    let config = json!({ "store": "redis", "role": "cache", "query": "GET {prefix}:n", "expect": "42", "mode": "exact" });
    let store = Store::answers("  42\n");
    let case = case(
        json!([{ "id": "steps" }, { "id": "store-state", "config": config }]),
        None,
    );
    let scores = grade(&case, &EnvSnapshot::prompt(""), Some(&store)).await;
    assert_eq!(
        (&scores[1]["pass"], &scores[1]["value"], &scores[1]["detail"]),
        (&json!(true), &json!(1), &json!("42"))
    );
    let asked = store.asked.lock().unwrap();
    let query = (
        "GET {prefix}:n".to_owned(),
        "evalCase.graders[1].config".to_owned(),
    );
    assert_eq!(
        *asked,
        [(StoreKind::Redis, Some("cache".to_owned()), query.0, query.1)]
    );
}

#[tokio::test]
async fn a_store_is_postgres_and_its_answer_the_cases_unless_the_config_says_otherwise() {
    let store = Store::answers("1|Ada\n2|Grace");
    for (mode, pass) in [(json!({}), true), (json!({ "mode": "exact" }), false)] {
        let mut config = mode;
        config["query"] = "SELECT * FROM people".into();
        let case = case(json!([{ "id": "store-state", "config": config }]), Some("Grace"));
        let scores = grade(&case, &EnvSnapshot::prompt(""), Some(&store)).await;
        assert_eq!(scores[0]["pass"], pass);
    }
    assert_eq!(store.asked.lock().unwrap()[0].0, StoreKind::Postgres);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_outage_and_no_bad_state() {
    let store = Store {
        answer: Err(ErrorCode::UpstreamError),
        asked: Mutex::default(),
    };
    let graders = json!([{ "id": "store-state", "config": { "query": "SELECT 1", "expect": "1" } }]);
    let case = case(graders, None);
    let scores = grade(&case, &EnvSnapshot::prompt(""), Some(&store)).await;
    assert_eq!(
        (&scores[0]["status"], &scores[0]["reason"]),
        (&json!("unmeasured"), &json!("grader_error"))
    );
    assert!(
        scores[0]["detail"]
            .as_str()
            .unwrap()
            .contains("the store is gone"),
        "{scores:?}"
    );

    let scores = grade(&case, &EnvSnapshot::prompt(""), None).await;
    assert_eq!(
        (&scores[0]["status"], &scores[0]["reason"]),
        (&json!("unmeasured"), &json!("unsupported"))
    );
    assert!(
        scores[0]["detail"].as_str().unwrap().contains("lacks"),
        "{scores:?}"
    );
}

#[test]
fn a_question_that_measures_nothing_is_refused_before_the_agent_runs() {
    for (id, config, place) in [
        ("dom-contains", json!({}), "config.text"),
        ("dom-contains", json!({ "text": "" }), "config.text"),
        ("url-matches", json!({ "pattern": "(" }), "config.pattern"),
        ("store-state", json!({ "expect": "1" }), "config.query"),
        (
            "store-state",
            json!({ "query": " ", "expect": "1" }),
            "config.query",
        ),
        ("store-state", json!({ "query": "SELECT 1" }), "config.expect"),
        (
            "store-state",
            json!({ "query": "SELECT 1", "expect": "1", "store": "mysql" }),
            "config.store",
        ),
        (
            "store-state",
            json!({ "query": "SELECT 1", "expect": "1", "mode": "regex" }),
            "config.mode",
        ),
    ] {
        let fault = plan(&case(json!([{ "id": id, "config": config }]), None)).unwrap_err();
        assert_eq!(fault.code, ErrorCode::BadRequest);
        assert!(
            fault.message.starts_with(&format!("evalCase.graders[0].{place}")),
            "{fault}"
        );
    }
}
