//! The built-in graders, by id.

mod answer;
mod command;
mod observed;
mod page;
mod private;
mod reward_file;
mod script;
mod script_score;
mod store_state;
mod swe_bench;
mod unsupported;

use everdict_contracts::{EvalCase, Fault, GraderSpec, MeasuredScore, Score};
use serde_json::Value;

use crate::config::Config;
use crate::grader::Grader;

/// Every id of the vocabulary, in the order the documentation lists them.
pub(crate) const KNOWN_IDS: &[&str] = &[
    "tests-pass",
    "command",
    "script-score",
    "script",
    "reward-file",
    "swe-bench",
    "steps",
    "cost",
    "latency",
    "dom-contains",
    "url-matches",
    "answer-match",
    "store-state",
    "text-metric",
    "judge",
];

/// Builds the grader `spec` names; `None` when no grader has that id.
pub(crate) fn build(
    spec: &GraderSpec,
    config: &Config<'_>,
    case: &EvalCase,
) -> Result<Option<Box<dyn Grader>>, Fault> {
    Ok(Some(match spec.id.as_str() {
        "tests-pass" => Box::new(command::CommandGrader::tests_pass(config)?),
        "command" => Box::new(command::CommandGrader::command(config)?),
        "script-score" => Box::new(script_score::ScriptScore::new(config)?),
        "reward-file" => Box::new(reward_file::RewardFile::new(config, case)?),
        "swe-bench" => Box::new(swe_bench::SweBench::new(config)?),
        "script" => match script::Script::new(config)? {
            Some(script) => Box::new(script),
            None => Box::new(unsupported::Unsupported::script_in_an_image(config)?),
        },
        "steps" => Box::new(observed::Observed::Steps),
        "cost" => Box::new(observed::Observed::Cost),
        "latency" => Box::new(observed::Observed::Latency),
        "answer-match" => Box::new(answer::AnswerMatch::new(config, case)?),
        "text-metric" => Box::new(answer::TextMetric::new(config)?),
        "dom-contains" => Box::new(page::PageGrader::dom_contains(config)?),
        "url-matches" => Box::new(page::PageGrader::url_matches(config)?),
        "store-state" => Box::new(store_state::StoreState::new(config, case)?),
        id => match unsupported::Unsupported::new(id, config)? {
            Some(grader) => Box::new(grader),
            None => return Ok(None),
        },
    }))
}

/// A measured score.
pub(crate) fn measured(
    id: &str,
    metric: &str,
    value: f64,
    pass: Option<bool>,
    detail: Option<String>,
) -> Score {
    Score::Measured(MeasuredScore {
        grader_id: id.to_owned(),
        metric: metric.to_owned(),
        value,
        pass,
        label: None,
        detail: detail.filter(|text| !text.is_empty()).map(Value::String),
        trace_events: None,
    })
}

/// A pass or a fail: one or zero.
pub(crate) fn verdict(id: &str, metric: &str, pass: bool, detail: Option<String>) -> Score {
    measured(id, metric, f64::from(u8::from(pass)), Some(pass), detail)
}
