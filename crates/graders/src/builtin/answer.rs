//! `answer-match` and `text-metric`: what the agent said last.

use everdict_contracts::{EvalCase, Fault, Score};
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use regex::Regex;

use super::{measured, verdict};
use crate::compute::Compute;
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};
use crate::text::{final_answer, normalized};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Contains,
    Exact,
}

/// Compares the last assistant message with an expected answer, blind to case and layout.
#[derive(Debug)]
pub(super) struct AnswerMatch {
    expected: String,
    mode: Mode,
}

impl AnswerMatch {
    pub(super) fn new(config: &Config<'_>, case: &EvalCase) -> Result<Self, Fault> {
        let expected = config
            .text("expect")?
            .or(case.expected.as_deref())
            .unwrap_or_default();
        let mode = match config.text("mode")? {
            None | Some("contains") => Mode::Contains,
            Some("exact") => Mode::Exact,
            Some(other) => {
                return Err(config.fault("mode", format_args!("`{other}` is neither contains nor exact")));
            }
        };
        Ok(Self {
            expected: normalized(expected),
            mode,
        })
    }

    fn score(&self, answer: &str) -> Score {
        if self.expected.is_empty() {
            let note = "there is no expected answer: neither the grader's `expect` nor the case's `expected` says one";
            return verdict("answer-match", "answer_match", false, Some(note.to_owned()));
        }
        let answer = normalized(answer);
        let pass = match self.mode {
            Mode::Contains => answer.contains(&self.expected),
            Mode::Exact => answer == self.expected,
        };
        let note = answer
            .is_empty()
            .then(|| "the agent gave no final answer".to_owned());
        verdict("answer-match", "answer_match", pass, note)
    }
}

impl Grader for AnswerMatch {
    fn grader_id(&self) -> &str {
        "answer-match"
    }

    fn metric(&self) -> &str {
        "answer_match"
    }

    fn needs(&self) -> Needs {
        Needs::Observation
    }

    fn grade<'a>(
        &'a self,
        input: GradeInput<'a>,
        _compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        ready(Ok(vec![self.score(final_answer(input.trace))])).boxed()
    }
}

/// Reads one number out of the last assistant message.
#[derive(Debug)]
pub(super) struct TextMetric {
    id: String,
    metric: String,
    pattern: Regex,
}

impl TextMetric {
    pub(super) fn new(config: &Config<'_>) -> Result<Self, Fault> {
        let pattern = config
            .capturing("pattern")?
            .ok_or_else(|| config.fault("pattern", "is required"))?;
        let metric = config
            .name("metric")?
            .ok_or_else(|| config.fault("metric", "is required"))?
            .to_owned();
        Ok(Self {
            id: config.name("id")?.unwrap_or("text-metric").to_owned(),
            metric,
            pattern,
        })
    }
}

impl Grader for TextMetric {
    fn grader_id(&self) -> &str {
        &self.id
    }

    fn metric(&self) -> &str {
        &self.metric
    }

    fn needs(&self) -> Needs {
        Needs::Observation
    }

    fn grade<'a>(
        &'a self,
        input: GradeInput<'a>,
        _compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        let score = match captured_number(&self.pattern, final_answer(input.trace)) {
            Some(value) => measured(&self.id, &self.metric, value, None, None),
            None => {
                let note = "the pattern found no number in the final answer".to_owned();
                measured(&self.id, &self.metric, 0.0, None, Some(note))
            }
        };
        ready(Ok(vec![score])).boxed()
    }
}

/// The finite number in the first group of the first match.
pub(super) fn captured_number(pattern: &Regex, text: &str) -> Option<f64> {
    let group = pattern.captures(text)?.get(1)?;
    group
        .as_str()
        .trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}
