//! Ids of the vocabulary that this build can't measure: they answer so, with what is missing.

use everdict_contracts::{Fault, Score, UnmeasuredReason};
use futures_util::future::{BoxFuture, FutureExt as _, ready};

use crate::compute::Compute;
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};

/// Stands in for a grader that is known but not available here.
#[derive(Debug)]
pub(super) struct Unsupported {
    id: String,
    metric: &'static str,
    needs: Needs,
    missing: &'static str,
}

impl Unsupported {
    /// `None` when `id` is no known grader.
    pub(super) fn new(id: &str, config: &Config<'_>) -> Result<Option<Self>, Fault> {
        let (metric, needs, missing) = match id {
            "judge" => ("judge", Needs::Observation, "a model judge"),
            _ => return Ok(None),
        };
        let shown = config.name("id")?.unwrap_or(id).to_owned();
        Ok(Some(Self {
            id: shown,
            metric,
            needs,
            missing,
        }))
    }
}

impl Unsupported {
    /// A `script` that wants an image of its own.
    pub(super) fn script_in_an_image(config: &Config<'_>) -> Result<Self, Fault> {
        Ok(Self {
            id: config.name("id")?.unwrap_or("script").to_owned(),
            metric: "script",
            needs: Needs::Compute,
            missing: "a container beside the case's for grader scripts with an `image`",
        })
    }
}

impl Grader for Unsupported {
    fn grader_id(&self) -> &str {
        &self.id
    }

    fn metric(&self) -> &str {
        self.metric
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn grade<'a>(
        &'a self,
        _input: GradeInput<'a>,
        _compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        let detail = format!("this runner can't measure it: it lacks {}", self.missing);
        let score = Score::unmeasured(&self.id, self.metric, UnmeasuredReason::Unsupported, false)
            .with_detail(detail);
        ready(Ok(vec![score])).boxed()
    }
}
