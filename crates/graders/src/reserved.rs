//! Metric names that belong to one grader.
//!
//! A verdict policy reads `tests_pass` or `usd` without asking who wrote it, so a configurable grader must not be
//! able to write them.

use everdict_contracts::{GraderSpec, MetricAuthority};

/// The metric is another grader's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(pub(crate) &'static str);

/// Each reserved metric with the grader ids that may write it.
const OWNERS: &[(&str, &[&str])] = &[
    ("tests_pass", &["tests-pass", "reward-file"]),
    ("resolved", &["swe-bench"]),
    ("tool_calls", &["steps"]),
    ("usd", &["cost"]),
    ("span", &["latency"]),
    ("dom_contains", &["dom-contains"]),
    ("url_matches", &["url-matches"]),
    ("answer_match", &["answer-match"]),
    ("store-state", &["store-state"]),
];

/// Says who owns `metric` when the grader of `spec` may not write it.
///
/// Ownership follows the declared grader id, not the id its config lets it show in scores. The judge family
/// (`judge`, `judge:…`) is open to a grader declared with judge authority.
pub(crate) fn foreign_owner(spec: &GraderSpec, metric: &str) -> Option<Owner> {
    let judge_family = metric == "judge" || metric.starts_with("judge:");
    if judge_family {
        let allowed = spec.id == "judge" || spec.authority == Some(MetricAuthority::Judge);
        return (!allowed).then_some(Owner("judge"));
    }
    if metric.starts_with("reward:") {
        return (spec.id != "reward-file").then_some(Owner("reward-file"));
    }
    let (_, owners) = OWNERS.iter().find(|(name, _)| *name == metric)?;
    (!owners.contains(&spec.id.as_str())).then(|| Owner(owners[0]))
}
