//! Submitting, listing, showing and cancelling runs.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use everdict_contracts::{Fault, RunRequest};
use everdict_store::RunRow;
use serde::Deserialize;

use super::{Answer, Params, Refused, Segments, caller, finish, json_body, json_response, unprintable};
use crate::auth::{Action, Principal};
use crate::dispatch::{self, storage};
use crate::run_view;
use crate::shared::Hubbed;

/// Runs per page when the caller does not say, and at most.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;

/// Answers `POST /runs` with 202: the run is queued, or will be shown as failed in a moment.
pub(crate) async fn submit(State(shared): State<Hubbed>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let principal = caller(&shared, &parts.headers).await?;
    let request: RunRequest = json_body(body).await?;
    principal.allow(Action::RunsSubmit)?;
    let hub = shared.clone();
    let work = async move {
        let subject = principal.allow(Action::RunsSubmit)?;
        dispatch::submit(&hub, subject, principal.workspace(), request).await
    };
    let row = finish(&shared, work).await?;
    show_run(StatusCode::ACCEPTED, &row)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Paging {
    limit: Option<String>,
    cursor: Option<String>,
    include: Option<String>,
    batch: Option<String>,
}

/// Answers `GET /runs`: the newest first, with `batch` only those of one. `include=result` adds case and result to each.
pub(crate) async fn list(
    State(shared): State<Hubbed>,
    Params(paging): Params<Paging>,
    headers: HeaderMap,
) -> Answer {
    let principal = caller(&shared, &headers).await?;
    principal.allow(Action::RunsRead)?;
    let limit = page_size(paging.limit.as_deref())?;
    let (workspace, before) = (principal.workspace().as_str(), paging.cursor.as_deref());
    let page = match &paging.batch {
        Some(batch) => shared.store.batch_runs(workspace, batch, before, limit).await,
        None => shared.store.runs(workspace, before, limit).await,
    };
    let page = page.map_err(storage)?;
    let full = paging.include.as_deref() == Some("result");
    let text = run_view::page(&page.runs, page.next.as_deref(), full).map_err(unprintable)?;
    Ok(json_response(StatusCode::OK, text))
}

pub(super) fn page_size(limit: Option<&str>) -> Result<u32, Refused> {
    match limit.map(str::parse) {
        None => Ok(PAGE),
        Some(Ok(limit)) if (1..=MAX_PAGE).contains(&limit) => Ok(limit),
        Some(_) => Err(Fault::bad_request(format!("limit: expected a number from 1 to {MAX_PAGE}")).into()),
    }
}

/// Answers `GET /runs/{id}`.
pub(crate) async fn show(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Answer {
    let (_, row) = visible(&shared, &headers, Action::RunsRead, &id).await?;
    show_run(StatusCode::OK, &row)
}

/// Answers `POST /runs/{id}/cancel`.
pub(crate) async fn cancel(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Answer {
    let (_, row) = visible(&shared, &headers, Action::RunsCancel, &id).await?;
    let hub = shared.clone();
    let row = finish(&shared, async move { dispatch::cancel(&hub, row).await }).await?;
    show_run(StatusCode::OK, &row)
}

fn show_run(status: StatusCode, row: &RunRow) -> Answer {
    run_view::run(row)
        .map(|text| json_response(status, text))
        .map_err(unprintable)
}

/// Finds a run that the caller may do something with. A run of another workspace does not exist.
pub(crate) async fn visible(
    shared: &Hubbed,
    headers: &HeaderMap,
    action: Action,
    id: &str,
) -> Result<(std::sync::Arc<Principal>, RunRow), Refused> {
    let principal = caller(shared, headers).await?;
    principal.allow(action)?;
    let row = shared.store.run(id).await.map_err(storage)?;
    match row {
        Some(row) if row.workspace == principal.workspace().as_str() => Ok((principal, row)),
        _ => Err(Fault::not_found(format!("no run {id}"))
            .with_data("run", id)
            .into()),
    }
}
