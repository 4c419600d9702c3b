//! `store-state`: what the run left in a store.

use everdict_contracts::{EvalCase, Fault, Score, StoreKind, UnmeasuredReason};
use futures_util::future::{BoxFuture, FutureExt as _};

use super::verdict;
use crate::compute::Compute;
use crate::config::Config;
use crate::grader::{GradeError, GradeInput, Grader, Needs};
use crate::state::{StateQuery, StateReader};
use crate::text::{DETAIL_CHARS, tail};

const ID: &str = "store-state";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Contains,
    Exact,
}

/// Asks a store and compares the trimmed answer.
#[derive(Debug)]
pub(super) struct StoreState {
    store: StoreKind,
    role: Option<String>,
    query: String,
    path: String,
    expected: String,
    mode: Mode,
}

impl StoreState {
    pub(super) fn new(config: &Config<'_>, case: &EvalCase) -> Result<Self, Fault> {
        let store = match config.text("store")? {
            None | Some("postgres") => StoreKind::Postgres,
            Some("redis") => StoreKind::Redis,
            Some("minio") => StoreKind::Minio,
            Some(other) => {
                let problem = format_args!("no store is named `{other}`; known are postgres, redis, minio");
                return Err(config.fault("store", problem));
            }
        };
        let query = config.command("query")?.filter(|text| !text.trim().is_empty());
        let query = query.ok_or_else(|| config.fault("query", "is required"))?;
        let expected = config.text("expect")?.or(case.expected.as_deref());
        let expected = expected.map(str::trim).filter(|text| !text.is_empty());
        let expected = expected.ok_or_else(|| {
            config.fault(
                "expect",
                "is required where the case has no `expected`: every answer would pass without one",
            )
        })?;
        let mode = match config.text("mode")? {
            None | Some("contains") => Mode::Contains,
            Some("exact") => Mode::Exact,
            Some(other) => {
                return Err(config.fault("mode", format_args!("`{other}` is neither contains nor exact")));
            }
        };
        Ok(Self {
            store,
            role: config.name("role")?.map(str::to_owned),
            query: query.to_owned(),
            path: config.path().to_owned(),
            expected: expected.to_owned(),
            mode,
        })
    }

    fn query(&self) -> StateQuery<'_> {
        StateQuery {
            store: self.store,
            role: self.role.as_deref(),
            query: &self.query,
            path: &self.path,
        }
    }

    async fn ask(&self, stores: &dyn StateReader) -> Result<Vec<Score>, GradeError> {
        let answer = stores.read(self.query()).await.map_err(GradeError::State)?;
        let answer = answer.trim();
        let pass = match self.mode {
            Mode::Contains => answer.contains(&self.expected),
            Mode::Exact => answer == self.expected,
        };
        let detail = match tail(answer, DETAIL_CHARS) {
            "" => "the store answered nothing",
            text => text,
        };
        Ok(vec![verdict(ID, ID, pass, Some(detail.to_owned()))])
    }
}

impl Grader for StoreState {
    fn grader_id(&self) -> &str {
        ID
    }

    fn metric(&self) -> &str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs::Observation
    }

    fn state_query(&self) -> Option<StateQuery<'_>> {
        Some(self.query())
    }

    fn grade<'a>(
        &'a self,
        input: GradeInput<'a>,
        _compute: Option<&'a dyn Compute>,
    ) -> BoxFuture<'a, Result<Vec<Score>, GradeError>> {
        async move {
            match input.state {
                Some(stores) => self.ask(stores).await,
                None => Ok(vec![
                    Score::unmeasured(ID, ID, UnmeasuredReason::Unsupported, false).with_detail(
                        "this case can't be measured: it lacks a topology with a store to query".to_owned(),
                    ),
                ]),
            }
        }
        .boxed()
    }
}
