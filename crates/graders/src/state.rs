//! The stores of a topology as a grader sees them.

use everdict_contracts::{Fault, StoreKind};
use futures_util::future::BoxFuture;

/// Reads what a run left in its part of a store.
pub trait StateReader: Send + Sync {
    /// Runs one query over the run's slice and returns what the store's own client printed.
    ///
    /// # Errors
    /// A [`Fault`] when the store can't be asked, or turns the query down.
    fn read<'a>(&'a self, query: StateQuery<'a>) -> BoxFuture<'a, Result<String, Fault>>;
}

/// One question for [`StateReader::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateQuery<'a> {
    /// Which kind of store.
    pub store: StoreKind,
    /// Which of several stores of the kind.
    pub role: Option<&'a str>,
    /// In the store's own language.
    pub query: &'a str,
    /// Where in the job the question stands, such as `evalCase.graders[1].config`.
    pub path: &'a str,
}
