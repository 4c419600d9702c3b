//! Looks into a run: evidence pushed so far, the latest screen, and the case's folder while it runs.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use everdict_contracts::{Fault, FsAnswer, FsFileAnswer, FsRequest, FsRequestKind, FsTreeAnswer};
use everdict_store::RunStatus;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Answer, Params, Segments, answer, runs::visible, unprintable};
use crate::auth::Action;
use crate::clock;
use crate::dispatch::storage;
use crate::peers::News;
use crate::shared::Hubbed;

/// Pieces of evidence per page.
const PAGE: u32 = 200;

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    after: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    seq: u64,
    at: String,
    kind: &'a str,
    body: &'a RawValue,
}

#[derive(Debug, Serialize)]
struct Events<'a> {
    status: &'static str,
    events: Vec<Event<'a>>,
}

/// Answers `GET /runs/{id}/events`: trace batches and track entries in the order in which they came.
pub(crate) async fn events(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    Params(asked): Params<Asked>,
    headers: HeaderMap,
) -> Answer {
    let (_, run) = visible(&shared, &headers, Action::RunsRead, &id).await?;
    let rows = shared
        .store
        .events(&id, asked.after.unwrap_or_default(), PAGE)
        .await
        .map_err(storage)?;
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        events.push(Event {
            seq: row.seq,
            at: clock::iso(row.at),
            kind: &row.kind,
            body: serde_json::from_str(&row.body).map_err(unprintable)?,
        });
    }
    let status = run.status.as_str();
    answer(StatusCode::OK, &Events { status, events })
}

#[derive(Debug, Serialize)]
struct Screen {
    status: &'static str,
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

/// Answers `GET /runs/{id}/screen` with the latest frame, base64 PNG.
pub(crate) async fn screen(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Answer {
    let (_, run) = visible(&shared, &headers, Action::RunsRead, &id).await?;
    let frame = if shared.store.is_shared() {
        let frame = shared.store.screen(&id).await.map_err(storage)?;
        // What is left of a run that is over is about to be cleared away.
        frame
            .filter(|_| !run.status.is_finished())
            .map(|(frame, at)| (frame.into(), at))
    } else {
        shared.live.get(&id).and_then(|live| live.frame())
    };
    let screen = Screen {
        status: run.status.as_str(),
        found: frame.is_some(),
        at: frame.as_ref().map(|(_, at)| clock::iso(*at)),
        frame: frame.map(|(frame, _)| frame.to_string()),
    };
    answer(StatusCode::OK, &screen)
}

#[derive(Debug, Serialize)]
struct Look<T> {
    status: &'static str,
    found: bool,
    #[serde(flatten)]
    seen: Option<T>,
}

/// Answers `GET /runs/{id}/fs` with the changed files of a running case.
pub(crate) async fn tree(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Answer {
    let (status, answered) = look(&shared, &headers, &id, FsRequestKind::Tree, None).await?;
    let seen = match answered {
        Some(FsAnswer::Tree(FsTreeAnswer { tree })) => tree,
        Some(FsAnswer::File(_)) | None => None,
    };
    let found = seen.is_some();
    answer(StatusCode::OK, &Look { status, found, seen })
}

#[derive(Debug, Deserialize)]
pub(crate) struct FileAsked {
    path: Option<String>,
}

/// Answers `GET /runs/{id}/fs/file?path=…` with one file of a running case.
pub(crate) async fn file(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    Params(asked): Params<FileAsked>,
    headers: HeaderMap,
) -> Answer {
    let Some(path) = asked.path.filter(|path| !path.is_empty()) else {
        return Err(Fault::bad_request("path: name a file").into());
    };
    let (status, answered) = look(&shared, &headers, &id, FsRequestKind::File, Some(path)).await?;
    let seen = match answered {
        Some(FsAnswer::File(FsFileAnswer { file })) => file,
        Some(FsAnswer::Tree(_)) | None => None,
    };
    let found = seen.is_some();
    answer(StatusCode::OK, &Look { status, found, seen })
}

async fn look(
    shared: &Hubbed,
    headers: &HeaderMap,
    id: &str,
    kind: FsRequestKind,
    path: Option<String>,
) -> Result<(&'static str, Option<FsAnswer>), super::Refused> {
    let (_, run) = visible(shared, headers, Action::RunsRead, id).await?;
    let answered = match run.status {
        RunStatus::Running => {
            let tell = |request: &FsRequest| shared.tell(&News::Asked(id.to_owned(), request.clone()));
            shared.fs.ask(id, kind, path, tell).await
        }
        RunStatus::Queued | RunStatus::Succeeded | RunStatus::Failed => None,
    };
    Ok((run.status.as_str(), answered))
}
