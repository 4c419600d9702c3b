//! `dom-contains` and `url-matches`: the page that the run left open.

use everdict_contracts::{BrowserSnapshot, EnvSnapshot, Fault, Score, UnmeasuredReason};
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use regex::Regex;

use super::verdict;
use crate::compute::Compute;
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};

/// Judges a page snapshot; any other snapshot leaves it without a measurement.
#[derive(Debug)]
pub(super) enum PageGrader {
    /// The DOM holds a text, letter for letter.
    DomContains(String),
    /// The address matches a pattern somewhere.
    UrlMatches(Regex),
}

impl PageGrader {
    pub(super) fn dom_contains(config: &Config<'_>) -> Result<Self, Fault> {
        let text = config.name("text")?;
        let text = text.ok_or_else(|| config.fault("text", "is required"))?;
        Ok(Self::DomContains(text.to_owned()))
    }

    pub(super) fn url_matches(config: &Config<'_>) -> Result<Self, Fault> {
        Ok(Self::UrlMatches(config.pattern_or("pattern", ".*")?))
    }

    fn score(&self, page: &BrowserSnapshot) -> Score {
        let (pass, detail) = match self {
            Self::DomContains(text) => (page.dom.contains(text.as_str()), None),
            Self::UrlMatches(pattern) => (pattern.is_match(&page.url), Some(page.url.clone())),
        };
        verdict(self.grader_id(), self.metric(), pass, detail)
    }

    fn no_page(&self) -> Score {
        let (id, metric) = (self.grader_id(), self.metric());
        Score::unmeasured(id, metric, UnmeasuredReason::MissingEvidence, false)
            .with_detail("the case left no page: its snapshot is none of a browser".to_owned())
    }
}

impl Grader for PageGrader {
    fn grader_id(&self) -> &str {
        match self {
            Self::DomContains(_) => "dom-contains",
            Self::UrlMatches(_) => "url-matches",
        }
    }

    fn metric(&self) -> &str {
        match self {
            Self::DomContains(_) => "dom_contains",
            Self::UrlMatches(_) => "url_matches",
        }
    }

    fn needs(&self) -> Needs {
        Needs::Observation
    }

    fn grade<'a>(
        &'a self,
        input: GradeInput<'a>,
        _compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        let score = match input.snapshot {
            EnvSnapshot::Browser(page) => self.score(page),
            EnvSnapshot::Repo(_) | EnvSnapshot::Prompt(_) | EnvSnapshot::OsUse(_) => self.no_page(),
        };
        ready(Ok(vec![score])).boxed()
    }
}
