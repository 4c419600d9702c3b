//! The harness registry: a version never changes.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use everdict_contracts::{ErrorCode, Fault, HarnessRef, HarnessSpec};
use everdict_store::{HarnessRow, Outcome, Write};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Answer, Segments, answer, caller, json_body, unprintable};
use crate::auth::Action;
use crate::clock;
use crate::dispatch::storage;
use crate::shared::Hubbed;

/// Registers the harness in the body: 201, or 200 when this very spec is registered already.
pub(crate) async fn register(State(shared): State<Hubbed>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let principal = caller(&shared, &parts.headers).await?;
    let spec: HarnessSpec = json_body(body).await?;
    let subject = principal.allow(Action::HarnessesWrite)?;
    if spec.id().is_empty() {
        return Err(Fault::bad_request("id: must not be empty").into());
    }
    let row = HarnessRow {
        workspace: principal.workspace().to_string(),
        id: spec.id().to_owned(),
        version: spec.version().to_owned(),
        spec: serde_json::to_string(&spec).map_err(unprintable)?,
        created_by: subject.to_string(),
        created_at: clock::now(),
    };
    let named = HarnessRef::new(spec.id(), spec.version());
    let outcome = shared.store.write(Write::InsertHarness(row.clone())).await;
    if outcome.map_err(storage)? == Outcome::Applied {
        return answer(StatusCode::CREATED, &named);
    }
    let known = shared.store.harness(&row.workspace, &row.id, &row.version);
    match known.await.map_err(storage)? {
        Some(known) if known.spec == row.spec => answer(StatusCode::OK, &named),
        _ => {
            let text =
                format!("{named} is registered with another spec: a version never changes, pick a new one");
            Err(Fault::new(ErrorCode::Conflict, text)
                .with_data("id", named.id)
                .with_data("version", named.version)
                .into())
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    id: &'a str,
    version: &'a str,
    created_by: &'a str,
    created_at: String,
    spec: &'a RawValue,
}

#[derive(Debug, Serialize)]
struct List<'a> {
    harnesses: Vec<View<'a>>,
}

/// Answers `GET /harnesses`.
pub(crate) async fn list(State(shared): State<Hubbed>, headers: HeaderMap) -> Answer {
    let principal = caller(&shared, &headers).await?;
    principal.allow(Action::HarnessesRead)?;
    let rows = shared
        .store
        .harnesses(principal.workspace().as_str())
        .await
        .map_err(storage)?;
    let harnesses = rows
        .iter()
        .map(view)
        .collect::<Result<_, _>>()
        .map_err(unprintable)?;
    answer(StatusCode::OK, &List { harnesses })
}

/// Answers `GET /harnesses/{id}/{version}`.
pub(crate) async fn show(
    State(shared): State<Hubbed>,
    Segments((id, version)): Segments<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let principal = caller(&shared, &headers).await?;
    principal.allow(Action::HarnessesRead)?;
    let found = shared
        .store
        .harness(principal.workspace().as_str(), &id, &version);
    match found.await.map_err(storage)? {
        Some(row) => answer(StatusCode::OK, &view(&row).map_err(unprintable)?),
        None => Err(Fault::not_found(format!("no harness {id}@{version} is registered")).into()),
    }
}

fn view(row: &HarnessRow) -> Result<View<'_>, serde_json::Error> {
    Ok(View {
        id: &row.id,
        version: &row.version,
        created_by: &row.created_by,
        created_at: clock::iso(row.created_at),
        spec: serde_json::from_str(&row.spec)?,
    })
}
