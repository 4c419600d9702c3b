//! What containers have written, as the daemon streams it.

use std::sync::Arc;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::io::AsyncWriteExt as _;

use super::execs::hijack;
use super::reply::{Ask, Refusal, Reply, frame, streamed};
use super::state::{Container, Frame, Phase, Shared};

pub(super) fn read(shared: &Arc<Shared>, key: &str, ask: &Ask) -> Result<Reply, Refusal> {
    let (id, past) = shared.read(|state| {
        let container = state.container(key)?;
        Ok((container.id.clone(), lines(container)))
    })?;
    let wanted = Wanted::of(ask);
    let first: Vec<Bytes> = wanted
        .select(&past)
        .iter()
        .map(|one| frame(one.stderr, &one.bytes))
        .collect();
    let follower = Follower {
        shared: Arc::clone(shared),
        id,
        seen: past.len(),
        wanted,
        by_line: true,
    };
    let first = futures_util::stream::iter(first.into_iter().map(Ok));
    if !ask.flag("follow") {
        return Ok(streamed("application/vnd.docker.raw-stream", first));
    }
    let rest = futures_util::stream::unfold(follower, |mut follower| async move {
        let bytes = follower.next().await?;
        Some((Ok(bytes), follower))
    });
    let both = futures_util::StreamExt::chain(first, rest);
    Ok(streamed("application/vnd.docker.raw-stream", both))
}

/// Streams what is written from now on over a hijacked connection, after the log as it is kept with `logs`: half a line
/// from before is in neither. Input is ignored.
pub(super) fn attach(shared: &Arc<Shared>, key: &str, ask: Ask) -> Result<Reply, Refusal> {
    let (id, seen, kept) = shared.read(|state| {
        let container = state.container(key)?;
        let kept = if ask.flag("logs") {
            lines(container)
        } else {
            Vec::new()
        };
        Ok((container.id.clone(), container.log.len(), kept))
    })?;
    let wanted = Wanted::of(&ask);
    let kept = wanted.select(&kept);
    let mut follower = Follower {
        shared: Arc::clone(shared),
        id,
        seen,
        wanted,
        by_line: false,
    };
    let upgrade = ask
        .upgrade
        .ok_or_else(|| Refusal::new(400, "the fake only streams over a hijacked connection"))?;
    let stop = shared.stop.clone();
    let copy = async move {
        let mut stream = TokioIo::new(upgrade.await.map_err(std::io::Error::other)?);
        for one in kept {
            stream.write_all(&frame(one.stderr, &one.bytes)).await?;
        }
        while let Some(bytes) = follower.next().await {
            stream.write_all(&bytes).await?;
        }
        stream.shutdown().await
    };
    shared.tasks.spawn(async move {
        tokio::select! { () = stop.cancelled() => {}, _ = copy => {} }
    });
    Ok(hijack())
}

/// The log as it is kept: a line shows when it has ended, or the process has.
fn lines(container: &Container) -> Vec<Frame> {
    let mut ended = Vec::new();
    let mut open = [None::<Frame>, None];
    for piece in &container.log {
        let line = &mut open[usize::from(piece.stderr)];
        let mut bytes = line.take().map_or_else(Vec::new, |begun| begun.bytes.to_vec());
        bytes.extend_from_slice(&piece.bytes);
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let rest = bytes.split_off(end + 1);
            ended.push(Frame {
                bytes: Bytes::from(std::mem::replace(&mut bytes, rest)),
                ..piece.clone()
            });
        }
        if !bytes.is_empty() {
            *line = Some(Frame {
                bytes: Bytes::from(bytes),
                ..piece.clone()
            });
        }
    }
    if container.phase != Phase::Running {
        ended.extend(open.into_iter().flatten());
    }
    ended
}

struct Wanted {
    stdout: bool,
    stderr: bool,
    lines: Option<usize>,
    since: Option<i64>,
}

impl Wanted {
    fn of(ask: &Ask) -> Self {
        let since = ask
            .text("since")
            .split('.')
            .next()
            .and_then(|text| text.parse().ok());
        Self {
            stdout: ask.flag("stdout"),
            stderr: ask.flag("stderr"),
            lines: ask.text("tail").parse().ok(),
            since: since.filter(|since| *since > 0),
        }
    }

    fn has(&self, one: &Frame) -> bool {
        let stream = if one.stderr { self.stderr } else { self.stdout };
        let from = self.since.and_then(|since| Timestamp::from_second(since).ok());
        stream && from.is_none_or(|from| one.at >= from)
    }

    /// The last frames that make up the lines that are wanted.
    fn select(&self, past: &[Frame]) -> Vec<Frame> {
        let all: Vec<Frame> = past.iter().filter(|one| self.has(one)).cloned().collect();
        let Some(lines) = self.lines else { return all };
        let mut kept = 0;
        let mut ends = 0;
        for one in all.iter().rev() {
            ends += one.bytes.iter().filter(|byte| **byte == b'\n').count();
            if ends > lines {
                break;
            }
            kept += 1;
        }
        all[all.len() - kept..].to_vec()
    }
}

struct Follower {
    shared: Arc<Shared>,
    id: String,
    seen: usize,
    wanted: Wanted,
    /// Whole lines, rather than pieces as they were written.
    by_line: bool,
}

impl Follower {
    /// The next frame; `None` once the container has ended and all is told.
    async fn next(&mut self) -> Option<Bytes> {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let (fresh, running) = self.shared.read(|state| {
                let container = state.container(&self.id).ok()?;
                let fresh = if self.by_line {
                    lines(container).get(self.seen).cloned()
                } else {
                    container.log.get(self.seen).cloned()
                };
                Some((fresh, container.phase == Phase::Running))
            })?;
            match fresh {
                Some(one) => {
                    self.seen += 1;
                    if self.wanted.has(&one) {
                        return Some(frame(one.stderr, &one.bytes));
                    }
                }
                None if running => changed.changed().await.ok()?,
                None => return None,
            }
        }
    }
}
