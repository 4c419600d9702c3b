//! The seam between leasing a case and running it.

use std::sync::Arc;

use everdict_cases::CaseContext;
use everdict_contracts::{CaseJob, CaseResult, Fault};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Runs one case to its result. Stopping it goes through [`CaseContext::cancel`].
pub type Executor =
    Arc<dyn Fn(Arc<CaseJob>, CaseContext) -> BoxFuture<'static, Result<CaseResult, Fault>> + Send + Sync>;

/// The executor of the product: every case as [`everdict_cases::run_leased_job`] runs it.
#[must_use]
pub fn case_executor() -> Executor {
    Arc::new(|job, context| async move { everdict_cases::run_leased_job(&job, &context).await }.boxed())
}
