//! What the members of a topology print while a case runs, for whoever looks at it live.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::port::TopologyUse;
use crate::context::Progress;

/// A longer line is cut here, as those of an agent are.
const MAX_LINE: usize = 16_000;

/// Lines of one member in one [`WINDOW`]. Nobody reads faster, and a service that logs each packet must not push the
/// agent's lines out of the view.
const MAX_LINES: u32 = 200;

const WINDOW: Duration = Duration::from_secs(1);

/// Who is shown, and to whom.
pub(crate) struct Members<'a> {
    pub(crate) topology: &'a dyn TopologyUse,
    pub(crate) names: Vec<String>,
    /// What they have printed so far belongs to the case too.
    pub(crate) from_start: bool,
    pub(crate) progress: &'a dyn Progress,
}

impl Members<'_> {
    /// Shows each line as it comes, until dropped.
    pub(crate) async fn show(&self) -> Infallible {
        join_all(self.names.iter().map(|name| self.follow(name))).await;
        pending().await
    }

    async fn follow(&self, name: &str) {
        let Some(mut pieces) = self.topology.follow(name, self.from_start).await else {
            return;
        };
        let mut lines = Lines::default();
        let mut pace = Pace::starting(Instant::now());
        while let Some(piece) = pieces.next().await {
            for line in lines.take_in(&piece) {
                self.line(name, &line, &mut pace);
            }
        }
        if let Some(line) = lines.rest() {
            self.line(name, &line, &mut pace);
        }
    }

    fn line(&self, name: &str, line: &str, pace: &mut Pace) {
        let passed = pace.passes(Instant::now());
        if let Some(left_out) = passed.left_out {
            let words =
                format!("[everdict] {left_out} lines are not shown here: more than {MAX_LINES} a second");
            self.progress.log_of(name, &words);
        }
        if passed.shown {
            self.progress.log_of(name, line);
        }
    }
}

/// Puts pieces together to lines.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    fn take_in(&mut self, piece: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        let mut parts = piece.split(|byte| *byte == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.add(part);
            ended.push(text(&std::mem::take(&mut self.begun)));
        }
        self.add(last);
        ended
    }

    /// What has no end.
    fn rest(&mut self) -> Option<String> {
        (!self.begun.is_empty()).then(|| text(&std::mem::take(&mut self.begun)))
    }

    /// Keeps no more of a line than is shown.
    fn add(&mut self, part: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&part[..part.len().min(room)]);
    }
}

fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

/// Counts the lines of one window.
struct Pace {
    since: Instant,
    lines: u32,
}

struct Passed {
    shown: bool,
    /// How many were not shown in the window before, at the first line of the next.
    left_out: Option<u32>,
}

impl Pace {
    fn starting(since: Instant) -> Self {
        Self { since, lines: 0 }
    }

    fn passes(&mut self, now: Instant) -> Passed {
        let mut left_out = None;
        if now.duration_since(self.since) >= WINDOW {
            left_out = self.lines.checked_sub(MAX_LINES).filter(|count| *count > 0);
            *self = Self::starting(now);
        }
        self.lines = self.lines.saturating_add(1);
        Passed {
            shown: self.lines <= MAX_LINES,
            left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_lines_whole_characters_and_no_more_of_one_than_is_shown() {
        let mut lines = Lines::default();
        let word = "日本\r\n".as_bytes();
        assert!(lines.take_in(&word[..4]).is_empty());
        assert_eq!(lines.take_in(&word[4..]), ["日本"]);
        assert_eq!(lines.take_in(b"a\n\nb"), ["a", ""]);
        assert_eq!(lines.rest().as_deref(), Some("b"));
        assert_eq!(lines.rest(), None);
        for _ in 0..10 {
            assert!(lines.take_in(&[b'x'; 5_000]).is_empty());
        }
        assert_eq!(lines.begun.len(), MAX_LINE);
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let mut pace = Pace::starting(start);
        let shown = (0..1_000).filter(|_| pace.passes(start).shown).count();
        assert_eq!(shown, 200);
        let next = pace.passes(start + WINDOW);
        assert_eq!((next.shown, next.left_out), (true, Some(800)));
        assert_eq!(pace.passes(start + 2 * WINDOW).left_out, None);
    }
}
