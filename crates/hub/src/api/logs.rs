//! A run's log: as a document, or live.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use everdict_contracts::{Fault, LogLine, RunLogs};
use everdict_store::{LogRow, RunRow, RunStatus};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::watch;

use super::{Answer, Params, Refused, Segments, answer, runs::visible};
use crate::auth::Action;
use crate::clock;
use crate::dispatch::storage;
use crate::live::Progress;
use crate::shared::Hubbed;

/// Lines per read. A follower gets them in such steps, so that a long log takes bounded memory.
const STEP: u32 = 500;

/// Lines of a document when the caller does not say, and at most.
const DOCUMENT: u32 = 10_000;

/// How often a silent stream says that it is alive: below the minute after which proxies cut one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    follow: Option<String>,
    after: Option<String>,
}

fn wire_status(status: RunStatus) -> everdict_contracts::RunStatus {
    use everdict_contracts::RunStatus as Wire;
    match status {
        RunStatus::Queued => Wire::Queued,
        RunStatus::Running => Wire::Running,
        RunStatus::Succeeded => Wire::Succeeded,
        RunStatus::Failed => Wire::Failed,
    }
}

fn line(row: &LogRow) -> LogLine {
    LogLine {
        seq: row.seq,
        at: clock::iso(row.at),
        line: row.line.clone(),
    }
}

/// Answers `GET /runs/{id}/logs`: a JSON document, or server-sent events with `follow=1` or an `Accept`
/// of `text/event-stream`. Events carry line numbers as ids, so that `Last-Event-ID` resumes.
pub(crate) async fn logs(
    State(shared): State<Hubbed>,
    Segments(id): Segments<String>,
    Params(asked): Params<Asked>,
    headers: HeaderMap,
) -> Answer {
    let (_, run) = visible(&shared, &headers, Action::RunsRead, &id).await?;
    let after = start(&headers, &asked)?;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let streams = accept.is_some_and(|accept| accept.contains("text/event-stream"));
    if streams || matches!(asked.follow.as_deref(), Some("1" | "true")) {
        return follow(shared, run, after).await;
    }
    let rows = shared.store.logs(&id, after, DOCUMENT).await.map_err(storage)?;
    let text: Vec<_> = rows.iter().map(|row| row.line.as_str()).collect();
    let document = RunLogs {
        status: wire_status(run.status),
        found: !rows.is_empty(),
        text: text.join("\n"),
        last: Some(rows.last().map_or(after, |row| row.seq)),
        lines: Some(rows.iter().map(line).collect()),
    };
    answer(StatusCode::OK, &document)
}

fn start(headers: &HeaderMap, asked: &Asked) -> Result<u64, Refused> {
    let resumed = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    match resumed.or(asked.after.as_deref()).filter(|text| !text.is_empty()) {
        None => Ok(0),
        Some(text) => text
            .parse()
            .map_err(|_| Fault::bad_request(format!("after: expected a line number, not `{text}`")).into()),
    }
}

async fn follow(shared: Hubbed, run: RunRow, after: u64) -> Answer {
    let live = shared.live.find(&shared.store, &run.id).await.map_err(storage)?;
    let follower = Follower {
        shared,
        run: Arc::from(run.id),
        status: run.status,
        signal: live.map(|live| live.follow()),
        last: after,
        stage: Stage::Opening,
    };
    let frames = stream::unfold(follower, |mut follower| async move {
        let frame = follower.next().await?;
        Some((Ok::<_, Infallible>(frame), follower))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Reading,
    /// The run is over: what is stored goes out, whatever its numbering.
    Draining,
    Closed,
}

/// One reader of a live log.
struct Follower {
    shared: Hubbed,
    run: Arc<str>,
    status: RunStatus,
    /// Absent when the run was over when the reader came.
    signal: Option<watch::Receiver<Progress>>,
    last: u64,
    stage: Stage,
}

impl Follower {
    /// The next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.stage {
                Stage::Opening => {
                    self.stage = Stage::Reading;
                    return Some(self.status_event("status"));
                }
                Stage::Closed => return None,
                Stage::Reading | Stage::Draining => {}
            }
            // Seen before reading, so that nothing written in between is missed.
            let now = self.signal.as_mut().map(|signal| *signal.borrow_and_update());
            let over = now.is_none_or(|now| now.status.is_finished());
            if let Some(now) = now.filter(|now| now.status != self.status && !now.status.is_finished()) {
                self.status = now.status;
                return Some(self.status_event("status"));
            }
            if over {
                self.stage = Stage::Draining;
            }
            if let Some(lines) = self.read().await {
                return Some(lines);
            }
            if over {
                self.stage = Stage::Closed;
                return Some(self.end().await);
            }
            if let Some(beat) = self.wait().await {
                return Some(beat);
            }
        }
    }

    /// Reads the lines that come next. While the run goes on, a line whose predecessor is still on its
    /// way to the store has to wait for it.
    async fn read(&mut self) -> Option<Bytes> {
        let rows = match self.shared.store.logs(&self.run, self.last, STEP).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a live log broke off");
                self.stage = Stage::Closed;
                return None;
            }
        };
        let mut out = String::new();
        for row in &rows {
            if self.stage == Stage::Reading && row.seq != self.last + 1 {
                break;
            }
            self.last = row.seq;
            let data = serde_json::to_string(&line(row)).unwrap_or_default();
            let _ = write!(out, "id: {}\nevent: log\ndata: {data}\n\n", row.seq);
        }
        (!out.is_empty()).then(|| Bytes::from(out))
    }

    async fn end(&mut self) -> Bytes {
        if let Ok(Some(run)) = self.shared.store.run(&self.run).await {
            self.status = run.status;
        }
        self.status_event("end")
    }

    /// Waits for news; returns a sign of life when there are none for long.
    async fn wait(&mut self) -> Option<Bytes> {
        let signal = self.signal.as_mut()?;
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => self.stage = Stage::Closed,
            // A signal that is gone says that the run is over; its last value is read once more.
            gone = signal.changed() => if gone.is_err() && !signal.borrow().status.is_finished() {
                self.stage = Stage::Closed;
            },
            () = tokio::time::sleep(KEEP_ALIVE) => return Some(Bytes::from_static(b": keep-alive\n\n")),
        }
        None
    }

    fn status_event(&self, event: &str) -> Bytes {
        let status = self.status.as_str();
        Bytes::from(format!("event: {event}\ndata: {{\"status\":\"{status}\"}}\n\n"))
    }
}
