//! Runs that were submitted together: counting, showing and cancelling them.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use everdict_contracts::{BatchCancelled, BatchList, BatchRecord, Fault};
use everdict_store::BatchRow;
use serde::Deserialize;

use super::runs::page_size;
use super::{Answer, Params, Refused, Segments, answer, caller, finish};
use crate::auth::Action;
use crate::clock;
use crate::dispatch::{self, storage};
use crate::shared::Hubbed;

#[derive(Debug, Deserialize)]
pub(crate) struct Paging {
    limit: Option<String>,
}

/// Answers `GET /batches`: the latest first.
pub(crate) async fn list(
    State(shared): State<Hubbed>,
    Params(paging): Params<Paging>,
    headers: HeaderMap,
) -> Answer {
    let principal = caller(&shared, &headers).await?;
    principal.allow(Action::RunsRead)?;
    let limit = page_size(paging.limit.as_deref())?;
    let workspace = principal.workspace().as_str();
    let rows = shared.store.batches(workspace, None, limit).await;
    let batches = rows.map_err(storage)?.into_iter().map(record).collect();
    answer(StatusCode::OK, &BatchList { batches })
}

/// Answers `GET /batches/{id}`.
pub(crate) async fn show(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Answer {
    let principal = caller(&shared, &headers).await?;
    principal.allow(Action::RunsRead)?;
    answer(
        StatusCode::OK,
        &find(&shared, principal.workspace().as_str(), &id).await?,
    )
}

/// Answers `POST /batches/{id}/cancel`.
pub(crate) async fn cancel(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Answer {
    let principal = caller(&shared, &headers).await?;
    principal.allow(Action::RunsCancel)?;
    find(&shared, principal.workspace().as_str(), &id).await?;
    let hub = shared.clone();
    let work = async move { dispatch::cancel_batch(&hub, principal.workspace().as_str(), &id).await };
    let cancelled = finish(&shared, work).await?;
    answer(StatusCode::OK, &BatchCancelled { cancelled })
}

async fn find(shared: &Hubbed, workspace: &str, id: &str) -> Result<BatchRecord, Refused> {
    // An empty name would stand for every batch.
    let mut rows = match id {
        "" => Vec::new(),
        id => shared
            .store
            .batches(workspace, Some(id), 1)
            .await
            .map_err(storage)?,
    };
    match rows.pop() {
        Some(row) => Ok(record(row)),
        None => Err(Fault::not_found(format!("no batch {id}"))
            .with_data("batch", id)
            .into()),
    }
}

fn record(row: BatchRow) -> BatchRecord {
    let count = |verdict: &str| {
        let found = row.verdicts.iter().find(|(name, _)| name == verdict);
        found.map_or(0, |(_, count)| *count)
    };
    let (passed, failed) = (count("pass"), count("fail"));
    let (timed_out, unmeasured) = (count("timeout"), count("unmeasured"));
    BatchRecord {
        label: row.label.clone().unwrap_or_else(|| row.id.clone()),
        submitted_at: clock::iso(row.created_at),
        total: row.total,
        done: row.done,
        passed,
        failed,
        timed_out,
        unmeasured,
        // What is over without a verdict was cancelled: it says nothing about its case either.
        infra: row.done.saturating_sub(passed + failed + timed_out + unmeasured),
        id: row.id,
    }
}
